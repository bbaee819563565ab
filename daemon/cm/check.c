// SPDX-License-Identifier: MIT
/* The end-to-end probe behind `iwctl check`: each step of a connection set-up, tried and explained. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/conf.h"
#include "daemon/net/ipsec.h"
#include "daemon/net/locals.h"
#include "daemon/net/peers.h"
#include "daemon/session/session.h"
#include "book.h"
#include "listeners.h"

struct check {
	struct sess_ask ask;
	struct iw_addr dst;
	uint8_t local[16];		/* of the session */
	void (*done)(void *arg, bool ok, const char *text);
	void *arg;
	uint64_t started;
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
		step(k, "Conclusion: a connection to %s from a program with the library is accelerated.", iw_addr_text(&k->dst));
	else
		step(k, "Conclusion: plain TCP, %s. %s %s", iw_reason_name(reason), iw_reason_sentence(reason), iw_reason_advice(reason));
	k->done(k->arg, !reason, k->text);
	free(k);
}

static void listener_step(struct check *k, bool there)
{
	if (there)
		step(k, "A listener is registered for port %u.", k->dst.port);
	else
		step(k, "No listener is registered for port %u: nobody listens there, or a program without the library, or one that has not talked to its "
			"daemon since that started.", k->dst.port);
}

static void shunned_step(struct check *k)
{
	enum iw_reason reason = shun_find(&k->dst);

	if (reason)
		step(k, "An earlier connection to it stayed plain (%s); new ones do not try for up to %u s.", iw_reason_name(reason),
		     conf.negative_ttl);
	conclude(k, reason);
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

/* The session as it is now: what we could do, and what the other daemon could. */
static bool session_step(struct check *k, enum iw_reason reason)
{
	struct sess_info s;

	if (!sess_look(k->dst.ip, &s)) {
		no_session_step(k, reason);
		return false;
	}
	memcpy(k->local, s.local, 16);
	if (reason == IW_REASON_TIMEOUT) {
		step(k, "There is a session with its daemon at port %u from %s, but it does not answer.", conf.control_port, iw_ip_text(s.local));
		return true;
	}
	step(k, "Its daemon answers at port %u: MPA and version %u are agreed, it took %u ms from %s.", conf.control_port, IW_SM_VERSION,
	     s.took_ms, iw_ip_text(s.local));
	if (reason == IW_REASON_PEER_UNTRUSTED)
		step(k, "Its daemon cannot reach port %u of this host.", conf.control_port);
	else if (s.reached_us)
		step(k, "Its daemon has reached this host's control port.");
	return true;
}

static void answered(struct sess_ask *q, bool yes, enum iw_reason reason)
{
	struct check *k = container_of(q, struct check, ask);

	if (!session_step(k, reason)) {
		conclude(k, reason ? reason : IW_REASON_DAEMON_GONE);
		return;
	}
	if (!yes && reason == IW_REASON_TIMEOUT) {
		conclude(k, ipsec_step(k, k->local) ? reason : IW_REASON_NO_IPSEC);
		return;
	}
	if (!yes && reason != IW_REASON_LISTENER_NOT_REGISTERED) {
		conclude(k, reason);
		return;
	}
	listener_step(k, yes);
	if (!ipsec_step(k, k->local))
		conclude(k, IW_REASON_NO_IPSEC);
	else if (yes)
		shunned_step(k);
	else
		conclude(k, reason);
}

void cm_check(const struct iw_addr *dst, void (*done)(void *arg, bool ok, const char *text), void *arg)
{
	struct check *k = calloc(1, sizeof(*k));
	struct peer *p;

	if (!k) {
		done(arg, false, "out of memory\n");
		return;
	}
	k->dst = *dst;
	k->done = done;
	k->arg = arg;
	k->started = engine_now_ms();
	step(k, "iwarpd of this host runs: version %s, control port %u.", IWSOCK_VERSION, conf.control_port);
	if (iw_ip_any(dst->ip) || addr_is_local(dst->ip)) {
		step(k, "%s is an address of this host.", iw_ip_text(dst->ip));
		listener_step(k, listener_match(dst));
		if (listener_match(dst))
			shunned_step(k);
		else
			conclude(k, IW_REASON_LISTENER_NOT_REGISTERED);
		return;
	}
	step(k, "%s is another host.", iw_ip_text(dst->ip));
	p = peer_find(dst->ip);
	if (p) {
		p->expires = 0;		/* look again, whatever is remembered */
		p->dial_err = 0;
	}
	k->ask.type = IW_SM_LOOKUP;
	k->ask.fresh = true;
	k->ask.a = *dst;
	k->ask.fn = answered;
	sess_ask(&k->ask, dst, SESS_DIAL_MS + 500);
}
