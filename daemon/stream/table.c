// SPDX-License-Identifier: MIT
/* All streams: how they are found, and shown. */
#include "table.h"

#include <string.h>
#include <sys/random.h>

#include "agent.h"
#include "count.h"
#include "local.h"
#include "remote.h"
#include "stream_priv.h"
#include "upgrade.h"

#define BUCKETS		4096u

static struct {
	struct stream *all, *by_id[BUCKETS], *by_cookie[2][BUCKETS];
	unsigned int count;
	struct stream_counts gone;	/* of those that are */
} tab;

struct stream *table_find(uint64_t id)
{
	struct stream *st = tab.by_id[id % BUCKETS];

	while (st && st->id != id)
		st = st->hnext;
	return st;
}

struct stream *stream_find(uint64_t id)
{
	struct stream *st = table_find(id);

	return st && st->state != STREAM_DEAD ? st : NULL;
}

uint64_t table_id(void)
{
	uint64_t id = 0;

	while (!id || table_find(id)) {
		if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
			id = 0;
	}
	return id;
}

void table_add_end(struct stream *st, unsigned int end)
{
	struct stream **b = &tab.by_cookie[end][st->end[end].cookie % BUCKETS];

	st->end[end].hnext = *b;
	*b = st;
}

void table_del_end(struct stream *st, unsigned int end)
{
	struct stream **p = &tab.by_cookie[end][st->end[end].cookie % BUCKETS];

	while (*p && *p != st)
		p = &(*p)->end[end].hnext;
	if (*p)
		*p = st->end[end].hnext;
}

void table_del(struct stream *st)
{
	struct stream_counts c;
	struct stream **p;

	for (p = &tab.by_id[st->id % BUCKETS]; *p; p = &(*p)->hnext) {
		if (*p == st) {
			*p = st->hnext;
			break;
		}
	}
	for (unsigned int e = 0; e < 2; e++)
		table_del_end(st, e);
	if (st->pprev) {
		*st->pprev = st->next;
		if (st->next)
			st->next->pprev = st->pprev;
		tab.count--;
		count_ours(st, &c);
		count_add(&tab.gone, &c);
	}
}

struct stream *table_next(const struct stream *st)
{
	return st ? st->next : tab.all;
}

void table_add(struct stream *st)
{
	st->next = tab.all;
	st->pprev = &tab.all;
	if (st->next)
		st->next->pprev = &st->next;
	tab.all = st;
	st->hnext = tab.by_id[st->id % BUCKETS];
	tab.by_id[st->id % BUCKETS] = st;
	table_add_end(st, 0);
	tab.count++;
}

struct stream *table_find_carrier(uint64_t cookie, unsigned int *end)
{
	for (*end = 0; *end < 2; ++*end) {
		for (struct stream *st = tab.by_cookie[*end][cookie % BUCKETS]; st; st = st->end[*end].hnext) {
			if (st->end[*end].cookie == cookie)
				return st;
		}
	}
	return NULL;
}

/* ---- looking at streams ---- */

uint64_t stream_id(const struct stream *st)
{
	return st->id;
}

enum stream_state stream_state(const struct stream *st)
{
	return st->state;
}

const struct iw_tuple *stream_tuple(const struct stream *st)
{
	return &st->end[0].tuple;
}

void *stream_cm_data(struct stream *st)
{
	return st->cm_data;
}

void stream_set_cm_data(struct stream *st, void *p)
{
	st->cm_data = p;
}

static const char *device_of(const struct stream *st)
{
	return st->remote && st->remote->ep ? endpoint_device(st->remote->ep) : NULL;
}

static const char *path_of(const struct stream *st, unsigned int e)
{
	if (st->state == STREAM_LOCAL)
		return local_path(st, e);
	return device_of(st) ? "device" : "carrier";
}

void table_info(const struct stream *st, unsigned int e, struct stream_info *i)
{
	const struct stream_end *end = &st->end[e];
	struct stream_counts c;

	count_of(st, &c);
	*i = (struct stream_info){
		.id = st->id, .state = st->state, .tuple = end->tuple, .client = st->client != e, .pid = end->pid,
		.uid = end->uid, .fd = end->fd, .reason = st->reason, .tx_bytes = c.tx_bytes, .rx_bytes = c.rx_bytes, .stat = c.stat,
		.since_ms = st->since_ms, .active_ms = st->active_ms, .path = path_of(st, e), .device = device_of(st),
	};
	memcpy(i->program, end->program, sizeof(i->program));
	upgrade_info(st, i);
	agent_info(st, i);
	if (st->state == STREAM_RUNNING && end->tcp >= 0)
		tcp_congestion(end->tcp, &st->kept, i->congestion, i->congestion_told);
}

bool stream_look_end(uint64_t id, unsigned int end, struct stream_info *info)
{
	const struct stream *st = stream_find(id);

	if (st)
		table_info(st, end, info);
	return st;
}

bool stream_look(uint64_t id, struct stream_info *info)
{
	return stream_look_end(id, 0, info);
}

/* A local pair is shown twice, once for each application. */
void stream_foreach(void (*fn)(void *arg, const struct stream_info *info), void *arg)
{
	struct stream_info info;

	for (struct stream *st = tab.all; st; st = st->next) {
		table_info(st, 0, &info);
		fn(arg, &info);
		if (st->state != STREAM_LOCAL)
			continue;
		table_info(st, 1, &info);
		fn(arg, &info);
	}
}

void stream_tally(struct stream_tally *t)
{
	struct stream_counts c;

	*t = (struct stream_tally){ .counts = tab.gone };
	for (const struct stream *st = tab.all; st; st = st->next) {
		count_ours(st, &c);
		count_add(&t->counts, &c);
		switch (st->state) {
		case STREAM_GRANTED: t->pending++; break;
		case STREAM_STARTING: case STREAM_RUNNING: t->iwarp++; break;
		case STREAM_LOCAL: t->local += 2; break;
		case STREAM_RELAY: t->relay++; break;
		case STREAM_CLOSING: case STREAM_DEAD: t->closing++; break;
		}
	}
}

unsigned int stream_count(void)
{
	return tab.count;
}
