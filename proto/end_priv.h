/* SPDX-License-Identifier: MIT */
/* What the parts of a mapped end share among themselves. */
#ifndef IW_PROTO_END_PRIV_H
#define IW_PROTO_END_PRIV_H

#include "end.h"

/* A change of the state: its owner may die at any instruction of it. */
static inline void end_change(struct iw_end *e)
{
	atomic_store_explicit(&e->m->changing, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void end_changed(struct iw_end *e)
{
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&e->m->changing, 0, memory_order_relaxed);
}

/* The application learns of what TCP would have said. */
void end_lost(struct iw_end *e, int err);
/* len octets of the end's memory, or NULL: there are no such. */
void *end_mem(const struct iw_end *e, uint32_t stag, uint64_t to, size_t len);

/* Pieces of payload that are not yet where they belong. */
static inline uint32_t end_lates(const struct iw_end *e)
{
	return e->m->late.n < IW_MAP_LATE ? e->m->late.n : IW_MAP_LATE;
}

void end_place_late(struct iw_end *e);
/* n octets of payload at src, in the receive buffer, that belong to TO to: false, they have to be placed. */
bool end_deferred(struct iw_end *e, uint64_t to, const uint8_t *src, uint32_t n);

extern const struct iw_rs_ops end_rs_ops;
extern const struct iw_qp_ops end_qp_ops;

#endif
