/* SPDX-License-Identifier: MIT */
/* Packets on the control connection: one message at a time, with the descriptors that go with it. */
#ifndef IW_PRELOAD_CTL_IO_H
#define IW_PRELOAD_CTL_IO_H

#include <stdint.h>

#include "proto/ctlmsg.h"

#pragma GCC visibility push(hidden)

union iw_daemon_in {
	struct iw_ctl_hdr h;
	uint8_t b[IW_CTL_MAX];
};

/*
 * An answer may take IW_DAEMON_GRACE_MS longer than the daemon itself allows, since the machine may be busy. Of that a daemon gets nothing that
 * neither runs nor has read what it was sent: it stands still.
 */
#define IW_DAEMON_GRACE_MS	1000u

/* Until fd shows events: 0, -ETIMEDOUT at CLOCK_MONOTONIC ms until, or -errno. */
int iw_daemon_io_wait(int fd, short events, uint64_t until);
/* The same on a control connection, and -ETIMEDOUT also when the daemon stands still, from `from` on. */
int iw_daemon_io_wait_answer(int fd, short events, uint64_t from, uint64_t until);
/* Without waiting: octets, or -errno. fd_in -1: no descriptor. */
long iw_daemon_io_send(int fd, void *msg, int fd_in);
/* 0, -ENOTCONN, -ETIMEDOUT, or another -errno. */
int iw_daemon_io_send_until(int fd, void *msg, int fd_in, uint64_t until);
/* One checked message, if there is one: 0, -EAGAIN, or the connection is of no more use (-ENOTCONN, -EPROTO). */
int iw_daemon_io_receive(int fd, union iw_daemon_in *in, int fds[2]);

#pragma GCC visibility pop
#endif
