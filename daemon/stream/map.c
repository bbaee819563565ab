// SPDX-License-Identifier: MIT
/*
 * The queue pair mapped into the application: its library works T with a copy of the state, which is copied back when it has stopped or is gone. With
 * nothing in the carrier, so that no octet overtakes another.
 */
#include "map.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "proto/map.h"
#include "daemon/base/conf.h"
#include "daemon/base/fdinfo.h"
#include "daemon/base/log.h"
#include "daemon/rnic/area.h"
#include "daemon/rnic/provider.h"
#include "daemon/rnic/rnic.h"
#include "daemon/rnic/soft.h"
#include "carrier.h"
#include "carrier_pump.h"
#include "keep.h"
#include "life.h"
#include "remote.h"
#include "remote_mem.h"
#include "stream_priv.h"
#include "table.h"

#define WAIT_MS		5u	/* for what is in hand */
#define KEEP_MS		5u	/* nothing is given so long for the next attempt, while the application reads what is in the carrier */
#define LEAN_MS		1000u	/* then the memory that it needs no more is given back */
#define LOOK_NS		500000u	/* between two looks at a burst, of which the second finds it over if nothing came. Shorter, and it is the scheduler's pauses */
#define LOOKS		20u	/* at nothing new: the bell is silent again */
#define LOOKS_LOST	10u	/* at nothing new while its owner has not run: something else has its processor, mostly */
#define BURST_MIN_MS	10u	/* as PAUSE_MIN_MS, after a burst's end */
#define PAUSE_MIN_MS	1000u	/* before it may be asked for again */
#define PAUSE_MAX_MS	64000u
#define PAUSE_WORTH	16u	/* mapped for so many pauses: the next one is short again */

enum map_stage {
	MAP_KEEPS,	/* an attempt failed: see KEEP_MS */
	MAP_DRIES,	/* nothing is given; what is in the carrier is taken */
	MAP_RESTS,	/* nor that; the endpoint comes to rest */
	MAP_OFFERED,
	MAP_TAKEN,
};

struct stream_map {
	struct stream *st;
	enum map_stage stage;
	uint64_t until;
	struct timer tick, lean;
	struct area *area;		/* the map, from OFFERED on */
	int owner;			/* pidfd of who asked for it, from OFFERED on the owner; -1: none */
	uint64_t since;			/* ms, when it was taken */
	uint64_t tx_pos, rx_pos;	/* of the ring stream then */
	uint64_t word;			/* of the map, as the last look at a burst found it */
	unsigned int same;		/* looks that found the same */
	clockid_t clock;		/* processor time of the owner; 0: not asked for yet */
	uint64_t ran;			/* what it said at the last look */
	uint64_t seen, seen_ms;		/* octets, when somebody looked last; when they had changed */
	void (*done)(void *arg, int ret, const struct stream_mapping *m);
	void *arg;
};

/* ---- whether it may be asked for ---- */

static bool can(void)
{
	return conf.map && provider_caps() & ENDPOINT_REST;
}

static void want(struct timer *t)
{
	struct stream_remote *r = container_of(t, struct stream_remote, map_want);

	atomic_fetch_or(&r->st->page->want, IW_WANT_MAP);
}

static void want_not(struct stream *st)
{
	atomic_fetch_and(&st->page->want, ~(IW_WANT_MAP | IW_WANT_UNMAP));
}

void map_start(struct stream *st)
{
	if (can())
		want(&st->remote->map_want);
}

void map_stop(struct stream *st)
{
	timer_stop(&st->remote->map_want);
	want_not(st);
}

/* map = restless: how long it lasts. Each run the same. */
static unsigned int chance_ms(void)
{
	static uint32_t x = 1;

	x = x * 1664525 + 1013904223;
	return 1 + (x >> 30);
}

/* Each time later, if it was soon over. */
static void want_after(struct stream *st, unsigned int *pause, unsigned int min)
{
	want_not(st);
	if (map_taken(st) && engine_now_ms() - st->map->since >= (uint64_t)*pause * PAUSE_WORTH)
		*pause = 0;
	*pause = *pause ? *pause * 2 : min;
	if (*pause > PAUSE_MAX_MS)
		*pause = PAUSE_MAX_MS;
	if (conf.map == CONF_MAP_RESTLESS)
		*pause = chance_ms();
	if (st->remote->ep)
		timer_start(&st->remote->map_want, *pause, want);
}

static void want_later(struct stream *st)
{
	want_after(st, &st->remote->map_pause, PAUSE_MIN_MS);
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

static void go_on(struct stream *st)
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
		go_on(st);
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

static struct iw_map_priv priv_of(const struct stream *st)
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
	struct iw_map_priv priv = priv_of(st);
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
	struct iw_map_priv priv = priv_of(st);
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
	int ret = can() && st->remote && st->remote->on && owner >= 0 ? able(st) : -ENOTCONN;

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
	go_on(st);
	if (offered)
		want_later(st);
	return true;
}

/* ---- taking over ---- */

/* What the library did and the page and the carrier do not show yet. */
static void catch_up(struct stream *st, uint64_t tx, uint64_t rx)
{
	struct iw_remote *f = st->remote->f;
	int lost = f->reset_err;
	bool aborted = f->aborted;

	f->reset_err = f->aborted = 0;
	st->tx_bytes += tx;
	st->rx_bytes += rx;
	if (tx || rx)
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

static struct iw_map *map_of(const struct stream *st)
{
	return (struct iw_map *)st->map->area->mem;
}

/* 0; else it cannot be gone on with. */
static int import(struct stream *st, bool dead)
{
	struct iw_map_priv to = priv_of(st);
	struct tcp_count c;
	int ret;

	if (!dead)
		return iw_map_import(map_of(st), &to);
	ret = tcp_count(st->end[0].tcp, false, &c);
	return ret ? ret : iw_map_recover(map_of(st), &to, c.sent, c.received - c.unread);
}

static void take(struct stream *st, bool dead, unsigned int *pause, unsigned int min)
{
	const struct stream_map *m = st->map;
	const struct iw_rs *rs = &st->remote->f->rs;
	bool room;

	/* before an octet moves: the map is not the state any more, and while it is imported there is none */
	atomic_store(&stream_page_end(st)->hand, IW_HAND_VOID);
	room = carrier_room(st);
	if (!room || import(st, dead)) {
		if (room)
			stream_log(st, LOG_WARNING, "the application %s its queue pair unsound: reset", dead ? "died, and left" : "left");
		else
			stream_log(st, LOG_WARNING, "no memory to go on with it: reset");
		remote_cut(st, ECONNRESET);
		return;
	}
	tcp_push(st->end[0].tcp);
	catch_up(st, rs->tx_pos - m->tx_pos, rs->rx_pos - m->rx_pos);
	want_after(st, pause, min);
	go_on(st);
}

static void take_over(struct stream *st, bool dead)
{
	take(st, dead, &st->remote->map_pause, PAUSE_MIN_MS);
}

static void watch_owner(struct stream *st);

/* Another thread may have let go between the hang-up and the death. */
static void owner_dead(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, owner_op);

	if (st->state == STREAM_DEAD)
		stream_ended_op(st);
	else if (map_taken(st) && res > 0)
		take_over(st, iw_map_owner(map_of(st)) != IW_MAP_AGENT);
	else if (map_taken(st))
		watch_owner(st);
}

static void watch_owner(struct stream *st)
{
	struct io_uring_sqe *sqe;

	if (st->owner_op.busy)
		return;
	st->owner_op.fn = owner_dead;
	sqe = engine_sqe();
	io_uring_prep_poll_add(sqe, st->map->owner, POLLIN);
	engine_submit(sqe, &st->owner_op);
}

/* The carrier's hang-up is no death. Who has not let go, living or stopped, is waited for, as TCP would. */
static void closed(struct stream *st, bool error)
{
	if (iw_map_owner(map_of(st)) == IW_MAP_AGENT) {
		take_over(st, false);
		return;
	}
	atomic_fetch_or(&st->page->want, IW_WANT_UNMAP);
	watch_owner(st);
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

static void watch_raw(struct stream *st)
{
	struct io_uring_sqe *sqe;

	if (st->raw_op.busy)
		return;
	st->raw_op.fn = raw_octets;
	sqe = engine_sqe();
	io_uring_prep_poll_add(sqe, st->d, POLLIN);
	engine_submit(sqe, &st->raw_op);
}

/* ---- a burst ---- */

static void look(struct op *op, int res, bool more);

static void look_later(struct stream *st)
{
	static struct __kernel_timespec soon = { .tv_nsec = LOOK_NS };
	struct io_uring_sqe *sqe = engine_sqe();

	st->bell_op.fn = look;
	io_uring_prep_timeout(sqe, &soon, 0, 0);
	engine_submit(sqe, &st->bell_op);
}

/*
 * Its owner did not use a processor since the last look. So it sleeps, by a call that the library does not see, or it waits for its turn: then
 * there is more to come, and relaying it meanwhile would only cost the others their turns.
 */
static bool owner_waits(struct stream_map *m)
{
	uint64_t was = m->ran;
	struct timespec t;

	if (!m->clock) {
		pid_t pid = (pid_t)fdinfo_number(m->owner, "Pid:");

		if (pid <= 0 || clock_getcpuclockid(pid, &m->clock))
			m->clock = CLOCK_MONOTONIC;	/* as if it ran */
	}
	if (clock_gettime(m->clock, &t))
		return false;
	m->ran = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return m->ran - was < LOOK_NS / 4;
}

/* Who gathers next has to tell, or is seen here. */
static bool burst_over(struct iw_map *map)
{
	atomic_store(&map->bell, 0);
	if (iw_map_owner(map) != IW_MAP_BURST)
		return true;
	atomic_store(&map->bell, 1);
	return false;
}

/* What lies there since the last look goes now, as if it had been read from the carrier. A carrier that hung up says more: see closed(). */
static void look(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, bell_op);
	struct stream_map *m = st->map;
	bool waits;
	uint64_t w;

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	if (!map_taken(st) || st->app_closed)
		return;
	w = atomic_load(&map_of(st)->owner);
	waits = owner_waits(m);
	if (w != m->word)
		m->same = 0;
	else if ((w & IW_MAP_OWNER) != IW_MAP_BURST || (waits && m->same < LOOKS_LOST))
		m->same++;
	else if (atomic_compare_exchange_strong(&map_of(st)->owner, &w, w & ~(uint64_t)IW_MAP_OWNER)) {
		take(st, false, &st->remote->burst_pause, BURST_MIN_MS);
		return;
	}
	m->word = w;
	if (m->same < LOOKS || !burst_over(map_of(st)))
		look_later(st);
}

void stream_bell(struct stream *st)
{
	if (!map_taken(st) || st->bell_op.busy)
		return;
	st->map->word = 0;
	st->map->same = 0;
	look_later(st);
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
	struct iw_map_priv of = priv_of(st);
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
	st->map->since = engine_now_ms();
	want_not(st);
	timer_start(&st->map->lean, LEAN_MS, lean);
	carrier_poll(st, closed);
	watch_raw(st);
	if (atomic_load(&map_of(st)->bell))
		stream_bell(st);
	if (conf.map == CONF_MAP_RESTLESS)
		timer_start(&st->map->tick, chance_ms(), ask_back);
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

int map_revive(struct stream *st, int fd, uint64_t len, int owner)
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
	return 0;
}

/* The map is not the state if it was imported, or never offered; and is as it was if it was not taken. */
void map_revived(struct stream *st)
{
	if (stream_withdraw(st, 0)) {
		go_on(st);
	} else if (atomic_load(&stream_page_end(st)->hand) != IW_HAND_TAKEN) {
		stream_log(st, LOG_INFO, "was in the hands of a daemon that ended: reset");
		remote_cut(st, ECONNRESET);
	} else {
		carrier_poll(st, closed);
		watch_raw(st);
		if (iw_map_owner(map_of(st)) == IW_MAP_AGENT)
			take_over(st, false);
		else if (atomic_load(&map_of(st)->bell))
			stream_bell(st);
	}
}

void map_info(const struct stream *st, struct stream_info *i)
{
	struct stream_map *m = st->map;
	struct iw_map_priv at;

	if (!map_taken(st))
		return;
	iw_map_at((struct iw_map *)m->area->mem, &st->remote->f->p, &at);
	i->mapped = true;
	i->tx_bytes += at.f->rs.tx_pos - m->tx_pos;
	i->rx_bytes += at.f->rs.rx_pos - m->rx_pos;
	if (i->tx_bytes + i->rx_bytes != m->seen)
		m->seen_ms = engine_now_ms();
	m->seen = i->tx_bytes + i->rx_bytes;
	i->active_ms = m->seen_ms;
	soft_stat_of(&at.s->qp.stat, &i->stat);
}

void map_opened(struct stream *st)
{
	if (map_taken(st))
		atomic_fetch_or(&st->page->want, IW_WANT_UNMAP);
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
