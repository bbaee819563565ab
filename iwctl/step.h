/* SPDX-License-Identifier: MIT */
/* Runs another program for so long and no longer. */
#ifndef IWCTL_STEP_H
#define IWCTL_STEP_H

#include <signal.h>

/*
 * argv[0] is looked for in PATH; no standard input. Its exit status; -errno when it could not be run, -ETIMEDOUT when it did not end in time and
 * was killed with all that it started, -EINTR when *stop came to be true, -ECANCELED when a signal ended it.
 */
int step_run(char *const argv[], int out, int err, unsigned int limit_ms, const volatile sig_atomic_t *stop);

#endif
