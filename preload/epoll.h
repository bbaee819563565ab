/* SPDX-License-Identifier: MIT */
/* Which epoll sets hold which of our fds. Where nothing else is said callers hold iw_tab_lock. */
#ifndef IW_PRELOAD_EPOLL_H
#define IW_PRELOAD_EPOLL_H

#include <stdbool.h>

#include "candidate.h"
#include "sets.h"

#pragma GCC visibility push(hidden)

/*
 * Before a switch, behind the gate: register all sets that hold the file, as note and kernel have it. -errno: there is one that it cannot be
 * moved along in (now). Takes the lock; iw_reg_forget() undoes it.
 */
int iw_reg_learn(const struct iw_files *v, const struct iw_epoll_note *n);
/* May fd's registrations be made again for another file, so that nobody notices? */
bool iw_reg_may_move(int fd);
int iw_reg_detach(int fd);		/* DEL everywhere before a swap; -errno: one of them could not (all are back in place) */
void iw_reg_attach(int fd, bool other);	/* ADD everywhere after it; other: it is another file now */
bool iw_reg_lost(int fd);		/* registrations of fd are known to be incomplete */
void iw_reg_drop_fd(int fd);
void iw_reg_forget(int fd);		/* the same; takes the lock, and only when there is something */

/* epfd is an epoll set. No lock. */
void iw_set_seen(int epfd);

/* Call when fd's fixed bits may have become more without a wake-up from the kernel (IW_SHUT_RST was set): epoll looks again. Takes the
 * lock. */
void iw_epoll_look_again(int fd);

/* A stream was shut for writing: the sets that wait for room in it are told. Takes the lock. */
void iw_epoll_room(int fd);
/* Is fd a hidden descriptor of ours, and it has to go elsewhere, see iw_internal_make_way(). They take the lock. */
bool iw_reg_owns(int fd);
void iw_reg_make_way(int fd);

#pragma GCC visibility pop
#endif
