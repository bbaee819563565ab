/* SPDX-License-Identifier: MIT */
/* One open file in the place of another, and what belongs to the open file and has to be brought over. */
#ifndef IW_PRELOAD_SWAP_H
#define IW_PRELOAD_SWAP_H

#include <fcntl.h>
#include <sys/time.h>

#pragma GCC visibility push(hidden)

/* Put the carrier in the place of fd, epoll registrations included. 0, or -errno with nothing changed. */
int iw_swap(int fd, int carrier);

struct iw_flags {
	long fl, sig;		/* O_NONBLOCK, O_ASYNC; F_GETSIG */
	struct f_owner_ex own;
	struct timeval rcv, snd;	/* SO_RCVTIMEO, SO_SNDTIMEO */
};
void iw_flags_read(int fd, struct iw_flags *f);
void iw_flags_write(int fd, const struct iw_flags *f);

#pragma GCC visibility pop
#endif
