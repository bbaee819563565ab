/* SPDX-License-Identifier: MIT */
/* What an import compares, and what it holds for sound. */
#ifndef IW_PROTO_MAP_PRIV_H
#define IW_PROTO_MAP_PRIV_H

#include "map.h"

/* Cannot change while a stream is mapped. */
struct iw_map_const {
	struct iw_rs_param p;
	uint16_t caps;
	uint32_t peer_stag, peer_len, peer_bufs, peer_sa, inline_max, chunk, rd_max;
	uint64_t peer_to;
	struct iw_qp_param qp;		/* but mulpdu */
	uint64_t soft_size;
	uint8_t large;
};

void iw_map_keep(struct iw_map_const *c, const struct iw_map_priv *from);
/*
 * Is the state in `of`, a private copy, such that a queue pair, a ring stream and a soft endpoint can go on with it, whatever comes from the
 * network, without touching memory that is not theirs, and without end? Whether its octets are right is the owner's own affair. 0 or -EPROTO.
 */
int iw_map_check(const struct iw_map_const *was, const struct iw_map_priv *of);

#endif
