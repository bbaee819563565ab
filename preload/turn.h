/* SPDX-License-Identifier: MIT */
/*
 * The turn of a call on an fd whose file may be exchanged: from iw_turn() until its end the fd stays what it is, and others see that
 * somebody is inside. Begin and end are in the frame of the entry point: quiet.h goes by its stack pointer.
 */
#ifndef IW_PRELOAD_TURN_H
#define IW_PRELOAD_TURN_H

#include "adopt.h"
#include "candidate.h"
#include "fdtab.h"
#include "lib.h"
#include "quiet.h"
#include "stream.h"

#pragma GCC visibility push(hidden)

struct iw_turn {
	struct iw_stream *s;		/* whose call it is; NULL: the original's */
	struct iw_candidate *c;		/* the original's, on this one */
};

enum iw_turn_how {
	IW_TURN_ASK = 0,	/* only asks or sets */
	IW_TURN_DATA = 1,	/* moves octets: counts, and the file may be exchanged before it begins */
	IW_TURN_SOCKET = 2,	/* makes sense on sockets only, so an unknown fd may be looked at */
};

/* What iw_turn() does when one look at the word did not do. 1: it is there. Without a call: 0, the fd is nothing to us; -1, once more. */
int iw_turn_slow(struct iw_turn *t, int fd, enum iw_turn_how how);

/* The begin of a turn. false: there is none, the fd is nothing to us, and the original is to be called. Keeps errno. */
static inline __attribute__((always_inline)) bool iw_turn(struct iw_turn *t, int fd, enum iw_turn_how how)
{
	uint32_t w = iw_word(fd);
	int r;

	if (iw_likely(!iw_word_moves(w))) {
		if (!(how & IW_TURN_SOCKET) || iw_likely(w) || !iw_word_moves(iw_adopt(fd)))
			return false;
	}
	do {
		iw_call_begin(fd);
		w = iw_word(fd);
		if (iw_word_kind(w) == IW_FD_STREAM) {
			t->s = iw_stream_at(iw_word_val(w));
			t->c = NULL;
			if (!(how & IW_TURN_DATA) || iw_likely(!atomic_load_explicit(&t->s->page->want, memory_order_relaxed)))
				return true;
		} else if (iw_word_kind(w) == IW_FD_CANDIDATE) {
			t->s = NULL;
			t->c = iw_candidate_at(iw_word_val(w));
			if (!(how & IW_TURN_DATA) || iw_likely(!atomic_load_explicit(&t->c->due, memory_order_relaxed)))
				return true;
		}
		r = iw_turn_slow(t, fd, how);
	} while (iw_unlikely(r < 0));
	return r;
}

/* Where the holders of its file are counted, or 0. */
static inline uint32_t iw_turn_holder(const struct iw_turn *t)
{
	return t->s ? t->s->holder : iw_candidate_index(t->c);
}

/* FD_CLOEXEC of fd is about to change; or it gets a duplicate (cloexec false). */
void iw_turn_exec(const struct iw_turn *t, int fd, bool cloexec);

static inline __attribute__((always_inline)) void iw_turn_end(void)
{
	iw_call_end();
}

/* A call on it is over, and iw_candidate_count() says so. Keeps errno. */
void iw_turn_after(int fd, struct iw_candidate *c);

/* The end of one that moved n octets, or -1. */
static inline __attribute__((always_inline)) void iw_turn_over(const struct iw_turn *t, int fd, ssize_t n)
{
	bool ripe = t->c && iw_candidate_count(t->c, n);

	iw_call_end();
	if (iw_unlikely(ripe))
		iw_turn_after(fd, t->c);
}

/* The same, and n is what the call returns. */
static inline __attribute__((always_inline)) ssize_t iw_turn_moved(const struct iw_turn *t, int fd, ssize_t n)
{
	iw_turn_over(t, fd, n);
	return n;
}

/* ---- a wait for several fds: none of them is SWITCHING when it begins. End: iw_turn_end() ---- */

/* Inside the call: one that is SWITCHING, or -1. The kernel has not looked at the memory yet. */
int iw_turn_gated_poll(const struct pollfd *v, nfds_t n);
int iw_turn_gated_select(int n, const fd_set *r, const fd_set *w, const fd_set *e);

static inline __attribute__((always_inline)) void iw_turn_poll(const struct pollfd *v, nfds_t n)
{
	int fd;

	for (;;) {
		iw_call_begin_poll(v, n);
		if (iw_likely(!atomic_load_explicit(&iw_gates, memory_order_relaxed)))
			return;
		fd = iw_turn_gated_poll(v, n);
		if (fd < 0)
			return;
		iw_call_end();
		iw_gate_wait(fd);
	}
}

static inline __attribute__((always_inline)) void iw_turn_select(int n, const fd_set *r, const fd_set *w, const fd_set *e)
{
	int fd;

	for (;;) {
		iw_call_begin_select(n, r, w, e);
		if (iw_likely(!atomic_load_explicit(&iw_gates, memory_order_relaxed)))
			return;
		fd = iw_turn_gated_select(n, r, w, e);
		if (fd < 0)
			return;
		iw_call_end();
		iw_gate_wait(fd);
	}
}

#pragma GCC visibility pop
#endif
