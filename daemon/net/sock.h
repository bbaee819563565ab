/* SPDX-License-Identifier: MIT */
/* Questions to the kernel about TCP sockets. */
#ifndef IWARPD_SOCK_H
#define IWARPD_SOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/addr.h"
#include "proto/reason.h"

/* A TCP socket (IPv4 or IPv6, not MPTCP) of that network namespace? ACCELERATED, NOT_STREAM or NETNS. */
enum iw_reason sock_check(int fd, uint64_t netns);
int sock_state(int fd);						/* TCP_ESTABLISHED, ... or -errno */
int sock_name(int fd, struct iw_addr *a, bool peer);
uint64_t sock_cookie(int fd);
uint64_t sock_own_netns(void);					/* the cookie of our network namespace */

#endif
