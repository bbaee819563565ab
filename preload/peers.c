/* SPDX-License-Identifier: MIT */
/* What is known about other hosts without asking: the peers page; and telling the daemon what stays plain. */
#include <string.h>

#include "core.h"

#define TELL_PER_S	200u	/* PLAIN messages per second and process; a busy plain server must not pay for iwctl */

bool iw_addr_from(struct iw_addr *a, const struct sockaddr *sa, socklen_t len)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;

	memset(a, 0, sizeof(*a));
	if (!sa || len < sizeof(sa->sa_family))
		return false;
	a->family = sa->sa_family;
	if (sa->sa_family == AF_INET && len >= sizeof(*in)) {
		a->ip[10] = a->ip[11] = 0xff;
		memcpy(a->ip + 12, &in->sin_addr, 4);
		a->port = ntohs(in->sin_port);
		return true;
	}
	if (sa->sa_family == AF_INET6 && len >= offsetof(struct sockaddr_in6, sin6_scope_id)) {
		memcpy(a->ip, &in6->sin6_addr, 16);
		a->port = ntohs(in6->sin6_port);
		if (len >= sizeof(*in6) && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			a->scope_id = in6->sin6_scope_id;
		return true;
	}
	return false;
}

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
		if (state == IW_PEER_NEGATIVE && reason < IW_REASON_MAX)
			*why = (enum iw_reason)reason;
		return (enum iw_peer_state)state;
	}
	return IW_PEER_UNKNOWN;
}

static bool tell_allowed(void)
{
	static _Atomic uint64_t second;
	static _Atomic uint32_t count;
	uint64_t now = iw_now_ms() / 1000;

	if (atomic_exchange(&second, now) != now)
		atomic_store(&count, 0);
	return atomic_fetch_add(&count, 1) < TELL_PER_S;
}

uint32_t iw_tell_plain(int fd, bool client, const struct iw_addr *peer, enum iw_reason why)
{
	struct iw_ctl_conn m;
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (!iw_ctl_up() || !tell_allowed())
		return 0;
	memset(&m, 0, sizeof(m));
	iw_ctl_init(&m, IW_CTL_PLAIN, 0);
	if (IW_SYS(getsockname, fd, &ss, &len) < 0 || !iw_addr_from(&m.local, (struct sockaddr *)&ss, len))
		return 0;
	m.peer = *peer;
	m.conn_id = iw_conn_id_new();
	m.reason = why;
	m.flags = client ? IW_CONN_CLIENT : 0;
	m.fd = fd;
	iw_tell_flags(&m, -1, 0);
	return (uint32_t)m.conn_id;
}
