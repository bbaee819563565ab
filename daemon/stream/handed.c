// SPDX-License-Identifier: MIT
/* Ends of a joined pair that change their carrier: relayed from then on, or direct again. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/list.h"
#include "daemon/base/log.h"
#include "carrier.h"
#include "handed.h"
#include "keep_pair.h"
#include "life.h"
#include "local.h"
#include "rest.h"
#include "stream_priv.h"
#include "table.h"

/* What the program has of end e is found by that from now on. */
static void found_by(struct stream *st, unsigned int e, uint64_t cookie)
{
	table_del_end(st, e);
	st->end[e].cookie = cookie;
	table_add_end(st, e);
	keep_pair_end(st, e);
}

static struct stream_grant grant_of(const struct stream *st, unsigned int e, int carrier)
{
	return (struct stream_grant){
		.stream_id = st->id, .size = st->size, .carrier = carrier, .end = e, .flags = IW_PAGE_LOCAL, .tuple = st->end[e].tuple,
		.segment = fcntl(st->segment, F_DUPFD_CLOEXEC, 0),
	};
}

int stream_rest(int carrier, uint32_t uid, struct stream_grant *g)
{
	struct stream *st;
	uint64_t cookie;
	unsigned int e;
	int ret, s;

	st = stream_of_carrier(carrier, &e);
	if (!st || st->state != STREAM_LOCAL) {
		close_passed(carrier, uid);
		return -ENOENT;
	}
	ret = rest_begin(st, e, carrier, uid, &s);
	if (ret)
		return ret;
	*g = grant_of(st, e, s);
	ret = g->segment < 0 ? -errno : carrier_cookie(s, &cookie);
	if (!ret)
		ret = local_watch(st, e, s);
	if (ret) {
		close(s);
		if (g->segment >= 0)
			close(g->segment);
		return ret;
	}
	found_by(st, e, cookie);
	stream_log(st, LOG_DEBUG, "end %u is relayed, since octets were unread in its ring", e);
	return 0;
}

struct stream_direct {
	struct list node;	/* in offered, or alone */
	struct rest *r;
	uint64_t id;
	unsigned int end;
	void (*done)(void *arg, int ret, const struct stream_grant *g);
	void *arg;
};
static struct list offered = { &offered, &offered };

static void stopped(void *arg, int carrier)
{
	struct stream_direct *d = arg;
	struct stream *st = stream_find(d->id);
	struct rest_carrier none;
	struct stream_grant g;

	if (carrier >= 0 && st) {
		g = grant_of(st, d->end, carrier);
		if (g.segment >= 0) {
			list_add_tail(&offered, &d->node);
			d->done(d->arg, 0, &g);
			return;
		}
	}
	if (carrier >= 0) {
		close(carrier);
		rest_settle(d->r, &none);
		carrier = -ENOTCONN;
	}
	d->r = NULL;
	d->done(d->arg, carrier, NULL);
}

struct stream_direct *stream_direct(int carrier, void (*done)(void *arg, int ret, const struct stream_grant *g), void *arg)
{
	struct stream_direct *d;
	struct stream *st;
	unsigned int e;

	st = stream_of_carrier(carrier, &e);
	d = st && st->state == STREAM_LOCAL && st->rest[e] ? malloc(sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	*d = (struct stream_direct){ .r = st->rest[e], .id = st->id, .end = e, .done = done, .arg = arg };
	list_init(&d->node);
	if (!rest_direct(d->r, stopped, d))
		return d;
	free(d);
	return NULL;
}

uint64_t stream_direct_id(const struct stream_direct *d)
{
	return d->id;
}

/* Whose it is, the page says. */
static void settle(struct stream_direct *d)
{
	struct rest_carrier c;
	struct stream *st;

	list_del(&d->node);
	if (!d->r || !rest_settle(d->r, &c))
		return;
	st = stream_find(d->id);
	if (st && st->state == STREAM_LOCAL) {
		st->watched[d->end] = c.watched;
		found_by(st, d->end, c.cookie);
		stream_log(st, LOG_DEBUG, "end %u is not relayed any more", d->end);
	}
	close_passed(c.fd, c.uid);
	stream_stir();	/* it may be closed by now */
}

void stream_direct_end(struct stream_direct *d)
{
	settle(d);
	free(d);
}

bool handed_taken(uint64_t cookie)
{
	list_each(n, next, &offered) {
		struct stream_direct *d = list_entry(n, struct stream_direct, node);

		if (!rest_taken(d->r, cookie))
			continue;
		settle(d);
		d->r = NULL;
		return true;
	}
	return false;
}
