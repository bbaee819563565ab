/* SPDX-License-Identifier: MIT */
/* Streams as this process knows them: their slots, and the page that is mapped with each. */
#ifndef IW_PRELOAD_STREAM_H
#define IW_PRELOAD_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/ctlmsg.h"
#include "proto/end.h"
#include "proto/page.h"
#include "proto/ring.h"
#include "fdtab.h"

#pragma GCC visibility push(hidden)

struct iw_path_ops;

/* Both directions of a joined pair, as this end works them: paths/rings.h. */
struct iw_stream_ring {
	uint8_t *segment;	/* all of it; NULL: not on that path, and nothing is left */
	struct iw_ring rx, tx;
	uint32_t senders, sleepers;	/* calls inside the carrier */
	uint32_t sends;		/* of the first, how many there were */
	uint32_t slot;		/* the stream's, among the marks */
	uint32_t tick;		/* when the other end was last seen not to have gone (paths/mapped_in.h) */
	int fd;			/* one of those of the program */
	uint64_t told;		/* position up to which octets were told of */
	int64_t dry;		/* not before then it is waited for what was sent by the carrier, ns */
	int64_t asked;		/* when the carrier was asked last, ns */
	bool nowait;		/* what the file said at ring_mode */
	bool wrote, pours;	/* since the last octets came; they come small, and nothing is answered */
	bool oneway;		/* nothing was written between the last two times that octets came */
	bool armed;		/* iw_ring_arm(): disarmed by whoever takes the lock next */
	bool ends;		/* it is about to be given up: shut for good */
	bool pulled;		/* what is in it came by the carrier */
	uint64_t ticks;		/* when it was last asked what iw_ring_dir.since is to be */
	uint32_t used, missed;	/* since the last look at them: octets came or went by a ring; came by the carrier */
	uint64_t arm;		/* where that was */
	uint64_t tried;		/* the other end's, where something went before */
};

/* Shared by all fds duplicated from one. Slots and their page address are never unmapped (a closed slot shows a zero page), so a
 * racing reader cannot fault. */
struct iw_stream {
	struct iw_page *page;		/* these two first, and once set never NULL; see iw_stream_new() */
	const struct iw_path_ops *_Atomic path;	/* what moves its octets; by iw_path() */
	struct iw_lock map_lock;	/* of what map.c keeps; these are the slot's: see iw_stream_new() */
	_Atomic uint32_t map_epoch;	/* how often that began or ended */
	_Atomic uint32_t polled;	/* who sleeps for it, or is about to: in poll, select, and in calls on it while it is mapped */
	_Atomic uint32_t map_calls;	/* of these, in calls */
	_Atomic uint32_t map_senders;	/* of these, until TCP takes something */
	_Atomic int map_stale;		/* what they may still sleep on: see iw_map_give() */
	_Atomic uint32_t held;		/* it is being given up by another thread, which is waited for: a futex */
	_Atomic uint32_t refs;
	_Atomic uint32_t flags;		/* IW_PAGE_LOCAL, IW_PAGE_NEAR */
	uint32_t end;			/* our iw_page.end */
	struct iw_addr local, peer;	/* by the daemon's message: whoever has the other end of a LOCAL stream writes in the page */
	uint64_t stream_id, conn_id;
	_Atomic uint64_t tx_put;	/* octets this process wrote (threads may lose some): bounds SIOCOUTQ */
	_Atomic bool carried;		/* counted there */
	_Atomic bool nowait;		/* on the carrier a receive that found nothing was not one that waits */
	_Atomic uint32_t sopt;		/* options kept by the library, see opts.h */
	uint32_t holder;		/* index of its holders, and of the candidate it was; 0: handed in, whoever did may have it too */
	bool client;			/* it was made by socket() */
	_Atomic uint8_t back_tries;	/* times in vain that it was asked to be given back, and calls until the next; threads may lose some */
	_Atomic uint32_t back_rest;
	uint64_t ino;			/* st_ino of the carrier, to recognise an fd that was closed behind our back */
	_Atomic uint64_t ctl_gen;	/* control connection that knows this stream as ours; see iw_stream_own() */
	_Atomic int mapped;		/* the number of its TCP socket while its octets go there, else 0; map.c */
	struct iw_map *map;
	uint64_t map_len;
	struct iw_end view;		/* on the map */
	_Atomic bool orphan;		/* mapped for good: orphan.h */
	_Atomic uint32_t map_rest;	/* as back_rest, back_tries */
	_Atomic uint8_t map_tries, map_drains, map_wet;
	uint32_t map_run;		/* under its lock: small sends in a row, and when they began, or something was gathered last */
	int64_t map_run_ns;
	_Atomic bool burst;		/* they are a burst: paths/burst.c */
	uint8_t burst_tries;		/* ended by the daemon, soon after they began */
	uint64_t burst_pos;		/* of the stream, where it began */
	uintptr_t burst_page;		/* the program's, which can be read */
	bool map_gathers, map_pushed, map_nodelay;	/* under its lock: without TCP_NODELAY; what went last were no octets of the program; what T has */
	uint32_t map_tick;		/* under its lock: when somebody looked last at what came (paths/mapped_in.h) */
	bool map_full;			/* under its lock: a send that does not wait found no room in T, which nobody has told of since */
	bool map_nowait;		/* under its lock: who asked last whether its calls wait was told no */
	uint32_t map_room;		/* under its lock: of T's send buffer, at least, as its kernel counts: only sends through here take of it */
	short map_came;			/* under its lock: what those who wait are to be told */
	_Atomic short known;		/* while it is mapped: its poll bits after the last step, and IW_KNOWN_MORE */
	_Atomic uint32_t came, room;	/* how often something came over it, and room where there was none: see ready.h */
	uint64_t segment;		/* octets of the segment */
	_Atomic int64_t ring_mode;	/* when the file was asked whether its calls wait, CLOCK_MONOTONIC ns */
	uint8_t ring_waste;		/* under its lock: times in a row that rings were given up, as little came by them */
	_Atomic bool ring_over;		/* the carrier has come to its end, has urgent data, or is to say all: no rings from then on */
	struct iw_stream_ring ring;	/* of a joined pair: under its lock */
	_Atomic uint32_t reg;		/* its registration (reg.c): index + 1; 0: none; IW_REG_MANY */
};

extern _Atomic bool iw_streams_near;	/* there is one whose other end may be on this host, or there was */
extern _Atomic uint32_t iw_streams_carried;	/* those whose octets the daemon passes on: it wants a processor */

/* What to wait on in the kernel for this stream, which its fd is fd. The bits of its path say what an event means. */
static inline int iw_stream_wait_fd(struct iw_stream *s, int fd)
{
	int tcp = atomic_load(&s->mapped);

	return tcp ? tcp : fd;
}

#define IW_KNOWN_MORE	0x4000	/* TCP has to take something */

/* Whether the daemon passes its octets on. */
static inline void iw_stream_carried(struct iw_stream *s, bool carried)
{
	if (atomic_exchange(&s->carried, carried) != carried)
		atomic_fetch_add(&iw_streams_carried, carried ? 1 : -1u);
}

/*
 * Never taken back once it was seen. Of a stream that is not NEAR the daemon alone has the page, besides our own user; it says LOCAL of
 * none of them.
 */
static inline bool iw_stream_local(struct iw_stream *s)
{
	uint32_t flags = atomic_load_explicit(&s->flags, memory_order_relaxed);

	if (!(flags & IW_PAGE_NEAR) || flags & IW_PAGE_LOCAL)
		return flags & IW_PAGE_LOCAL;
	if (atomic_load(&s->page->end[1].hand) != IW_HAND_TAKEN)
		return false;
	atomic_fetch_or(&s->flags, IW_PAGE_LOCAL);
	iw_stream_carried(s, false);
	return true;
}

/* Another application may have the page, whatever stands in it. */
static inline bool iw_stream_near(const struct iw_stream *s)
{
	return atomic_load_explicit(&s->flags, memory_order_relaxed) & IW_PAGE_NEAR;
}

/* LOCAL, or another library has been offered the other end, or will be: it may find there what we write for it now. */
static inline bool iw_stream_paired(const struct iw_stream *s)
{
	return atomic_load_explicit(&s->flags, memory_order_relaxed) & (IW_PAGE_NEAR | IW_PAGE_LOCAL);
}

static inline struct iw_page_end *iw_stream_end(struct iw_stream *s)
{
	return &s->page->end[s->end];
}

/* The other end of a LOCAL stream, as its library keeps it. */
static inline struct iw_page_end *iw_stream_other(struct iw_stream *s)
{
	return &s->page->end[!s->end];
}

/* Takes over segment (closes it). NULL when the answer makes no sense or memory is short. refs = 1. */
struct iw_stream *iw_stream_new(const struct iw_ctl_stream *m, int segment, int carrier, uint64_t conn_id);
void iw_stream_get(struct iw_stream *s);
void iw_stream_put(struct iw_stream *s, bool closing);	/* closing: the last one tells the daemon and marks a reset */
/* Of a pair of this host: both ends learn of a reset, and nothing comes any more. */
void iw_stream_reset(struct iw_stream *s, int fd);
/* No other process can have it; see iw_holders_alone(). */
bool iw_stream_alone(struct iw_stream *s, const int *fds, unsigned int n);
void iw_stream_apart(struct iw_stream *s);	/* its page is not shared with anybody any more */
uint32_t iw_stream_word(const struct iw_stream *s);

#define IW_STREAMS_CHUNK 1024u	/* streams per chunk */
#define IW_STREAMS_CHUNKS 256u
extern struct iw_stream *_Atomic iw_stream_chunks[IW_STREAMS_CHUNKS];

/* idx: of a word that was set; its slot is never unmapped. */
static inline struct iw_stream *iw_stream_at(uint32_t idx)
{
	return &iw_stream_chunks[idx / IW_STREAMS_CHUNK % IW_STREAMS_CHUNKS][idx % IW_STREAMS_CHUNK];
}

/* The stream of an fd, or NULL. Valid while the fd is open in the caller's eyes. */
static inline struct iw_stream *iw_stream_of(int fd)
{
	uint32_t w = iw_word(fd);

	return iw_word_kind(w) == IW_FD_STREAM ? iw_stream_at(iw_word_val(w)) : NULL;
}

/*
 * Is fd really still the carrier of s? stdio, the resolver and raw system calls close fds behind our back, and the number may be a
 * file by now. Ask this (one fstat) before a result is changed: before EOF becomes ECONNRESET, before an answer from the page.
 * false: the entry was dropped, the fd is OTHER now; give the kernel's own answer.
 */
bool iw_stream_verify(int fd, struct iw_stream *s);
/* Make sure that this process's control connection knows s (after a fork or a daemon restart it does not): before GETSOCKOPT and
 * SETSOCKOPT. 0 or -errno as iw_daemon_ask. */
int iw_stream_own(struct iw_stream *s, int fd);

#pragma GCC visibility pop
#endif
