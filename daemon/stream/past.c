// SPDX-License-Identifier: MIT
/*
 * What is left of a stream for those who are given its end later: the page, and whose it was. Nothing wakes us when that end is closed, so it is
 * looked for, as for pairs (local.c), less often the longer it stays.
 */
#include "past.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/base/list.h"
#include "life.h"
#include "local.h"
#include "stream_priv.h"

#define BITS	10u
#define FIRST_MS	100u
#define LAST_MS	10000u

struct past {
	struct list hash, all;
	uint64_t id, cookie;
	struct iw_tuple tuple;
	uint32_t uid;
	int watch, watched, segment;
	size_t size;
};

static struct list by_cookie[1u << BITS], all;
static struct timer timer;
static unsigned int ms;

static struct list *bucket(uint64_t cookie)
{
	return list_bucket(&by_cookie[cookie & ((1u << BITS) - 1)]);
}

static void drop(struct past *p)
{
	list_del(&p->hash);
	list_del(&p->all);
	close(p->watch);
	close(p->segment);
	stream_count_user(p->uid, -1);
	free(p);
}

static void look(struct timer *t)
{
	list_each(n, nxt, list_bucket(&all)) {
		struct past *p = list_entry(n, struct past, all);

		if (!local_lists(p->watch, p->watched))
			drop(p);
	}
	ms = ms * 2 < LAST_MS ? ms * 2 : LAST_MS;
	if (!list_empty(&all))
		timer_start(&timer, ms, look);
}

/* Its end was told that ours is closed, so it is there; if it is that end, and not a carrier that is relayed (rest.c). */
static bool hangs_up(const struct stream *st)
{
	struct epoll_event e;

	return st->watch >= 0 && epoll_wait(st->watch, &e, 1, 0) > 0 && local_lists(st->watch, st->watched[0]);
}

void past_keep(struct stream *st)
{
	const struct stream_end *e = &st->end[0];
	struct past *p;

	if (st->segment < 0 || !e->cookie || !hangs_up(st))
		return;
	p = malloc(sizeof(*p));
	if (!p || stream_count_user(e->uid, 1)) {
		free(p);
		return;
	}
	*p = (struct past){
		.id = st->id, .cookie = e->cookie, .tuple = e->tuple, .uid = e->uid, .watch = st->watch, .watched = st->watched[0],
		.segment = st->segment, .size = st->size,
	};
	st->watch = st->segment = -1;
	list_add_tail(bucket(p->cookie), &p->hash);
	list_add_tail(list_bucket(&all), &p->all);
	ms = FIRST_MS;
	timer_start(&timer, ms, look);
}

int past_open(uint64_t cookie, struct stream_grant *g)
{
	list_each(n, nxt, bucket(cookie)) {
		struct past *p = list_entry(n, struct past, hash);

		if (p->cookie != cookie)
			continue;
		*g = (struct stream_grant){
			.stream_id = p->id, .size = p->size, .carrier = -1, .tuple = p->tuple, .segment = fcntl(p->segment, F_DUPFD_CLOEXEC, 0),
		};
		return g->segment < 0 ? -errno : 0;
	}
	return -ENOENT;
}
