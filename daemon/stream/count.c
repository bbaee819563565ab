// SPDX-License-Identifier: MIT
/* What streams have carried, those that are mapped, too: count.h. */
#include "count.h"

#include <netinet/in.h>
#include <linux/tcp.h>
#include <sys/socket.h>

#include "daemon/rnic/soft.h"
#include "map_priv.h"
#include "remote.h"

#define SLACK	(64u << 20)	/* what may lie in queues and rings, and on neither side of a kernel's count */
#define WORDS	(sizeof(struct stream_counts) / sizeof(uint64_t))

static_assert(sizeof(struct stream_counts) == sizeof(uint64_t) * (2 + sizeof(struct endpoint_stat) / sizeof(uint64_t)), "counts only");

static uint64_t *words(struct stream_counts *c)
{
	return (uint64_t *)c;
}

static void sub(struct stream_counts *c, const struct stream_counts *d)
{
	for (size_t i = 0; i < WORDS; i++)
		words(c)[i] -= ((const uint64_t *)d)[i];
}

void count_add(struct stream_counts *sum, const struct stream_counts *c)
{
	for (size_t i = 0; i < WORDS; i++)
		words(sum)[i] += ((const uint64_t *)c)[i];
}

/* Octets on T, both ways: more than anything that is counted. */
static uint64_t on_wire(const struct stream *st)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);

	if (st->end[0].tcp < 0 || getsockopt(st->end[0].tcp, IPPROTO_TCP, TCP_INFO, &i, &len))
		return 0;
	return i.tcpi_bytes_sent + i.tcpi_notsent_bytes + i.tcpi_bytes_received;
}

static void noted(const struct iw_map_priv *at, struct stream_counts *c)
{
	c->tx_bytes = at->f->rs.tx_pos;
	c->rx_bytes = at->f->rs.rx_pos;
	soft_stat_of(&at->s->qp.stat, &c->stat);
}

static void from_here(struct stream *st, uint64_t wire)
{
	struct stream_map *m = st->map;
	struct iw_map_priv priv = map_priv_of(st);

	noted(&priv, &m->from);
	m->told = (struct stream_counts){ 0 };
	m->wire_from = wire;
	m->wire = SLACK;
	m->counts = true;
}

void count_offered(struct stream *st)
{
	from_here(st, on_wire(st));
}

void count_revived(struct stream *st)
{
	from_here(st, 0);
}

void count_begins(struct stream *st)
{
	count_of(st, &st->before);
}

/* TCP is not asked before somebody has more than it was known to have carried. */
static void look_at_wire(const struct stream *st, struct stream_counts *now)
{
	struct stream_map *m = st->map;
	uint64_t most = 0, wire;

	for (size_t i = 0; i < WORDS; i++)
		if (words(now)[i] > most)
			most = words(now)[i];
	if (most <= m->wire)
		return;
	wire = on_wire(st);
	if (wire > m->wire_from && wire - m->wire_from + SLACK > m->wire)
		m->wire = wire - m->wire_from + SLACK;
}

/* Of each the most that was ever there, if TCP can have carried it. */
static void look(const struct stream *st, const struct iw_map_priv *at)
{
	struct stream_map *m = st->map;
	struct stream_counts now;

	noted(at, &now);
	sub(&now, &m->from);
	look_at_wire(st, &now);
	for (size_t i = 0; i < WORDS; i++) {
		uint64_t v = words(&now)[i];

		if (v > m->wire)
			v = (int64_t)v < 0 ? 0 : m->wire;
		if (v > words(&m->told)[i])
			words(&m->told)[i] = v;
	}
}

static void look_at_map(const struct stream *st)
{
	struct iw_map_priv at;

	iw_map_at(map_of(st), &st->remote->f->p, &at);
	look(st, &at);
}

/* From here on the private counts go on by what the daemon itself does, from wherever they were left. */
void count_settle(struct stream *st, bool imported)
{
	struct stream_map *m = st->map;
	struct stream_counts now;
	struct iw_map_priv priv;

	if (!map_taken(st) || !m->counts)
		return;
	priv = map_priv_of(st);
	if (imported)
		look(st, &priv);
	else
		look_at_map(st);
	m->counts = false;
	st->tx_bytes += m->told.tx_bytes;
	st->rx_bytes += m->told.rx_bytes;
	noted(&priv, &now);
	count_add(&st->off, &m->from);
	count_add(&st->off, &m->told);
	sub(&st->off, &now);
}

void count_of(const struct stream *st, struct stream_counts *c)
{
	struct stream_counts sum = st->off;

	sum.tx_bytes = st->tx_bytes;
	sum.rx_bytes = st->rx_bytes;
	*c = (struct stream_counts){ 0 };
	remote_stat(st, &c->stat);
	count_add(c, &sum);
	if (!map_taken(st) || !st->map->counts)
		return;
	look_at_map(st);
	count_add(c, &st->map->told);
}

void count_ours(const struct stream *st, struct stream_counts *c)
{
	count_of(st, c);
	sub(c, &st->before);
}
