/* SPDX-License-Identifier: MIT */
/* connect() on the kinds of fds for which it is not simply the original's. */
#ifndef IW_PRELOAD_CONNECT_H
#define IW_PRELOAD_CONNECT_H

#include <stdint.h>
#include <sys/socket.h>

#pragma GCC visibility push(hidden)

int iw_connect_other(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len);
int iw_connect_tcp(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len);
int iw_connect_again(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len);	/* CONNECTING */
int iw_connect_stream(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len);

#pragma GCC visibility pop
#endif
