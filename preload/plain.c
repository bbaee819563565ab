// SPDX-License-Identifier: MIT
/* Connections that stay plain TCP: the daemon is told, so that it can list them with their reason. */
#include "proto/ctlmsg.h"
#include "proto/probe.h"
#include "daemon.h"
#include "deadline.h"
#include "plain.h"

#define TELL_PER_S	200u	/* messages per second and process; a busy plain server must not pay for iwctl */

static bool tell_allowed(void)
{
	static _Atomic uint64_t second;
	static _Atomic uint32_t count;
	uint64_t now = iw_now_ms() / 1000;

	if (atomic_exchange(&second, now) != now)
		atomic_store(&count, 0);
	return atomic_fetch_add(&count, 1) < TELL_PER_S;
}

void iw_plain_tell(int fd, struct iw_candidate *c, const struct iw_tuple *t, enum iw_reason why, bool for_now)
{
	bool known = iw_candidate_known(c);
	struct iw_ctl_conn m;

	IW_PROBE3(libiwsock, fallback, fd, why, for_now);
	if (!iw_daemon_up() || (!known && !t) || !tell_allowed())
		return;
	iw_ctl_init(&m, IW_CTL_PLAIN, 0);
	if (!known) {
		c->conn_id = iw_daemon_conn_id();
		atomic_store(&c->gen, iw_daemon_gen());
		m.local = t->local;
		m.peer = t->peer;
	}
	m.conn_id = c->conn_id;
	m.reason = why;
	m.flags = (atomic_load(&c->flags) & IW_CAND_CLIENT ? IW_CONN_CLIENT : 0) | (for_now ? IW_CONN_FOR_NOW : 0);
	m.fd = fd;
	iw_daemon_tell(&m, -1, 0);
}
