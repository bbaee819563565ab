/* SPDX-License-Identifier: MIT */
/* Packets on the control connection (ctl_io.c). */
#ifndef IW_PRELOAD_CTL_IO_H
#define IW_PRELOAD_CTL_IO_H

#include "core.h"

#pragma GCC visibility push(hidden)

union iw_ctl_in {
	struct iw_ctl_hdr h;
	uint8_t b[IW_CTL_MAX];
};

/* Until fd shows events: 0, -ETIMEDOUT at CLOCK_MONOTONIC ms until, or -errno. */
int iw_ctl_wait(int fd, short events, uint64_t until);
/* Without waiting: octets, or -errno. fd_in -1: no descriptor. */
long iw_ctl_send(int fd, void *msg, int fd_in);
/* 0, -ENOTCONN, -ETIMEDOUT, or another -errno. */
int iw_ctl_send_until(int fd, void *msg, int fd_in, uint64_t until);
/* One checked message, if there is one: 0, -EAGAIN, or the connection is of no more use (-ENOTCONN, -EPROTO). */
int iw_ctl_receive(int fd, union iw_ctl_in *in, int fds[2]);

#pragma GCC visibility pop
#endif
