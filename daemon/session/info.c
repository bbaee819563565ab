// SPDX-License-Identifier: MIT
/* What is shown of sessions, and of the peers that have them. */
#include <string.h>

#include "daemon/stream/stream.h"
#include "sess.h"

static void count_stream(void *arg, const struct stream_info *info)
{
	struct peer *p = peer_find(info->tuple.peer.ip);

	if (p)
		p->streams++;
}

static void count_none(struct peer *p, void *arg)
{
	p->streams = 0;
}

struct show {
	void (*fn)(void *arg, const struct peer_info *info);
	void *arg;
};

static void show(struct peer *p, void *arg)
{
	const struct show *to = arg;
	struct peer_info info = { .state = p->state, .reason = p->reason, .expires_ms = p->expires, .streams = p->streams };

	if (p->state == IW_PEER_NEGATIVE && !peer_negative(p))
		info.state = IW_PEER_UNKNOWN;
	memcpy(info.ip, p->ip, 16);
	info.in = sess_any_up(&p->in);
	info.out = sess_any_up(&p->out);
	to->fn(to->arg, &info);
}

void peers_foreach(void (*fn)(void *arg, const struct peer_info *info), void *arg)
{
	peers_each(count_none, NULL);
	stream_foreach(count_stream, NULL);
	peers_each(show, &(struct show){ fn, arg });
}

bool sess_look(const uint8_t ip[16], struct sess_info *info)
{
	static const uint8_t any[16];
	struct peer *p = peer_find(ip);
	struct sess *s = p ? sess_out(p, any) : NULL;

	if (!s || s->state != SESS_UP)
		return false;
	memcpy(info->local, s->local, 16);
	info->took_ms = s->took_ms;
	info->reached_us = false;
	list_each(n, nxt, &p->in) {
		const struct sess *in = list_entry(n, struct sess, node);

		info->reached_us |= in->state == SESS_UP && in->vouched && iw_ip_same(in->local, s->local);
	}
	return true;
}
