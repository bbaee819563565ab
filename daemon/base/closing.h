/* SPDX-License-Identifier: MIT */
/*
 * Closing what an application may still have its hands on. A close can wait: a socket with SO_LINGER for its peer, a file for its
 * file system, which may be a process (FUSE). The engine must not wait with it.
 */
#ifndef IWARPD_CLOSING_H
#define IWARPD_CLOSING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define IW_SCM_MAX	253	/* descriptors in one message; what there is no room for the kernel closes in this thread */

/* Close a socket within 0.2 ms, on a busy machine a few: a lingering close is cut short, the connection ends as without SO_LINGER. */
void close_socket(int fd);
/*
 * Close whatever user uid passed, or a unix socket that he has the other end of: TCP and UDP sockets and unix sockets that hold no
 * descriptors at once, the rest by a worker of the kernel, done when it is done.
 */
void close_passed(int fd, uint32_t uid);
/* The descriptors a received message came with: the first max of them into fds, the rest closed. Returns how many there were. */
unsigned int passed_take(struct msghdr *m, int *fds, unsigned int max, uint32_t uid);
/* So many closes of this user are under way that it may not begin anything new. */
bool closing_too_many(uint32_t uid);

#endif
