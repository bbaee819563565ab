/* SPDX-License-Identifier: MIT */
/* Descriptors passed by SCM_RIGHTS. */
#ifndef IW_PRELOAD_SCM_H
#define IW_PRELOAD_SCM_H

#include <stdbool.h>
#include <sys/socket.h>

#pragma GCC visibility push(hidden)

/*
 * Before and after a sendmsg that may pass descriptors on. After it the message is known to be one that can be read; but another thread
 * might have switched such a socket in between, so where there is one it is looked at before.
 */
void iw_rights_leaving(const struct msghdr *m);
void iw_rights_left(const struct msghdr *m);
/* The same by another way: whoever gets it is not known. */
void iw_fd_passed_on(int fd);

#pragma GCC visibility pop
#endif
