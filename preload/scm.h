/* SPDX-License-Identifier: MIT */
/* Descriptors passed by SCM_RIGHTS. */
#ifndef IW_PRELOAD_SCM_H
#define IW_PRELOAD_SCM_H

#include <stdbool.h>
#include <sys/socket.h>

#pragma GCC visibility push(hidden)

/*
 * Before and after a sendmsg that may pass descriptors on: sockets that are shared before they are connected stay plain. A connect
 * under way has to be settled before; for the rest the time is when the kernel has sent the message, which shows that it can be read.
 */
void iw_rights_leaving(const struct msghdr *m);
void iw_rights_left(const struct msghdr *m);

#pragma GCC visibility pop
#endif
