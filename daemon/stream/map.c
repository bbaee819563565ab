// SPDX-License-Identifier: MIT
/*
 * The queue pair is mapped into the application: its library works T with a copy of the state, which agent.c copies back when it has stopped or is
 * gone. It is given with nothing in the carrier, so that no octet overtakes another.
 */
#include "map.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/rnic/rnic.h"
#include "carrier_pump.h"
#include "count.h"
#include "keep.h"
#include "map_priv.h"
#include "remote.h"
#include "remote_mem.h"

#define WAIT_MS		5u	/* for what is in hand */
#define KEEP_MS		5u	/* nothing is given so long for the next attempt, while the application reads what is in the carrier */
#define PAUSE_MAX_MS	64000u
#define PAUSE_WORTH	16u	/* mapped for so many pauses: the next one is short again */

/* ---- whether it may be asked for ---- */

static bool can(const struct stream *st)
{
	return conf.map && st->remote->ep && endpoint_caps(st->remote->ep) & ENDPOINT_REST;
}

static void want(struct timer *t)
{
	struct stream_remote *r = container_of(t, struct stream_remote, map_want);

	atomic_fetch_or(&r->st->page->want, IW_WANT_MAP);
}

void map_want_not(struct stream *st)
{
	atomic_fetch_and(&st->page->want, ~(IW_WANT_MAP | IW_WANT_UNMAP));
}

void map_start(struct stream *st)
{
	if (can(st))
		want(&st->remote->map_want);
}

void map_stop(struct stream *st)
{
	timer_stop(&st->remote->map_want);
	map_want_not(st);
}

unsigned int map_chance_ms(void)
{
	static uint32_t x = 1;

	x = x * 1664525 + 1013904223;
	return 1 + (x >> 30);
}

void map_want_after(struct stream *st, unsigned int *pause, unsigned int min)
{
	map_want_not(st);
	if (map_taken(st) && engine_now_ms() - st->map->since >= (uint64_t)*pause * PAUSE_WORTH)
		*pause = 0;
	*pause = *pause ? *pause * 2 : min;
	if (*pause > PAUSE_MAX_MS)
		*pause = PAUSE_MAX_MS;
	if (conf.map == CONF_MAP_RESTLESS)
		*pause = map_chance_ms();
	if (st->remote->ep)
		timer_start(&st->remote->map_want, *pause, want);
}

static void want_later(struct stream *st)
{
	map_want_after(st, &st->remote->map_pause, MAP_PAUSE_MIN_MS);
}

/* ---- what the others ask ---- */

static int queued(int fd)
{
	int n = 0;

	return ioctl(fd, SIOCOUTQ, &n) ? 1 : n;
}

/* What the application has put into the carrier, or that it ended its half. */
static int carrier_events(const struct stream *st)
{
	struct pollfd p = { .fd = st->d, .events = POLLIN | POLLRDHUP };

	return poll(&p, 1, 0) < 0 ? POLLERR : p.revents;
}

bool map_holds_rx(const struct stream *st)
{
	return st->map;
}

bool map_holds_tx(const struct stream *st)
{
	return st->map && st->map->stage == MAP_DRIES && !carrier_events(st);
}

bool map_rests(const struct stream *st)
{
	return st->map && st->map->stage >= MAP_RESTS;
}

bool map_offered(const struct stream *st)
{
	return st->map && st->map->stage == MAP_OFFERED;
}

bool map_taken(const struct stream *st)
{
	return st->map && st->map->stage == MAP_TAKEN;
}

/* ---- the pump goes on ---- */

static void let_go(struct stream_map *m)
{
	if (m->owner >= 0)
		close(m->owner);
	m->owner = -1;
}

static void forget(struct stream *st)
{
	struct stream_map *m = st->map;

	count_settle(st, false);
	timer_stop(&m->tick);
	timer_stop(&m->lean);
	engine_cancel(&st->owner_op);
	engine_cancel(&st->raw_op);
	engine_cancel(&st->bell_op);
	let_go(m);
	if (m->area) {
		keep_not(st, m->area);
		prm_give_one(rnic_pd_user(st->pd), PRM_MEMORY, m->area->len);
	}
	area_put(m->area);
	free(m);
	st->map = NULL;
}

static void kept(struct timer *t)
{
	struct stream *st = container_of(t, struct stream_map, tick)->st;

	forget(st);
	pump_queue(st);
}

void map_go_on(struct stream *st)
{
	struct stream_remote *r = st->remote;
	bool rests = map_rests(st);

	forget(st);
	if (rests && r->ep) {
		pump_acked(st);
		iw_rs_ack(&r->f->rs);	/* nobody else will, of what was read meanwhile */
		endpoint_resume(r->ep);
	}
	if (st->d_drop)
		pump_queue(st);
	else
		pump_start(st);
}

static void stay_wet(struct stream *st)
{
	struct stream_map *m = st->map;

	let_go(m);
	m->stage = MAP_KEEPS;
	m->done = NULL;
	timer_start(&m->tick, KEEP_MS, kept);
	pump_queue(st);
}

static void failed(struct stream *st, int ret, bool unread)
{
	struct stream_map m = *st->map;

	if (unread)
		stay_wet(st);
	else
		map_go_on(st);
	if (ret != -EAGAIN)
		want_later(st);
	m.done(m.arg, ret, NULL);
}

/* ---- handing over ---- */

static int able(const struct stream *st)
{
	const struct stream_remote *r = st->remote;
	const struct iw_remote *f;

	if (st->state != STREAM_RUNNING || st->app_closed || !r->ep)
		return -ENOTCONN;
	f = r->f;
	if (f->tx_eof || f->rs.rx_fin || f->discard || f->aborted || f->reset_err || f->ev_abort || f->rs.dead)
		return -ENOTCONN;
	return st->relay ? -EAGAIN : 0;
}

struct iw_map_priv map_priv_of(const struct stream *st)
{
	const struct stream_remote *r = st->remote;

	return (struct iw_map_priv){
		.f = r->f, .s = (struct iw_soft *)(r->area->mem + r->f->ep_off), .rq = r->rq, .rd = r->rd,
		.tx = remote_tx_ring(st), .rx_ring = remote_tx_ring(st) + r->f->p.tx_len,
	};
}

/* Its user's quota is looked at now: a no changes nothing. */
static int make(struct stream *st)
{
	struct prm_user *u = rnic_pd_user(st->pd);
	uint64_t size = iw_map_size(&st->remote->f->p);
	int ret = prm_take_one(u, PRM_MEMORY, size);

	if (ret)
		return ret;
	ret = area_new(u, size, &st->map->area);
	if (ret)
		prm_give_one(u, PRM_MEMORY, size);
	return ret;
}

/* The carrier's hang-up says nothing until it is known whether the map was taken. */
static void offer(struct stream *st)
{
	struct iw_map_priv priv = map_priv_of(st);
	struct stream_map *m = st->map;
	struct stream_remote *r = st->remote;
	struct stream_mapping x;
	struct tcp_count c;
	struct iw_map *map;
	int ret = tcp_count(st->end[0].tcp, false, &c);

	/* the switch has left TAKEN there: kept, it would say to the next daemon that the library had this map */
	atomic_store(&stream_page_end(st)->hand, IW_HAND_VOID);
	if (!ret)
		ret = make(st);
	if (!ret)
		ret = keep(st, m->area, m->owner);
	if (ret) {
		failed(st, ret, false);
		return;
	}
	map = (struct iw_map *)m->area->mem;
	timer_stop(&m->tick);
	timer_stop(&r->ack);
	iw_rs_rx_waiting(&r->f->rs, false);
	iw_map_export(map, &priv);
	map->tcp_sent = c.sent - iw_map_sent(&priv);
	map->tcp_read = c.received - c.unread - iw_map_read(&priv);
	m->tx_pos = r->f->rs.tx_pos;
	m->rx_pos = r->f->rs.rx_pos;
	count_offered(st);
	m->stage = MAP_OFFERED;
	st->on_hup = NULL;
	atomic_store(&map->owner, IW_MAP_LIBRARY);	/* it means something while hand is TAKEN only */
	atomic_store(&stream_page_end(st)->hand, IW_HAND_OFFERED);
	x = (struct stream_mapping){ .tcp = st->end[0].tcp, .map = m->area->fd, .size = m->area->len };
	m->done(m->arg, 0, &x);
}

static void still(void *ctx)
{
	struct stream *st = ctx;
	struct iw_map_priv priv = map_priv_of(st);
	int ret = able(st);

	if (!ret && (carrier_events(st) || !iw_map_ready(&priv)))
		ret = -EAGAIN;
	if (ret)
		failed(st, ret, false);
	else
		offer(st);
}

static void rest(struct stream *st)
{
	int ret;

	st->map->stage = MAP_RESTS;
	ret = endpoint_rest(st->remote->ep, still);
	if (ret)
		failed(st, ret, false);
}

/* Nothing is on its way to or from the carrier, and all that came was posted; the peer reads nothing that it was offered. */
static bool dry(const struct stream *st)
{
	const struct iw_rs *rs = &st->remote->f->rs;

	return !st->d_tx.busy && !st->d_rx.busy && rs->tx_sent == rs->tx_pos && !rs->tx_nsa;
}

void map_look(struct stream *st)
{
	struct stream_map *m = st->map;
	int ret, events;

	if (!m || (m->stage != MAP_DRIES && m->stage != MAP_RESTS))
		return;
	ret = able(st);
	events = ret ? 0 : carrier_events(st);
	if (ret || events & (POLLHUP | POLLRDHUP | POLLERR))
		failed(st, ret ? ret : -ENOTCONN, false);
	else if (queued(st->d))
		failed(st, -EAGAIN, m->stage == MAP_DRIES);
	else if (m->stage == MAP_DRIES && !events && dry(st))
		rest(st);
	else if (engine_now_ms() >= m->until)
		failed(st, -EAGAIN, false);
	else if (!events)
		engine_cancel(&st->d_rx);
}

static void tick(struct timer *t)
{
	struct stream_map *m = container_of(t, struct stream_map, tick);

	timer_start(t, WAIT_MS, tick);
	map_look(m->st);
}

void stream_map(struct stream *st, int owner, void (*done)(void *arg, int ret, const struct stream_mapping *m), void *arg)
{
	int ret = st->remote && st->remote->on && can(st) && owner >= 0 ? able(st) : -ENOTCONN;

	if (!ret && st->map && st->map->stage != MAP_KEEPS)
		ret = -EAGAIN;
	if (!ret && !st->map && !(st->map = calloc(1, sizeof(*st->map))))
		ret = -ENOMEM;
	if (ret) {
		if (owner >= 0)
			close(owner);
		done(arg, ret, NULL);
		return;
	}
	timer_stop(&st->map->tick);
	*st->map = (struct stream_map){
		.st = st, .stage = MAP_DRIES, .until = engine_now_ms() + WAIT_MS, .owner = owner, .done = done, .arg = arg,
	};
	timer_start(&st->map->tick, WAIT_MS, tick);
	map_look(st);
}

bool stream_map_cancel(struct stream *st)
{
	bool offered = map_offered(st);

	if (!st->map || st->map->stage == MAP_KEEPS)
		return true;
	if (map_taken(st) || (offered && !stream_withdraw(st, 0)))
		return false;
	map_go_on(st);
	if (offered)
		want_later(st);
	return true;
}

void map_over(struct stream *st)
{
	struct stream_map m;

	if (!st->map)
		return;
	m = *st->map;
	forget(st);
	if (m.done && m.stage < MAP_OFFERED)
		m.done(m.arg, -ENOTCONN, NULL);
}
