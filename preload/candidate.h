/* SPDX-License-Identifier: MIT */
/*
 * Candidates: TCP sockets of this process that are the kernel's own, from socket() or accept() on. Their calls and octets are counted;
 * one that has shown that it is worth it is proposed (propose.c) and may become a stream (switch.c).
 */
#ifndef IW_PRELOAD_CANDIDATE_H
#define IW_PRELOAD_CANDIDATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/single_threaded.h>
#include <sys/types.h>

#include "proto/reason.h"
#include "fdtab.h"
#include "lib.h"

#pragma GCC visibility push(hidden)

enum iw_candidate_state {
	IW_YOUNG,		/* counts only */
	IW_PROPOSED,		/* the daemon of proposed_gen knows it, GO may come */
	IW_PLAIN,		/* stays TCP for good; conn_id, if there is one, is known to the daemon as such */
};

/* The switch was not possible, and what it waits for is looked for at the end of each call. */
enum iw_candidate_wait {
	IW_WAIT_NONE,
	IW_WAIT_UNREAD,		/* that nothing is unread */
	IW_WAIT_TOLD,		/* that what the program was told of is read */
	IW_WAIT_THREAD,		/* that whoever was inside another call is out */
};

/* Bits of flags. */
#define IW_CAND_CLIENT	1u	/* made by socket() */
#define IW_CAND_TAKEN	2u	/* a thread is at its proposal or its switch */
#define IW_CAND_PASSED	4u	/* passed on by SCM_RIGHTS: who has it nobody knows */
#define IW_CAND_URGENT	8u	/* the program uses urgent data */
#define IW_CAND_OPTION	16u	/* the program uses what only TCP has and nobody can ask for */
#define IW_CAND_LOST	32u	/* an epoll set has it under a number that was closed */
#define IW_CAND_STAYS	64u	/* a program that is being started will have it (exec.c) */
#define IW_CAND_UNSEEN	128u	/* octets move inside libc, since stdio has it, or by the program's own system calls */
#define IW_CAND_JUDGED	256u	/* PROPOSED: its gain was asked about (gain.h), and is again as it goes on, */
#define IW_CAND_GAIN	1536u	/* and was this times IW_CAND_GAIN_1 */
#define IW_CAND_GAIN_1	512u
#define IW_CAND_FILE	2048u	/* since it was judged the kernel has moved octets from a file or a pipe to it */

#define IW_CAND_TRIES	8	/* doublings of the time until it is tried again */

/*
 * What epoll_ctl() was told of it: one set, under one number. Whoever changes it has seq odd meanwhile; who finds it odd says unsure, as
 * does whatever has no room here: then the kernel is asked.
 */
struct iw_epoll_note {
	_Atomic uint32_t seq;
	_Atomic uint32_t unsure;
	int fd, epfd;		/* fd -1: in no set */
	uint32_t set;		/* word of epfd */
	uint32_t events;
	uint32_t forks;		/* a child has what was registered before the fork in its hands */
	uint64_t data;
};

/* At the index that its holders are counted at; all fds duplicated from one share it. Entries are never unmapped: a racing reader sees another one. */
struct iw_candidate {
	_Atomic uint64_t octets;	/* moved by calls that are over, but for those of a handler in a process of one thread */
	_Atomic uint32_t calls;		/* by plain loads and stores: threads may lose some */
	uint32_t judged_calls;		/* its gain is judged by what it has carried since these, and so many KiB; who has it TAKEN */
	_Atomic uint32_t at_calls;	/* when it is due: at one of these */
	uint32_t judged_kib;
	_Atomic uint64_t at_octets;
	uint32_t base;			/* what the kernel had counted when octets began, modulo 2^32: 0, but for one that came back */
	_Atomic uint32_t told;		/* octets unread that the program was told of (FIONREAD, MSG_PEEK) since told_end was set */
	_Atomic uint32_t refs;		/* fds of this process */
	_Atomic uint32_t flags;
	_Atomic uint8_t state, wait;	/* enum iw_candidate_state, iw_candidate_wait */
	_Atomic uint8_t due;		/* the next call that moves data has to look (iw_candidate_look) */
	/* changed by who has it TAKEN: */
	_Atomic uint32_t conn_id;	/* as the daemon knows it; 0: it does not */
	uint16_t why;			/* the reason that was told last */
	uint8_t tries, waits;		/* switches in vain, to go by when it is tried again; those since that were worth waiting */
	_Atomic uint32_t since, rest;	/* it waits since so many calls, for GO, too; and is not tried before so many */
	_Atomic uint32_t gen;		/* connection to the daemon that heard of it */
	_Atomic uint64_t way;		/* IW_WAIT_THREAD: whose call (iw_quiet); IW_WAIT_TOLD: up to which position */
	uint64_t told_end;		/* the program knows of the octets before this position, of those that come */
	struct iw_epoll_note note;
};

extern struct iw_candidate *_Atomic iw_candidates;

/* Of a word that was set. */
static inline struct iw_candidate *iw_candidate_at(uint32_t idx)
{
	return &atomic_load_explicit(&iw_candidates, memory_order_relaxed)[idx];
}

static inline uint32_t iw_candidate_index(const struct iw_candidate *c)
{
	return (uint32_t)(c - atomic_load_explicit(&iw_candidates, memory_order_relaxed));
}

/* The word of a new one, with one fd; IW_OTHER_SEEN when there is no room. No system call but for the first one of a process. */
uint32_t iw_candidate_born(bool client);
/* It is another connection, or none, from now on: connect() has begun one. */
void iw_candidate_again(struct iw_candidate *c);
/* One fd less: the last one tells the daemon, if that knows it. */
void iw_candidate_put(struct iw_candidate *c);
/* Its fds are those of a stream now, which has its conn_id and its holders. Who had it TAKEN has nothing any more. */
void iw_candidate_gone(struct iw_candidate *c);
/* It is one again, with so many fds, proposed to the daemon as before, and with so many octets moved, as the kernel counts them. */
void iw_candidate_back(struct iw_candidate *c, uint32_t fds, uint32_t conn_id, uint64_t moved);

/* One of IW_CAND_*, from a call on it. */
static inline void iw_candidate_flag(struct iw_candidate *c, uint32_t flag)
{
	if (!(atomic_load_explicit(&c->flags, memory_order_relaxed) & flag))
		atomic_fetch_or(&c->flags, flag);
}

/* The program was told that so many octets are unread. Inside a call on it. */
static inline void iw_candidate_told(struct iw_candidate *c, long n)
{
	uint32_t had = atomic_load(&c->told);

	while (n > (long)had && !atomic_compare_exchange_weak(&c->told, &had, (uint32_t)n))
		;
}

/* Whoever asks or tells the daemon about it has it for himself meanwhile. With signals blocked. */
bool iw_candidate_take(struct iw_candidate *c);
void iw_candidate_leave(struct iw_candidate *c);
bool iw_candidate_known(const struct iw_candidate *c);	/* to the daemon, by its conn_id */
void iw_candidate_closed(struct iw_candidate *c);	/* from now on not any more */

/* When it is due: at so many calls or octets since it began, so many more, or never: it stays plain. */
void iw_candidate_at_least(struct iw_candidate *c, uint32_t calls, uint32_t octets);
void iw_candidate_later(struct iw_candidate *c, uint32_t calls, uint64_t octets);
void iw_candidate_never(struct iw_candidate *c);

/*
 * It is due, and the call has begun (iw_call_begin): whatever is to be done about it now, from the proposal to the switch. Waits for its
 * own daemon at most, and upgrade_wait. Keeps errno. The word of fd may be a stream's afterwards.
 */
void iw_candidate_look(int fd, struct iw_candidate *c);
/* After a call on it: what it waits for is over, and iw_candidate_look() would go on. Keeps errno. */
bool iw_candidate_ripe(int fd, struct iw_candidate *c);

/*
 * Counted: a call that moved n octets, or failed. Inside the call: whoever finds nobody inside finds all octets that were moved by calls of ours.
 * true: ask iw_candidate_ripe(), behind its end.
 */
static inline bool iw_candidate_count(struct iw_candidate *c, ssize_t n)
{
	uint32_t calls = atomic_load_explicit(&c->calls, memory_order_relaxed) + 1;
	uint64_t more = n > 0 ? (uint64_t)n : 0, octets = atomic_load_explicit(&c->octets, memory_order_relaxed) + more;

	atomic_store_explicit(&c->calls, calls, memory_order_relaxed);
	if (__libc_single_threaded)
		atomic_store_explicit(&c->octets, octets, memory_order_relaxed);
	else if (more)
		octets = atomic_fetch_add_explicit(&c->octets, more, memory_order_relaxed) + more;
	if (iw_unlikely(calls >= atomic_load_explicit(&c->at_calls, memory_order_relaxed) ||
			octets >= atomic_load_explicit(&c->at_octets, memory_order_relaxed))) {
		atomic_store_explicit(&c->due, 1, memory_order_relaxed);
		return atomic_load_explicit(&c->wait, memory_order_relaxed);
	}
	return false;
}

#pragma GCC visibility pop
#endif
