// SPDX-License-Identifier: MIT
/* Candidates that are due: whether one is proposed to the daemon, what is told of one that stays plain, and when to look again. */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "proto/ctlmsg.h"
#include "proto/probe.h"
#include "candidate.h"
#include "conf.h"
#include "daemon.h"
#include "deadline.h"
#include "gain.h"
#include "lock.h"
#include "peers.h"
#include "plain.h"
#include "proc.h"
#include "quiet.h"
#include "switch.h"
#include "sys.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define LATER_CALLS	16u		/* when there is no daemon, the other host has none, or it cannot be switched now */
#define LATER_OCTETS	(256u << 10)
#define EACH_CALL	256u		/* so many calls look for GO; then each 16th */
#define LOOK_CALLS	16u
#define LOOK_OCTETS	(1u << 20)
#define ALIVE_CALLS	1024u		/* so often is looked whether the daemon that was proposed to is still there */
#define JUDGE_CALLS	512u		/* and, after so many, whether it is as it was proposed */

/* ---- what it is ---- */

static int get_int(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = -1;

	return IW_SYS(getsockopt, fd, level, name, &v, &len) < 0 ? -1 : v;
}

static uint64_t get_cookie(int fd, int name)
{
	uint64_t v = 0;
	socklen_t len = sizeof(v);

	return IW_SYS(getsockopt, fd, SOL_SOCKET, name, &v, &len) < 0 ? 0 : v;
}

/* The state of a TCP socket, TCP_*; 0: it is something else. */
static int tcp_state(int fd)
{
	uint8_t state = 0;	/* tcpi_state is the first octet */
	socklen_t len = 1;

	if (get_int(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP)
		return 0;
	return IW_SYS(getsockopt, fd, IPPROTO_TCP, TCP_INFO, &state, &len) < 0 ? 0 : state;
}

static bool names(int fd, struct iw_tuple *t)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (IW_SYS(getsockname, fd, &ss, &len) < 0 || !iw_addr_from_sockaddr(&t->local, (struct sockaddr *)&ss, len))
		return false;
	len = sizeof(ss);
	return IW_SYS(getpeername, fd, &ss, &len) >= 0 && iw_addr_from_sockaddr(&t->peer, (struct sockaddr *)&ss, len);
}

static bool is_client(const struct iw_candidate *c)
{
	return atomic_load(&c->flags) & IW_CAND_CLIENT;
}

/* ---- what is told ---- */

/* Each reason once. */
static void tell_plain(int fd, struct iw_candidate *c, const struct iw_tuple *t, enum iw_reason why, bool for_now)
{
	if (c->why == why)
		return;
	c->why = (uint16_t)why;
	iw_plain_tell(fd, c, t, why, for_now);
}

static void stays_plain(int fd, struct iw_candidate *c, const struct iw_tuple *t, enum iw_reason why)
{
	iw_candidate_never(c);
	tell_plain(fd, c, t, why, false);
}

/* Not at each call: what hinders it will be there for some time, and the longer it has been the longer. */
static void try_later(struct iw_candidate *c)
{
	uint32_t k = c->tries < IW_CAND_TRIES ? c->tries++ : IW_CAND_TRIES;

	iw_candidate_later(c, LATER_CALLS << k, (uint64_t)LATER_OCTETS << k);
}

/* ---- what speaks against it ---- */

/* Nothing but the limits of the file, which is read when first needed, or of the rule, for which the names are needed. */
static bool still_young(const struct iw_candidate *c, uint32_t calls, uint32_t octets)
{
	uint64_t have = atomic_load(&c->octets);

	return atomic_load(&c->calls) < calls && (octets == IW_UPGRADE_NEVER || have < octets);
}

static enum iw_reason refused_here(const struct iw_candidate *c)
{
	uint32_t flags = atomic_load(&c->flags);

	if (flags & IW_CAND_PASSED)
		return IW_REASON_INHERITED;
	if (flags & IW_CAND_URGENT)
		return IW_REASON_URGENT;
	if (flags & IW_CAND_UNSEEN && !__libc_single_threaded)
		return IW_REASON_UNSEEN;
	return flags & IW_CAND_OPTION ? IW_REASON_OPTION : 0;
}

/* ---- of which kind it is ---- */

static bool judged_long_ago(const struct iw_candidate *c)
{
	return atomic_load(&c->calls) - c->judged_calls >= JUDGE_CALLS;
}

static void judged(struct iw_candidate *c)
{
	c->judged_kib = (uint32_t)(atomic_load(&c->octets) >> 10);
	c->judged_calls = atomic_load(&c->calls);
	atomic_fetch_and(&c->flags, ~IW_CAND_FILE);
}

static enum iw_gain judged_as(const struct iw_candidate *c)
{
	return (atomic_load(&c->flags) & IW_CAND_GAIN) / IW_CAND_GAIN_1;
}

/* By what it has carried since it was judged; if that is little yet, as it was. */
static enum iw_gain gain(int fd, const struct iw_candidate *c)
{
	uint32_t flags = atomic_load(&c->flags), kib = (uint32_t)(atomic_load(&c->octets) >> 10) - c->judged_kib;

	if (flags & IW_CAND_JUDGED && !judged_long_ago(c))
		return judged_as(c);
	return iw_gain(fd, (uint64_t)kib << 10, atomic_load(&c->calls) - c->judged_calls, flags & IW_CAND_FILE);
}

/* Than it was proposed as: the daemon may let it wait by that, or go. */
static bool another_kind(int fd, struct iw_candidate *c)
{
	if (!(atomic_load(&c->flags) & IW_CAND_JUDGED) || !judged_long_ago(c))
		return false;
	if (gain(fd, c) != judged_as(c))
		return true;
	judged(c);
	return false;
}

/* ---- the proposal ---- */

/* judge: its gain is of account, and is judged again as it goes on. */
static void propose(int fd, struct iw_candidate *c, const struct iw_tuple *t, bool judge)
{
	enum iw_gain g = judge ? gain(fd, c) : IW_GAIN_YES;
	struct iw_ctl_propose m;

	iw_candidate_closed(c);		/* the daemon may have it as a plain one */
	iw_ctl_init(&m, IW_CTL_PROPOSE, 0);
	m.conn_id = iw_daemon_conn_id();
	c->conn_id = m.conn_id;
	m.cookie = get_cookie(fd, SO_COOKIE);
	m.netns = get_cookie(fd, SO_NETNS_COOKIE);
	m.local = t->local;
	m.peer = t->peer;
	m.octets = atomic_load(&c->octets);
	m.calls = atomic_load(&c->calls);
	m.slot = iw_candidate_index(c);
	m.flags = is_client(c) ? IW_CONN_CLIENT : 0;
	m.fd = fd;
	m.gain = g;
	atomic_fetch_and(&c->flags, ~(IW_CAND_JUDGED | IW_CAND_GAIN));
	atomic_fetch_or(&c->flags, (judge ? IW_CAND_JUDGED : 0) | g * IW_CAND_GAIN_1);
	judged(c);
	c->why = 0;
	atomic_store(&c->gen, iw_daemon_gen());
	atomic_store(&c->state, IW_PROPOSED);
	atomic_store(&c->since, m.calls);
	atomic_store(&c->due, 1);
	IW_PROBE2(libiwsock, proposed, fd, m.conn_id);
	iw_daemon_tell(&m, -1, 0);
}

static bool far(const struct iw_tuple *t)
{
	return !iw_ip_loopback(t->peer.ip) && memcmp(t->local.ip, t->peer.ip, sizeof(t->peer.ip));
}

/* *wait_ms: if it is proposed now, so long a call may wait for GO and the switch. */
static void consider(int fd, struct iw_candidate *c, uint32_t *wait_ms)
{
	const struct iw_upgrade_limits *l;
	enum iw_reason why = 0;
	struct iw_upgrade u;
	struct iw_tuple t;
	int state;

	iw_conf_load();
	if (still_young(c, atomic_load(&iw_conf_least_calls), atomic_load(&iw_conf_least_octets))) {
		iw_candidate_at_least(c, atomic_load(&iw_conf_least_calls), atomic_load(&iw_conf_least_octets));
		return;
	}
	if (!iw_daemon_ready()) {
		try_later(c);
		return;
	}
	state = tcp_state(fd);
	if (!state) {
		iw_candidate_never(c);
		return;
	}
	if (state == TCP_SYN_SENT || state == TCP_SYN_RECV || state == TCP_CLOSE || state == TCP_LISTEN || !names(fd, &t))
		return;
	memset(&u, 0, sizeof(u));
	if (!iw_conf_upgrade(is_client(c) ? IW_VERB_CONNECT : IW_VERB_LISTEN, is_client(c) ? &t.peer : &t.local, &u))
		why = IW_REASON_POLICY;
	l = far(&t) ? &u.far : &u.after;
	if (!why && still_young(c, l->calls, l->octets)) {
		iw_candidate_at_least(c, l->calls, l->octets);
		return;
	}
	if (!why && state != TCP_ESTABLISHED)
		why = IW_REASON_HALF_CLOSED;
	if (!why)
		why = refused_here(c);
	if (why) {
		stays_plain(fd, c, &t, why);
		return;
	}
	if (iw_peer_lookup(&t.peer, &why) == IW_PEER_NEGATIVE) {
		tell_plain(fd, c, &t, why, false);
		try_later(c);
		return;
	}
	*wait_ms = u.wait_ms;
	/* where the limits are somebody's word, that is what counts */
	propose(fd, c, &t, l == &u.far && !(u.set & (IW_UPGRADE_AFTER | IW_UPGRADE_FAR)));
}

/* ---- GO ---- */

static bool go(const struct iw_candidate *c)
{
	const struct iw_proc *p = atomic_load_explicit(&iw_proc_page, memory_order_relaxed);

	return atomic_load_explicit(&p->go[iw_candidate_index(c)], memory_order_acquire) == atomic_load_explicit(&c->conn_id, memory_order_relaxed);
}

/* The daemon that knows it is the one that we have. */
static bool stands(const struct iw_candidate *c)
{
	return iw_daemon_up() && atomic_load_explicit(&c->gen, memory_order_relaxed) == iw_daemon_gen();
}

/* ---- what it waits for ---- */

/*
 * What the daemon refuses because of octets that the program has not read can go well when it has read them; and who was inside another
 * call comes out of it. Both are seen here without asking, so for some calls it is looked for at the end of each. A connection with always
 * somebody inside is tried after 4 calls, 8, ...
 */
#define WAITS		3u
#define WAIT_CALLS	1000u
#define REST_CALLS	4u

static bool unread(int fd)
{
	int n = 0;

	return IW_SYS(ioctl, fd, SIOCINQ, &n) >= 0 && n;
}

static bool wait_for(struct iw_candidate *c, enum iw_candidate_wait what, uint32_t rest)
{
	if (c->waits == WAITS) {
		c->waits = 0;
		return false;
	}
	atomic_store(&c->since, atomic_load(&c->calls));
	atomic_store(&c->rest, atomic_load(&c->calls) + rest);
	c->waits++;
	atomic_store(&c->at_calls, 0);
	atomic_store(&c->wait, what);
	return true;
}

static bool still_in_way(int fd, struct iw_candidate *c)
{
	if ((int32_t)(atomic_load(&c->calls) - atomic_load(&c->rest)) < 0)
		return true;
	switch (atomic_load(&c->wait)) {
	case IW_WAIT_UNREAD:
		return unread(fd);
	case IW_WAIT_TOLD:
		return !iw_switch_taken(fd, atomic_load(&c->way));
	default:
		return iw_quiet_in_way(atomic_load(&c->way));
	}
}

bool iw_candidate_ripe(int fd, struct iw_candidate *c)
{
	if (atomic_load(&c->calls) - atomic_load(&c->since) < WAIT_CALLS && still_in_way(fd, c))
		return false;
	atomic_store(&c->wait, IW_WAIT_NONE);	/* for iw_candidate_look() */
	return true;
}

enum looked {
	NOTHING,	/* to be done about it in this call */
	WAITING,	/* for GO */
	WAITS_FOR,	/* GO is there, and somebody is inside another call */
	HINDERED,	/* that may last */
	GONE,		/* switched; so is the entry */
};

static enum looked try_switch(int fd, struct iw_candidate *c)
{
	enum iw_reason why = 0;

	IW_PROBE1(libiwsock, go, fd);
	switch (iw_switch(fd, c, &why)) {
	case IW_SWITCH_DONE:
		return GONE;
	case IW_SWITCH_NEVER:
		stays_plain(fd, c, NULL, why);
		return NOTHING;
	case IW_SWITCH_REFUSED:
		return wait_for(c, atomic_load(&c->way) ? IW_WAIT_TOLD : IW_WAIT_UNREAD, unread(fd) ? 1 : 2) ? NOTHING : HINDERED;
	default:
		if (why)
			tell_plain(fd, c, NULL, why, true);
		return why == IW_REASON_BUSY && wait_for(c, IW_WAIT_THREAD, REST_CALLS << c->waits) ? WAITS_FOR : HINDERED;
	}
}

/* *wait_ms: see consider(). */
static enum looked look(int fd, struct iw_candidate *c, uint32_t *wait_ms)
{
	if (atomic_load(&c->state) == IW_PROPOSED && !stands(c) && iw_daemon_ready()) {
		atomic_store(&c->state, IW_YOUNG);	/* another daemon: once more */
		c->conn_id = 0;
	}
	if (atomic_load(&c->state) == IW_PROPOSED && stands(c) && !go(c) && another_kind(fd, c))
		atomic_store(&c->state, IW_YOUNG);
	if (atomic_load(&c->state) == IW_YOUNG)
		consider(fd, c, wait_ms);
	if (atomic_load(&c->state) != IW_PROPOSED)
		return NOTHING;
	if (!stands(c)) {
		try_later(c);
		return NOTHING;
	}
	if (!go(c))
		return WAITING;
	atomic_store(&c->wait, IW_WAIT_NONE);
	return try_switch(fd, c);
}

static enum looked look_taken(int fd, struct iw_candidate *c, uint32_t *wait_ms, bool last)
{
	uint64_t sigs = iw_sig_block();
	enum looked r = NOTHING;

	if (iw_candidate_take(c)) {
		r = look(fd, c, wait_ms);
		if (r == HINDERED && last)
			try_later(c);
		if (r != GONE)
			iw_candidate_leave(c);
	}
	iw_sig_restore(sigs);
	return r;
}

/* true: it is time to ask whether the daemon is there. */
static bool no_go(struct iw_candidate *c)
{
	uint32_t calls = atomic_load_explicit(&c->calls, memory_order_relaxed);
	uint32_t n = calls - atomic_load_explicit(&c->since, memory_order_relaxed);

	if (n >= EACH_CALL)
		iw_candidate_later(c, LOOK_CALLS, LOOK_OCTETS);
	if (n < ALIVE_CALLS)
		return false;
	atomic_store_explicit(&c->since, calls - EACH_CALL, memory_order_relaxed);
	return true;
}

void iw_candidate_look(int fd, struct iw_candidate *c)
{
	struct timespec t = { 0, 200000 };
	uint32_t wait_ms = 0;
	enum looked r;
	uint64_t end;

	if (atomic_load_explicit(&c->state, memory_order_relaxed) == IW_PROPOSED && stands(c) && !go(c)) {
		if (!no_go(c))
			return;
		iw_daemon_ready();
	}
	if (atomic_load_explicit(&c->wait, memory_order_relaxed) || iw_in_vfork())
		return;
	r = look_taken(fd, c, &wait_ms, true);
	if (!wait_ms)
		return;
	for (end = iw_now_ms() + wait_ms; r == WAITING || r == WAITS_FOR || r == HINDERED; r = look_taken(fd, c, &wait_ms, iw_now_ms() >= end))
		if (iw_now_ms() >= end || IW_SYS(nanosleep, &t, NULL) == -EINTR)
			break;
}
