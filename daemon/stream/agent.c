// SPDX-License-Identifier: MIT
/* The agent of a mapped stream: see agent.h. */
#include "agent.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "proto/probe.h"
#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/rnic/rnic.h"
#include "carrier.h"
#include "carrier_pump.h"
#include "count.h"
#include "life.h"
#include "map_priv.h"
#include "remote.h"
#include "remote_mem.h"
#include "table.h"

#define LEAN_MS		1000u	/* then the memory that it needs no more is given back */

/* What the library did and the page and the carrier do not show yet. */
static void catch_up(struct stream *st, bool moved)
{
	struct iw_remote *f = st->remote->f;
	int lost = f->reset_err;
	bool aborted = f->aborted;

	f->reset_err = f->aborted = 0;
	if (moved)
		st->active_ms = engine_now_ms();
	atomic_store_explicit(&stream_page_end(st)->tx_taken, st->tx_bytes, memory_order_relaxed);
	atomic_store_explicit(&stream_page_end(st)->rx_given, st->rx_bytes, memory_order_relaxed);
	pump_unread(st);	/* before the loss that the library found behind it; and before ACK: no call gets EAGAIN where TCP would have served it */
	if (f->ev_done) {
		st->state = STREAM_CLOSING;
		endpoint_close(st->remote->ep);	/* before it finds that the peer has closed, too */
	}
	if (aborted)
		remote_abort(st, ECONNRESET);
	else if (lost && !f->ev_abort)
		remote_reset(st, lost);
	else if (lost && st->d >= 0 && !st->app_closed)
		carrier_lost(st, lost);	/* before ACK: a send says so. The pump does the rest */
}

/* 0; else it cannot be gone on with. */
static int import(struct stream *st, bool dead)
{
	struct iw_map_priv to = map_priv_of(st);
	struct tcp_count c;
	int ret;

	if (!dead)
		return iw_map_import(map_of(st), &to);
	ret = tcp_count(st->end[0].tcp, false, &c);
	return ret ? ret : iw_map_recover(map_of(st), &to, c.sent, c.received - c.unread);
}

void agent_take(struct stream *st, bool dead, unsigned int *pause, unsigned int min)
{
	const struct stream_map *m = st->map;
	const struct iw_rs *rs = &st->remote->f->rs;
	int ret;

	/* before an octet moves: the map is not the state any more, and while it is imported there is none */
	atomic_store(&stream_page_end(st)->hand, IW_HAND_VOID);
	ret = carrier_room(st) ? import(st, dead) : -ENOMEM;
	if (ret) {
		if (ret == -ENOMEM)
			stream_log(st, LOG_WARNING, "no memory to go on with it: reset");
		else if (ret == -ENOTCONN)	/* which cannot be counted on any more: nobody reads it */
			stream_log(st, LOG_INFO, "the application died, behind the other end: reset");
		else
			stream_log(st, LOG_WARNING, "the application %s its queue pair unsound: reset", dead ? "died, and left" : "left");
		remote_cut(st, ECONNRESET);
		return;
	}
	tcp_push(st->end[0].tcp);
	count_settle(st, true);
	catch_up(st, rs->tx_pos != m->tx_pos || rs->rx_pos != m->rx_pos);
	map_want_after(st, pause, min);
	map_go_on(st);
}

static void take_over(struct stream *st, bool dead)
{
	IW_PROBE2(iwarpd, given_back, st->id, dead);
	agent_take(st, dead, &st->remote->map_pause, MAP_PAUSE_MIN_MS);
}

static void watch(struct op *op, int fd, void (*fn)(struct op *op, int res, bool more))
{
	struct io_uring_sqe *sqe;

	if (op->busy)
		return;
	op->fn = fn;
	sqe = engine_sqe();
	io_uring_prep_poll_add(sqe, fd, POLLIN);
	engine_submit(sqe, op);
}

/* Another thread may have let go between the hang-up and the death. */
static void owner_dead(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, owner_op);

	if (st->state == STREAM_DEAD)
		stream_ended_op(st);
	else if (map_taken(st) && res > 0)
		take_over(st, iw_map_owner(map_of(st)) != IW_MAP_AGENT);
	else if (map_taken(st))
		watch(&st->owner_op, st->map->owner, owner_dead);
}

/* The carrier's hang-up is no death. Who has not let go, living or stopped, is waited for, as TCP would. */
static void closed(struct stream *st, bool error)
{
	if (iw_map_owner(map_of(st)) == IW_MAP_AGENT) {
		take_over(st, false);
		return;
	}
	atomic_fetch_or(&st->page->want, IW_WANT_UNMAP);
	watch(&st->owner_op, st->map->owner, owner_dead);
}

static void ask_back(struct timer *t)
{
	atomic_fetch_or(&container_of(t, struct stream_map, tick)->st->page->want, IW_WANT_UNMAP);
}

/* Written by calls that the library does not see: it is asked to stop, and they go behind what it sent. */
static void raw_octets(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, raw_op);

	if (st->state == STREAM_DEAD)
		stream_ended_op(st);
	else if (map_taken(st) && res > 0)
		atomic_fetch_or(&st->page->want, IW_WANT_UNMAP);
}

/*
 * What an import brings back takes no memory meanwhile. What it is compared with stays; so do, for a flush if none comes, work requests that are
 * not completed, and what was received and not consumed. Receive buffers are posted without need: their completions tell nothing then. Not at once:
 * it is dear, and when many are mapped at a time they wait for each other.
 */
static void lean(struct timer *t)
{
	struct stream *st = container_of(t, struct stream_map, lean)->st;
	const struct area *a = st->remote->area;
	struct iw_map_priv of = map_priv_of(st);
	const struct iw_rs_param *p = &of.f->p;
	struct iw_rs *rs = &of.f->rs;
	struct iw_qp *qp = &of.s->qp;
	uint8_t *rq = rs->ext_head == rs->ext_tail ? (uint8_t *)rs->ext : of.rq;
	uint8_t *sq = qp->sq_head == qp->sq_tail ? (uint8_t *)of.s + IW_SOFT_HOT : (uint8_t *)qp->sq;

	area_trim(a, rq, (size_t)(sq - rq));
	area_trim(a, of.s->rx, (size_t)((uint8_t *)(of.s + 1) - of.s->rx));
	area_trim(a, of.rd, p->rd_len);
	madvise(remote_tx_ring(st), (size_t)p->tx_len + p->rx_len, MADV_REMOVE);
	carrier_lean(st);
}

int stream_mapped(struct stream *st)
{
	if (!map_offered(st))
		return -EINVAL;
	st->map->stage = MAP_TAKEN;
	IW_PROBE1(iwarpd, mapped, st->id);
	st->map->since = engine_now_ms();
	map_want_not(st);
	timer_start(&st->map->lean, LEAN_MS, lean);
	carrier_poll(st, closed);
	watch(&st->raw_op, st->d, raw_octets);
	if (atomic_load(&map_of(st)->bell))
		stream_bell(st);
	if (conf.map == CONF_MAP_RESTLESS)
		timer_start(&st->map->tick, map_chance_ms(), ask_back);
	if (st->app_closed)
		closed(st, st->app_error);
	return 0;
}

int stream_unmap(struct stream *st)
{
	/* what was said of the taking was lost with its connection, or comes behind this by another one */
	if (map_offered(st) && atomic_load(&stream_page_end(st)->hand) == IW_HAND_TAKEN)
		stream_mapped(st);
	if (!map_taken(st))
		return -EINVAL;
	if (iw_map_owner(map_of(st)) != IW_MAP_AGENT)
		return -EBUSY;
	take_over(st, false);
	return 0;
}

void streams_unmap(void)
{
	for (struct stream *st = table_next(NULL), *next; st; st = next) {
		next = table_next(st);
		stream_unmap(st);
	}
}

int agent_revive(struct stream *st, int fd, uint64_t len, int owner)
{
	struct prm_user *u = rnic_pd_user(st->pd);
	struct stream_map *m = calloc(1, sizeof(*m));
	int ret = m ? prm_take_one(u, PRM_MEMORY, len) : -ENOMEM;

	if (!ret && (ret = area_adopt(u, len, fd, &m->area)))
		prm_give_one(u, PRM_MEMORY, len);
	if (ret) {
		free(m);
		return ret;
	}
	m->st = st;
	m->owner = owner;
	m->tx_pos = st->remote->f->rs.tx_pos;
	m->rx_pos = st->remote->f->rs.rx_pos;
	m->stage = MAP_TAKEN;
	m->since = engine_now_ms();
	st->map = m;
	count_revived(st);
	return 0;
}

/* The map is not the state if it was imported, or never offered; and is as it was if it was not taken. */
void agent_revived(struct stream *st)
{
	if (stream_withdraw(st, 0)) {
		map_go_on(st);
	} else if (atomic_load(&stream_page_end(st)->hand) != IW_HAND_TAKEN) {
		stream_log(st, LOG_INFO, "was in the hands of a daemon that ended: reset");
		remote_cut(st, ECONNRESET);
	} else {
		carrier_poll(st, closed);
		watch(&st->raw_op, st->d, raw_octets);
		if (iw_map_owner(map_of(st)) == IW_MAP_AGENT)
			take_over(st, false);
		else if (atomic_load(&map_of(st)->bell))
			stream_bell(st);
	}
}

void agent_info(const struct stream *st, struct stream_info *i)
{
	struct stream_map *m = st->map;

	if (!map_taken(st))
		return;
	i->path = "mapped";
	if (i->tx_bytes + i->rx_bytes != m->seen)
		m->seen_ms = engine_now_ms();
	m->seen = i->tx_bytes + i->rx_bytes;
	i->active_ms = m->seen_ms;
}

void agent_opened(struct stream *st)
{
	if (map_taken(st))
		atomic_fetch_or(&st->page->want, IW_WANT_UNMAP);
}
