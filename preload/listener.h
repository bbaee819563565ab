/* SPDX-License-Identifier: MIT */
/* Listening sockets of this process and what the daemon knows of them. */
#ifndef IW_PRELOAD_LISTENER_H
#define IW_PRELOAD_LISTENER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/reason.h"

#pragma GCC visibility push(hidden)

struct iw_listener {
	uint32_t refs;		/* fds of this process; 0: free */
	uint32_t next;		/* free list: index + 1 */
	int fd;			/* one of them, for registering again */
	bool policy_tcp;	/* never registered */
	enum iw_reason refused;	/* the daemon did not want it */
	uint64_t cookie;
	uint32_t forks;		/* iw_forks when it was made: children made since may hold it */
	_Atomic uint64_t ctl_gen;	/* connection that knows it */
};

struct iw_listener *iw_listener_of(uint32_t w);	/* of an fd's word; NULL: none */
/* First accept on an fd that we did not see listening: inherited from systemd, inetd or a parent. NULL: it does not listen. */
struct iw_listener *iw_listener_look_at(int fd, uint32_t w);
/* Make sure that the daemon knows the listener, from this process. Once per connection to the daemon. */
void iw_listener_register(struct iw_listener *l, int fd);

/* A new connection to the daemon: it gets all listeners, before anything else is asked. Under the lock of the connection. */
void iw_listeners_register(int (*ask)(void *msg, int fd, void *reply, size_t size));
void iw_listeners_activated(int n);	/* LISTEN_FDS: 3 to 2 + n */

/* Listeners of a forked child, or from systemd, wait to be registered: the waiting calls do it before they sleep. */
extern _Atomic uint32_t iw_listeners_pending;
void iw_listeners_look(void);
static inline void iw_waiting(void)
{
	if (__builtin_expect(atomic_load_explicit(&iw_listeners_pending, memory_order_relaxed), 0))
		iw_listeners_look();
}

#pragma GCC visibility pop
#endif
