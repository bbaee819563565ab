/* SPDX-License-Identifier: MIT */
/* Which epoll sets hold which of our fds. Where nothing else is said callers hold iw_tab_lock. */
#ifndef IW_PRELOAD_REG_H
#define IW_PRELOAD_REG_H

#include <stdbool.h>
#include <sys/epoll.h>

#include "candidate.h"
#include "sets.h"
#include "stream.h"

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
/*
 * Behind the gate, before iw_reg_detach(): may what waits for fd be moved to its mapped socket (iw_stream.mapped), or again to fd? Asks the
 * kernel of ONESHOT entries whether they have fired, which they stay. Takes the lock.
 */
bool iw_reg_may_map(int fd);
bool iw_reg_lost(int fd);		/* registrations of fd are known to be incomplete */
void iw_reg_drop_fd(int fd);
void iw_reg_forget(int fd);		/* the same; takes the lock, and only when there is something */

/* epfd is an epoll set: made by this process; or seen to be one. No lock. */
void iw_set_born(int epfd);
void iw_set_seen(int epfd);

/* Something was moved since iw_reg_swaps was seq, and for a moment no look at a set could find it: it is there now. Takes the lock. */
bool iw_reg_was_apart(uint32_t seq);

/* Call when fd's fixed bits may have become more without a wake-up from the kernel (IW_SHUT_RST was set): epoll looks again. Takes the
 * lock. */
void iw_reg_look_again(int fd);

/* A stream was shut for writing: the sets that wait for room in it are told. Takes the lock. */
void iw_reg_room(int fd);
/* Is fd a hidden descriptor of ours, and it has to go elsewhere, see iw_internal_make_way(). They take the lock. */
bool iw_reg_owns(int fd);
void iw_reg_make_way(int fd);

/* ---- for epoll.c ---- */

struct iw_reg {
	_Atomic uint64_t data;
	_Atomic int fd, epfd;		/* epfd -1: the set lives on under a number we do not know */
	_Atomic int at;		/* the number by which the kernel's set has it: fd, or what is waited on in its place (iw_stream_wait_fd) */
	_Atomic uint32_t events;
	uint32_t swapped;	/* value of iw_reg_swaps when it moved to a carrier; 0 never */
	uint32_t next_fd, next_hash;	/* index + 1 */
	bool parked;		/* taken out of the kernel's set, because only bits that TCP would not show are ready */
	int room;		/* what says EPOLLOUT for a full carrier that was shut for writing; 0: nothing */
	uint64_t room_ino;
	bool fired;		/* the same, because it reports once and has done so */
	bool moving;		/* a candidate's, about to be moved; fired then: it has reported, and the kernel has it still */
	bool apart;		/* on its way from one file to another: the kernel's set has it under neither */
	bool raw;		/* the program registers by other ways, which must find it in the kernel's set */
	/* of one that is mapped, see ready.c; with those above that are atomic, used without the lock */
	struct iw_stream *_Atomic s;
	_Atomic uint32_t set;		/* iw_set_of() */
	_Atomic uint32_t asked;		/* events that the kernel has */
	_Atomic uint32_t seen_in, seen_out;	/* came and room of the stream, when it was reported last */
	_Atomic uint64_t look;		/* in which it was reported last: its number, above the place of the event */
	_Atomic bool spent;		/* ONESHOT, and was reported */
	_Atomic bool left;		/* the program has taken it out, the kernel has it still: spent, too */
};

extern _Atomic uint32_t iw_reg_swaps;	/* becomes more with each iw_reg_attach() */
extern _Atomic uint32_t iw_reg_apart;	/* registrations that are; only while iw_tab_lock is held, or their fd is being closed */
extern _Atomic uint32_t iw_reg_rooms;	/* registrations with room */
extern struct iw_reg iw_reg_kicker;
extern _Atomic bool iw_reg_mapped;	/* some registration is, or was, that of a mapped stream */
extern _Atomic bool iw_reg_nested;	/* some is, or was, that of a set in a set */

#define IW_REG_MANY	UINT32_MAX	/* iw_stream.reg: the lock is needed to find them */

static inline bool iw_reg_is_mapped(const struct iw_reg *r)
{
	return atomic_load(&r->at) != atomic_load(&r->fd);
}

/* One that reports what is ready for as long as it is. */
static inline bool iw_reg_is_level(uint32_t events)
{
	return !(events & (EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE));
}

/* What the kernel's data of a mapped one stand for, &iw_reg_kicker for iw_reg_kick(), or NULL: the data are a program's. No lock. */
struct iw_reg *iw_reg_of(uint64_t data);
struct iw_reg *iw_reg_at(uint32_t index);
uint32_t iw_reg_index(const struct iw_reg *r);
struct iw_reg *iw_reg_next(int fd, const struct iw_reg *last);	/* of one fd; last NULL: the first */
uint32_t iw_reg_end(void);		/* no index from here on was ever used */
/* The kernel is asked for what a mapped one needs now; again: also when that has not changed. Takes the lock. */
void iw_reg_sync(struct iw_reg *r, bool again);
void iw_reg_kick(int epfd);		/* some wait for the set returns. No lock */
void iw_reg_unkick(int epfd);		/* none does for that */
/* The set, whatever its number; 0: none that we know. */
uint32_t iw_set_of(int epfd);
/* May a mapped stream be added to it? Takes the lock. */
bool iw_set_serves(int epfd);
/* Somebody waits for it by calls that we see. */
void iw_set_waited(int epfd, uint32_t set);

struct iw_reg *iw_reg_find(int fd, int epfd);	/* as the program has it */
/* The next one behind last, NULL: the first, of those in the set with this data. */
struct iw_reg *iw_reg_by_data(int epfd, uint64_t data, const struct iw_reg *last);
void iw_reg_add(int fd, int epfd, const struct epoll_event *ev);
void iw_reg_change(struct iw_reg *r, const struct epoll_event *ev);	/* MOD */
void iw_reg_del(struct iw_reg *r);
long iw_reg_ctl(struct iw_reg *r, int op);	/* in the kernel's set; -errno */
/*
 * Who takes a mapped stream out of a set often puts it back soon, so the kernel's entry stays where it does no harm, and its next event takes it
 * out. leave: false: it is to be deleted. enter: false: there is none; with ev NULL never.
 */
bool iw_reg_leave(struct iw_reg *r);
bool iw_reg_enter(int fd, int epfd, const struct epoll_event *ev);
bool iw_reg_stands(const struct iw_reg *r);	/* the kernel's entry is what is to be asked for */
void iw_reg_left(struct iw_reg *r);	/* the kernel said something of one that was left. Takes the lock */
void iw_reg_room_drop(struct iw_reg *r);
void iw_reg_room_update(struct iw_reg *r);
/* What was done to the entry of a set in a set. Takes the lock. */
void iw_reg_nest(int epfd, int op, int inner, const struct epoll_event *ev);
void iw_note_change(struct iw_epoll_note *n, int epfd, int op, int fd, const struct epoll_event *ev);

#pragma GCC visibility pop
#endif
