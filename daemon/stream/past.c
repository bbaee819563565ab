// SPDX-License-Identifier: MIT
/*
 * What is left of a stream for who has its end: the page, whose it was, and the TCP socket, whose connection is over, for its options. Nothing wakes us when
 * that end is closed, so it is looked for, as for pairs (local.c), less often the longer it stays.
 */
#include "past.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/closing.h"
#include "daemon/base/list.h"
#include "life.h"
#include "local.h"
#include "stream_priv.h"
#include "tcp.h"

#define BITS	10u
#define FIRST_MS	100u
#define LAST_MS	10000u

struct past {
	struct list by_cookie, by_id, all;
	uint64_t id, cookie;
	struct iw_tuple tuple;
	uint32_t uid;
	int watch, watched, segment, tcp;
	struct tcp_kept kept;
	size_t size;
};

static struct list cookies[1u << BITS], ids[1u << BITS], all;
static struct timer timer;
static unsigned int ms;

static struct list *bucket(struct list *table, uint64_t key)
{
	return list_bucket(&table[key & ((1u << BITS) - 1)]);
}

static struct past *find(uint64_t id)
{
	list_each(n, nxt, bucket(ids, id)) {
		struct past *p = list_entry(n, struct past, by_id);

		if (p->id == id)
			return p;
	}
	return NULL;
}

static void drop(struct past *p)
{
	list_del(&p->by_cookie);
	list_del(&p->by_id);
	list_del(&p->all);
	close(p->watch);
	close(p->segment);
	if (p->tcp >= 0) {
		tcp_on_close(p->tcp, tcp_linger0(&p->kept));
		close_socket(p->tcp);
	}
	stream_forgotten(p->id);
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

/* As by a close of its last holder, but for the answers. Octets that nobody has read are a reset when it is closed, so it is closed. */
static int silent(struct stream *st)
{
	int tcp = st->end[0].tcp;

	if (tcp < 0 || st->tcp_reset || tcp_unread(tcp))
		return -1;
	if (!st->tcp_lent) {
		tcp_on_close(tcp, false);
		shutdown(tcp, SHUT_RDWR);
	}
	st->end[0].tcp = -1;
	return tcp;
}

bool past_keep(struct stream *st)
{
	const struct stream_end *e = &st->end[0];
	struct past *p;

	if (st->segment < 0 || !e->cookie || !hangs_up(st))
		return false;
	p = malloc(sizeof(*p));
	if (!p || stream_count_user(e->uid, 1)) {
		free(p);
		return false;
	}
	*p = (struct past){
		.id = st->id, .cookie = e->cookie, .tuple = e->tuple, .uid = e->uid, .watch = st->watch, .watched = st->watched[0],
		.segment = st->segment, .size = st->size, .tcp = silent(st), .kept = st->kept,
	};
	p->kept.unpaced = false;
	st->watch = st->segment = -1;
	list_add_tail(bucket(cookies, p->cookie), &p->by_cookie);
	list_add_tail(bucket(ids, p->id), &p->by_id);
	list_add_tail(list_bucket(&all), &p->all);
	ms = FIRST_MS;
	timer_start(&timer, ms, look);
	return true;
}

int past_tcp(uint64_t id, struct tcp_kept **kept)
{
	struct past *p = find(id);

	if (!p)
		return -1;
	*kept = &p->kept;
	return p->tcp;
}

int past_open(uint64_t cookie, struct stream_grant *g)
{
	list_each(n, nxt, bucket(cookies, cookie)) {
		struct past *p = list_entry(n, struct past, by_cookie);

		if (p->cookie != cookie)
			continue;
		*g = (struct stream_grant){
			.stream_id = p->id, .size = p->size, .carrier = -1, .tuple = p->tuple, .segment = fcntl(p->segment, F_DUPFD_CLOEXEC, 0),
		};
		return g->segment < 0 ? -errno : 0;
	}
	return -ENOENT;
}
