// SPDX-License-Identifier: MIT
/* The end-to-end probe behind `iwctl check`: whatever lies between two programs with the library and a stream, tried and explained. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/conf.h"
#include "daemon/net/ipsec.h"
#include "daemon/net/locals.h"
#include "daemon/net/peers.h"
#include "daemon/rnic/prm.h"
#include "daemon/session/session.h"
#include "cm.h"

#define PROOF_MS	2000u	/* after the other daemon has answered, for ours to know which sessions are its own */
#define LOOK_MS		20u

struct check {
	struct sess_ask ask;
	struct timer timer;
	struct iw_addr dst;
	uint32_t uid;			/* who asks */
	uint8_t local[16];		/* of the session */
	void (*done)(void *arg, bool ok, const char *text);
	void *arg;
	uint64_t started, answered;
	bool believed;			/* the other daemon acts on what we ask */
	unsigned int step;
	size_t len;
	char text[3000];
};

static void step(struct check *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void step(struct check *k, const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(k->text + k->len, sizeof(k->text) - k->len, "%u. ", ++k->step);
	k->len += (size_t)n;
	va_start(ap, fmt);
	n = vsnprintf(k->text + k->len, sizeof(k->text) - k->len - 1, fmt, ap);
	va_end(ap);
	k->len += (size_t)n < sizeof(k->text) - k->len - 2 ? (size_t)n : 0;
	k->text[k->len++] = '\n';
	k->text[k->len] = 0;
}

/* Says why not (ACCELERATED: it will be) and ends. */
static void conclude(struct check *k, enum iw_reason reason)
{
	if (!reason)
		step(k, "Conclusion: a connection to %s is accelerated when the programs at both ends have the library and it carries enough "
			"(upgrade_after in iwsock.conf).", iw_addr_text(&k->dst));
	else
		step(k, "Conclusion: plain TCP, %s. %s %s", iw_reason_name(reason), iw_reason_sentence(reason), iw_reason_advice(reason));
	k->done(k->arg, !reason, k->text);
	free(k);
}

/* What a stream more would take from the user's quotas; others than that of streams are made to fit it. */
static bool quota_step(struct check *k)
{
	struct prm_user *u = prm_user_get(k->uid);
	uint64_t has = u ? u->used[PRM_STREAMS] : 0, may = u ? prm_limit(u, PRM_STREAMS) : 0;

	step(k, "User %u has %" PRIu64 " streams and may have %" PRIu64 ".", k->uid, has, may);
	return has < may;
}

/* As far as it can be told without the port that a connection will have. */
static bool ipsec_step(struct check *k, const uint8_t local[16])
{
	struct iw_tuple t = { .peer = k->dst };

	if (!conf.require_ipsec)
		return true;
	memcpy(t.local.ip, local, 16);
	if (ipsec_state() == IPSEC_UNREADABLE)
		step(k, "require_ipsec is set, and the IPsec policies of this kernel cannot be read; see the journal.");
	else if (ipsec_check(&t))
		step(k, "require_ipsec is set, and no IPsec policy asks for ESP between %s and %s in both directions.", iw_ip_text(local), iw_addr_text(&k->dst));
	else
		step(k, "IPsec policies ask for ESP between %s and %s in both directions; whether there are security associations, without which the "
			"kernel lets nothing pass, was not looked at.", iw_ip_text(local), iw_addr_text(&k->dst));
	return !ipsec_check(&t);
}

static void no_session_step(struct check *k, enum iw_reason reason)
{
	struct peer *p = peer_find(k->dst.ip);
	int err = p ? p->dial_err : 0;
	unsigned int ms = (unsigned int)(engine_now_ms() - k->started);

	if (err && (reason == IW_REASON_PEER_NO_IWARP || reason == IW_REASON_PEER_UNREACHABLE))
		step(k, "No session with its daemon: port %u of it: %s (%u ms).", conf.control_port, strerror(err), ms);
	else
		step(k, "No session with its daemon at port %u (%u ms): %s.", conf.control_port, ms, iw_reason_name(reason));
}

static void rest(struct check *k)
{
	if (!ipsec_step(k, k->local))
		conclude(k, IW_REASON_NO_IPSEC);
	else
		conclude(k, quota_step(k) ? IW_REASON_ACCELERATED : IW_REASON_QUOTA);
}

/* Both directions: we ask it, and it asks us. */
static void look(struct timer *t)
{
	struct check *k = container_of(t, struct check, timer);
	struct sess_info s;

	if (!sess_look(k->dst.ip, &s)) {
		no_session_step(k, IW_REASON_DAEMON_GONE);
		conclude(k, IW_REASON_DAEMON_GONE);
		return;
	}
	memcpy(k->local, s.local, 16);
	if (!s.reached_us && engine_now_ms() - k->answered < PROOF_MS) {
		timer_start(t, LOOK_MS, look);
		return;
	}
	step(k, "Its daemon answers at port %u: MPA and version %u are agreed, it took %u ms from %s.", conf.control_port, IW_SM_VERSION,
	     s.took_ms, iw_ip_text(s.local));
	if (!k->believed || !s.reached_us) {
		step(k, "Its daemon cannot reach port %u of this host.", conf.control_port);
		conclude(k, IW_REASON_PEER_UNTRUSTED);
		return;
	}
	step(k, "Its daemon has reached this host's control port, and each knows the other.");
	rest(k);
}

/* A connection that nobody has: that it says so shows that it answers, and to whom. */
static void answered(struct sess_ask *q, const struct iw_sm *m, enum iw_reason reason)
{
	struct check *k = container_of(q, struct check, ask);

	k->believed = m;
	k->answered = engine_now_ms();
	timer_stop(&k->timer);
	if (m || reason == IW_REASON_PEER_UNTRUSTED) {
		look(&k->timer);
		return;
	}
	no_session_step(k, reason);
	conclude(k, reason);
}

static void late(struct timer *t)
{
	struct check *k = container_of(t, struct check, timer);
	enum iw_reason reason = IW_REASON_TIMEOUT;
	struct sess_info s;

	sess_ask_cancel(&k->ask);
	if (sess_look(k->dst.ip, &s)) {
		step(k, "There is a session with its daemon at port %u from %s, but it does not answer.", conf.control_port, iw_ip_text(s.local));
		if (!ipsec_step(k, s.local))
			reason = IW_REASON_NO_IPSEC;
	} else {
		no_session_step(k, reason);
	}
	conclude(k, reason);
}

void cm_check(const struct iw_addr *dst, uint32_t uid, void (*done)(void *arg, bool ok, const char *text), void *arg)
{
	struct check *k = calloc(1, sizeof(*k));
	struct peer *p;

	if (!k) {
		done(arg, false, "out of memory\n");
		return;
	}
	k->dst = *dst;
	k->uid = uid;
	k->done = done;
	k->arg = arg;
	k->started = engine_now_ms();
	step(k, "iwarpd of this host runs: version %s, control port %u.", IWSOCK_VERSION, conf.control_port);
	if (iw_ip_any(dst->ip) || addr_is_local(dst->ip)) {
		step(k, "%s is an address of this host.", iw_ip_text(dst->ip));
		conclude(k, quota_step(k) ? IW_REASON_ACCELERATED : IW_REASON_QUOTA);
		return;
	}
	step(k, "%s is another host.", iw_ip_text(dst->ip));
	p = peer_find(dst->ip);
	if (p) {
		p->expires = 0;		/* look again, whatever is remembered */
		p->dial_err = 0;
	}
	k->ask.m = (struct iw_sm){ .type = IW_SM_PROPOSE, .flags = IW_SM_F_CLIENT, .a.port = dst->port, .b = *dst };
	k->ask.fn = answered;
	timer_start(&k->timer, 2 * SESS_DIAL_MS + 500, late);	/* each of us dials */
	sess_ask(&k->ask, uid);
}
