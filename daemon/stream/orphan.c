// SPDX-License-Identifier: MIT
/* Streams whose application is gone: see orphan.h. */
#include "orphan.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/rnic/endpoint.h"
#include "life.h"
#include "map_priv.h"
#include "remote.h"
#include "stream_priv.h"
#include "tcp.h"

#define WAIT_S	60	/* TCP's own default */
#define STUCK	4u	/* so many times that, if nothing goes on that does not wait for a reader */

static unsigned int wait_ms(int tcp)
{
	int s = 0;
	socklen_t len = sizeof(s);

	if (getsockopt(tcp, IPPROTO_TCP, TCP_LINGER2, &s, &len) || s <= 0)
		s = WAIT_S;
	return (unsigned int)s * 1000;
}

/* By a device: what went either way there; its T is still. */
static uint64_t by_device(const struct stream *st)
{
	struct endpoint_stat s;

	endpoint_stat(st->remote->ep, &s);
	return 1 + s.tx_send + s.tx_write + s.rx_send;
}

/* Octets that went either way; of a connection that is never still, none are known. */
static uint64_t progress(const struct stream *st)
{
	struct tcp_count c;

	if (endpoint_device(st->remote->ep))
		return by_device(st);
	return tcp_count(st->end[0].tcp, false, &c) ? 0 : c.acked + c.received;
}

static bool partial(const struct stream *st)
{
	struct iw_soft *s = endpoint_caps(st->remote->ep) & ENDPOINT_REST ? map_priv_of(st).s : NULL;

	return s && s->rx_len > s->rx_off;
}

static bool over(const struct stream *st)
{
	const struct stream_remote *r = st->remote;
	const struct iw_rs *rs = &r->f->rs;

	if (map_taken(st))
		return false;
	return rs->tx_fin_acked ? r->orphan_waits : r->orphan_waits >= STUCK && (!rs->tx_fin_sent || partial(st));
}

static void look(struct timer *t)
{
	struct stream_remote *r = container_of(t, struct stream_remote, orphan);
	struct stream *st = r->st;
	uint64_t now = progress(st);

	r->orphan_waits = now && now == r->orphan_seen ? r->orphan_waits + 1 : 0;
	r->orphan_seen = now;
	if (!over(st)) {
		timer_start(t, wait_ms(st->end[0].tcp), look);
		return;
	}
	stream_log(st, LOG_INFO, "its application is gone, and the other end says nothing: ended");
	endpoint_close(r->ep);
}

void orphan_begin(struct stream *st)
{
	struct stream_remote *r = st->remote;

	r->orphan_waits = 0;
	r->orphan_seen = progress(st);
	timer_start(&r->orphan, wait_ms(st->end[0].tcp), look);
}
