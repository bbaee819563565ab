/* SPDX-License-Identifier: MIT */
/* A call of the application on a mapped stream: what it was called with, how far it is, and the lock that its steps hold. */
#ifndef IW_PRELOAD_PATHS_MAPPED_CALL_H
#define IW_PRELOAD_PATHS_MAPPED_CALL_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "preload/deadline.h"
#include "preload/lib.h"
#include "preload/map.h"
#include "preload/orphan.h"
#include "preload/path.h"
#include "preload/sleeps.h"

#pragma GCC visibility push(hidden)

#define IW_MAPPED_LARGE	16384u
#define IW_MAPPED_VECTOR	8	/* elements of what is left of a call's memory, given on at a time */
#define IW_MAPPED_ENDED	(IW_END_DEAD | IW_END_DONE)

/* What is to be done with memory that iw_mapped_good() looks at: IW_USE_FILL may spoil what is there, IW_USE_KEEP not. */
enum iw_use { IW_USE_READ, IW_USE_FILL, IW_USE_KEEP };

/* A call of the application. */
struct iw_mapped_call {
	struct iw_stream *s;
	int fd, flags;
	const struct iovec *v;
	size_t n, len, done;
	size_t wanted;		/* so far, from its start, its memory was found good, and what is parsed may lie there: until it is read */
	uint32_t epoch;
	bool waits, looked;	/* looked: whether it waits is known */
	bool own;		/* the memory is the library's */
	bool sends;		/* it sleeps until TCP takes something */
	bool breaks;		/* a handler that comes ends its sleep */
	bool inside;		/* it sleeps for the stream, or did: counted until it ends */
	int watch;		/* see kick.h, or -1 */
	int signals;		/* a signalfd, or -1 */
	struct iw_deadline d;	/* once inside */
	struct iw_slept slept;
	struct iw_step st;
};

/* Of the octets that io has, fd's. false, with errno: the kernel would not take it. */
bool iw_mapped_call(struct iw_mapped_call *c, struct iw_stream *s, int fd, struct iw_io *io, int flags);
/* false: the carrier's again, and not locked. */
bool iw_mapped_enter(struct iw_mapped_call *c);
/* Tells those who wait of what is new. */
void iw_mapped_leave(struct iw_mapped_call *c);
/* The same for a while, in which no handler comes where the lock lets none come. */
void iw_mapped_pause(struct iw_mapped_call *c);
void iw_mapped_resume(struct iw_mapped_call *c);
/* Not locked: the rest is the daemon's to do. */
void iw_mapped_give(struct iw_mapped_call *c);
/* Locked, the others too. Is it still what the call began on? */
bool iw_mapped_here(const struct iw_mapped_call *c);
/* How many octets there are, from done on, of memory that is good, and at most max. Of a piece with a bad part there are none, as of a segment of TCP's. */
size_t iw_mapped_good(const struct iw_mapped_call *c, size_t max, enum iw_use use);
/* The program wrote into the carrier behind our back, and may wait for the answer: the daemon, which has the other end, is to pass it on. */
bool iw_mapped_raw(const struct iw_mapped_call *c);

/* The call's memory from done on. */
void iw_mapped_rest_of(const struct iw_mapped_call *c, struct iovec v[IW_MAPPED_VECTOR], struct msghdr *m);
/* A call that receives goes on by the function of another path, from done on. Keeps errno. */
void iw_mapped_more(struct iw_mapped_call *c, ssize_t (*rx)(struct iw_stream *s, int fd, struct iw_io *io, int flags), int flags);
/* A call that receives finds the stream on another path: the answer, of which that gives what is missing. Not locked */
ssize_t iw_mapped_elsewhere(struct iw_mapped_call *c, struct iw_io *io);

/* What there is, as poll() would say, and IW_KNOWN_MORE. */
short iw_mapped_state(struct iw_stream *s);
/* T has room, or says when it has: who does not wait was told of none. */
bool iw_mapped_has_room(struct iw_stream *s);
/* At the end of a step: what came, and whether those who wait are to be told. */
bool iw_mapped_news(struct iw_stream *s, short *what);

/* Is it ours to work? The daemon takes it when the carrier was closed without us. */
static inline bool iw_mapped_ours(struct iw_stream *s)
{
	return atomic_load_explicit(&s->mapped, memory_order_relaxed) && iw_end_own(&s->view);
}

static inline bool iw_mapped_pending(struct iw_stream *s)
{
	size_t len;

	return iw_end_out(&s->view, &len);
}

/* It is framed, or gathered, and nobody waits until it goes. */
static inline bool iw_mapped_forgotten(struct iw_stream *s)
{
	return iw_unlikely(iw_mapped_pending(s) || iw_end_gathered(&s->view)) && !atomic_load(&s->map_senders);
}

/* There is an end that TCP would tell of, whatever is unread: the carrier does. */
static inline bool iw_mapped_ends(struct iw_stream *s)
{
	return iw_unlikely((iw_end_state(&s->view) & IW_MAPPED_ENDED) || s->view.f->rs.rx_fin);
}

#pragma GCC visibility pop

#endif
