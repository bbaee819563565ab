/* SPDX-License-Identifier: MIT */
/* A call on a mapped stream sleeps: until TCP has something, takes something, a handler comes, time is over, or another thread wakes it. */
#ifndef IW_PRELOAD_PATHS_MAPPED_SLEEP_H
#define IW_PRELOAD_PATHS_MAPPED_SLEEP_H

#include "preload/paths/mapped_call.h"

#pragma GCC visibility push(hidden)

/* It may: neither MSG_DONTWAIT nor O_NONBLOCK. */
bool iw_mapped_waits(struct iw_mapped_call *c);
/*
 * Under the lock, which is left meanwhile: until there may be something new of what (IW_END_IN, IW_END_OUT). 0, EINTR, or EAGAIN: time is
 * over. Afterwards it may not be iw_mapped_here() any more.
 */
int iw_mapped_wait(struct iw_mapped_call *c, unsigned int what, int option);
/* Where nobody can come in between: the octets themselves, locked. As above. */
int iw_mapped_receive(struct iw_mapped_call *c);
/* The end of a call that slept. Not locked. */
void iw_mapped_outside(struct iw_mapped_call *c);

#pragma GCC visibility pop

#endif
