/* SPDX-License-Identifier: MIT */
/* What is known about other hosts without asking: the page of peers. */
#include <string.h>

#include "proto/page.h"
#include "proto/reason.h"
#include "daemon.h"
#include "deadline.h"
#include "peers.h"

/* One slot, read until no writer was at it in between. false: a writer is stuck. */
static bool slot_read(const struct iw_peer_slot *s, uint64_t ip[2], uint32_t *state, uint32_t *reason, uint64_t *expires)
{
	uint32_t seq;

	for (int i = 0; i < 1000; i++) {
		seq = atomic_load_explicit(&s->seq, memory_order_acquire);
		if (seq & 1)
			continue;
		ip[0] = atomic_load_explicit(&s->ip[0], memory_order_relaxed);
		ip[1] = atomic_load_explicit(&s->ip[1], memory_order_relaxed);
		*state = atomic_load_explicit(&s->state, memory_order_relaxed);
		*reason = atomic_load_explicit(&s->reason, memory_order_relaxed);
		*expires = atomic_load_explicit(&s->expires, memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&s->seq, memory_order_relaxed) == seq)
			return true;
	}
	return false;
}

/* All slots of the probe are looked at: the daemon may free one in the middle. */
enum iw_peer_state iw_peer_lookup(const struct iw_addr *a, enum iw_reason *why)
{
	const struct iw_peers *p = atomic_load(&iw_peers);
	uint32_t h = iw_addr_hash(a->ip, 0), state, reason;
	uint64_t want[2], ip[2], expires;

	*why = IW_REASON_PEER_NO_IWARP;
	if (!p)
		return IW_PEER_UNKNOWN;
	memcpy(want, a->ip, sizeof(want));
	for (uint32_t i = 0; i < IW_PEERS_PROBE; i++) {
		if (!slot_read(&p->slot[(h + i) % IW_PEERS_SLOTS], ip, &state, &reason, &expires))
			continue;
		if (state == IW_PEER_UNKNOWN || ip[0] != want[0] || ip[1] != want[1])
			continue;
		if (expires && iw_now_ms() >= expires)
			return IW_PEER_UNKNOWN;
		if (state == IW_PEER_NEGATIVE && reason && reason <= IW_REASON_OTHER)
			*why = (enum iw_reason)reason;
		return (enum iw_peer_state)state;
	}
	return IW_PEER_UNKNOWN;
}

