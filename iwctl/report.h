/* SPDX-License-Identifier: MIT */
/* The parts of a report, and how they are gathered. */
#ifndef IWCTL_REPORT_H
#define IWCTL_REPORT_H

#include <jansson.h>
#include <signal.h>

/*
 * Writes a .tar.gz to fd. A part that cannot be had is a line in it: steps, an array, gets an object for each part: part, ok and, unless it is, why.
 * Returns 0, or -errno when there is no bundle; -EINTR when *stop came to be true.
 */
int report_gather(int fd, json_t *steps, const volatile sig_atomic_t *stop);

#endif
