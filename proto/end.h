/* SPDX-License-Identifier: MIT */
/*
 * One end of a stream on its map (map.h), without I/O: octets of T in and out, stream octets in and out. For whoever owns the map, one
 * call at a time; iw_end_in() and what is received at its place, and iw_end_out() and what is sent from there, may be outside of a lock
 * as long as one thread does each.
 *
 * A step of the owner: receive T's octets (iw_end_in, iw_end_in_done), move stream octets (iw_end_get, iw_end_put), iw_end_pump(), then
 * give T what there is (iw_end_out, iw_end_out_done).
 */
#ifndef IW_PROTO_END_H
#define IW_PROTO_END_H

#include <sys/uio.h>

#include "map.h"

/* iw_end_blocked() */
#define IW_END_IN	1u	/* octets of T are needed: the peer has to give room or credits */
#define IW_END_OUT	2u	/* T has to take framed octets */

/* iw_end_state() */
#define IW_END_FIN	1u	/* everything was read, and the peer's FIN is next */
#define IW_END_SHUT	2u	/* our half ended: iw_end_put() takes nothing */
#define IW_END_DONE	4u	/* both FINs were acknowledged: with nothing left to send, the connection can be closed (by the agent) */
#define IW_END_DEAD	8u	/* reset: iw_end_err(). What came before can still be read; what is framed (ABORT, Terminate) shall still go out */

struct iw_end {				/* private to a process; no allocation */
	struct iw_map *m;
	struct iw_remote *f;
	struct iw_soft *s;
	uint8_t *rq, *rd, *rx_ring, *tx;

	/* within iw_end_put(): the stream goes on at position src_pos with the octets of v, skip octets in */
	const struct iovec *v;
	size_t nv, skip;
	uint64_t src_pos;
	uint64_t data_end;	/* of the last stream octets that were framed, as qp.tx_pos counts */
	/* within iw_end_in_done(): the Send that is being completed, where it came */
	const uint8_t *msg;
	uint32_t msg_len;
	bool later;		/* see iw_end_in_later() */

	/* what a reader waits for, see iw_end_want(): len octets of the stream from ring position pos on go to v, skip octets in */
	struct {
		const struct iovec *v;
		size_t skip, len;
		uint64_t pos;
		uint64_t sunk, end;	/* positions that lie there already */
		bool open;
	} want;
	bool defers;		/* payload of Writes and INLINE stays where it was received until it is read, or the place is needed: see iw_map_late */
};

/* m: len octets are mapped. 0, or -EPROTO: of another version, or too small. */
int iw_end_open(struct iw_end *e, struct iw_map *m, uint64_t len);

/* It will be worked soon: towards the processor's cache with what every message needs. */
static inline void iw_end_prefetch(const struct iw_end *e)
{
	if (!e->m)
		return;
	__builtin_prefetch(e->m);
	for (size_t i = 0; i < 10; i++) {
		__builtin_prefetch((const char *)&e->f->rs + 64 * i);
		__builtin_prefetch((const char *)&e->s->qp.rq_one + 64 * i);	/* to its end */
	}
}

/* The same of what a message needs besides, where the state, which should be there, says: ahead of a call on T. */
static inline void iw_end_prefetch_next(const struct iw_end *e)
{
	const struct iw_qp *qp = &e->s->qp;
	const char *sq = (const char *)&qp->sq[iw_sq_at(qp->sq_head)];

	__builtin_prefetch(&qp->rq_one, 1);
	for (size_t i = 0; i < sizeof(qp->sq[0]); i += 64)
		__builtin_prefetch(sq + i, 1);
	__builtin_prefetch(e->rq, 1);
	__builtin_prefetch(e->s->few, 1);
	__builtin_prefetch(e->s->few + 64, 1);
}

/*
 * Frames octets of v[0..n), skip octets in, len > 0 of them, as far as credits, the peer's ring and the frame buffer allow: payload is copied with
 * its CRC in one pass from v into the frame buffer, so v must be readable. Returns the octets taken; 0: iw_end_blocked() says by what, or
 * the state is SHUT or DEAD.
 */
size_t iw_end_put(struct iw_end *e, const struct iovec *v, size_t n, size_t skip, size_t len);
bool iw_end_room(const struct iw_end *e);		/* iw_end_put() of any length would take something, or find that there is no room any more */
/*
 * Gathered: len octets behind those that are, without framing them; owned or in BURST, afterwards in BURST. false: the agent has it, there is no room,
 * or our half ended. All others want it owned: what is gathered goes first, and while some of it is left iw_end_put() takes nothing.
 */
bool iw_end_gather(struct iw_end *e, const void *p, size_t len);
static inline size_t iw_end_gathered(const struct iw_end *e)
{
	uint64_t end = IW_MAP_END(atomic_load_explicit(&e->m->owner, memory_order_relaxed)), pos = e->f->rs.tx_pos;

	return end <= pos ? 0 : end - pos < IW_MAP_GATHER ? (size_t)(end - pos) : IW_MAP_GATHER;
}

/* LIBRARY from BURST, or as before. false: the agent has it. */
static inline bool iw_end_own(struct iw_end *e)
{
	uint64_t w = atomic_load_explicit(&e->m->owner, memory_order_relaxed);

	if ((w & IW_MAP_OWNER) == IW_MAP_BURST)
		return atomic_compare_exchange_strong(&e->m->owner, &w, (w & ~(uint64_t)IW_MAP_OWNER) | IW_MAP_LIBRARY);
	return (w & IW_MAP_OWNER) == IW_MAP_LIBRARY;
}

unsigned int iw_end_blocked(const struct iw_end *e);	/* without room, what it waits for: IW_END_IN, IW_END_OUT or both; else 0 */
void iw_end_fin(struct iw_end *e);			/* our half ends; the next iw_end_pump() says so. A reset, if what is gathered cannot go */
void iw_end_abort(struct iw_end *e, int err);		/* the application resets the stream: err (positive) is told to the peer, at iw_end_pump() */

/* Frames whatever is due and has room: ACK, CREDIT, Reads, FIN, ABORT, Terminate. */
void iw_end_pump(struct iw_end *e);
/* Framed octets that T has not taken, in one piece; NULL and *len 0: none. */
static inline const uint8_t *iw_end_out(struct iw_end *e, size_t *len)
{
	const struct iw_soft_tx *b = &e->s->tx[0];

	*len = b->used ? b->len - b->off : 0;
	return *len ? iw_soft_tx_at(e->s, b) + b->off : NULL;
}

void iw_end_out_done(struct iw_end *e, size_t n);		/* T took n <= *len of them */

uint8_t *iw_end_in(struct iw_end *e, size_t *room);	/* where the next octets of T go, at most *room > 0. May move what is there */
void iw_end_in_done(struct iw_end *e, size_t n);	/* n came, parsed with what was left of before (0: that alone) */
/*
 * The same for who only asks whether there are stream octets. true: there are large ones, if what came is sound, and nothing else that anybody waits
 * for; it is left as it came, to be parsed by iw_end_settle(), before more is received, or by the agent if that takes the map. false: it was parsed.
 */
bool iw_end_in_later(struct iw_end *e, size_t n);
void iw_end_settle(struct iw_end *e);
/*
 * While nothing is unread: the next len octets of the stream are for v, which has so many, skip octets in. Those that are parsed before
 * iw_end_wanted() are copied there as their CRC is taken, and iw_end_get() of the same place has nothing left to do for them, until
 * iw_end_unwant(). Octets there beyond what iw_end_get() returns are spoiled.
 */
void iw_end_want(struct iw_end *e, const struct iovec *v, size_t skip, size_t len);
static inline void iw_end_wanted(struct iw_end *e)
{
	e->want.open = false;
}

static inline void iw_end_unwant(struct iw_end *e)
{
	e->want.open = false;
	e->want.v = NULL;
}

void iw_end_in_eof(struct iw_end *e);			/* T's FIN */
void iw_end_lost(struct iw_end *e, int err);		/* T failed with err (positive) */

/* Stream octets that can be read now. */
size_t iw_end_count(const struct iw_end *e);		/* when there may be some */
static inline size_t iw_end_unread(const struct iw_end *e)
{
	const struct iw_rs *rs = &e->f->rs;

	return rs->ext_head == rs->ext_tail ? 0 : iw_end_count(e);
}

static inline bool iw_end_some(const struct iw_end *e)		/* there are some, or will be once it is settled, or it is a reset then */
{
	return e->later || iw_end_unread(e);
}

/*
 * Copies up to len octets to v[0..n), skip octets in, and returns how many. With peek they stay, and those from peek_off on, counted from the
 * next one to be read, are copied.
 */
size_t iw_end_get(struct iw_end *e, const struct iovec *v, size_t n, size_t skip, size_t len, bool peek, size_t peek_off);

/* IW_END_FIN, ... */
unsigned int iw_end_state_fin(const struct iw_end *e);	/* when the peer's FIN came: IW_END_FIN or 0 */
static inline unsigned int iw_end_state(const struct iw_end *e)
{
	const struct iw_rs *rs = &e->f->rs;

	return (rs->rx_fin ? iw_end_state_fin(e) : 0u) | (rs->tx_fin ? IW_END_SHUT : 0u) | (rs->done ? IW_END_DONE : 0u) |
	       (e->f->reset_err || e->f->aborted ? IW_END_DEAD : 0u);
}

int iw_end_err(const struct iw_end *e);			/* with DEAD: positive errno of the socket, ECONNRESET, ETIMEDOUT, ... */
void iw_end_emss(struct iw_end *e, uint16_t mss);	/* T's segments (TCP_INFO, tcpi_snd_mss). Without effect when FPDUs may be larger */

/* Stream octets that T has not got through (SIOCOUTQ), at most, if `queued` octets of what was framed are not. */
uint64_t iw_end_unacked(const struct iw_end *e, uint64_t queued);

#endif
