/* SPDX-License-Identifier: MIT */
/* The life of a stream: made (segment, grant), switched, freed. */
#include "life.h"

#include <errno.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/rnic/rnic.h"
#include "agent.h"
#include "carrier.h"
#include "carrier_pump.h"
#include "back.h"
#include "ended.h"
#include "join.h"
#include "handed.h"
#include "keep.h"
#include "keep_pair.h"
#include "local.h"
#include "map.h"
#include "past.h"
#include "relay.h"
#include "remote.h"
#include "stream_priv.h"
#include "table.h"
#include "tcp.h"
#include "upgrade.h"

const struct stream_ops *stream_ops;

int stream_count_user(uint32_t uid, int delta)
{
	struct prm_user *u = prm_user_get(uid);

	if (!u)
		return -ENOMEM;
	if (delta > 0)
		return prm_take_one(u, PRM_STREAMS, 1);
	prm_give_one(u, PRM_STREAMS, 1);
	return 0;
}

/* The quota is looked at before anything is agreed with the other host: afterwards "no" would be a reset. */
static int reserve(struct stream *st, const struct prm_bill *need)
{
	int ret;

	st->pd = rnic_pd_new(st->end[0].uid, st->id);	/* SEC-P03 */
	if (!st->pd)
		return -ENOMEM;
	st->work.turn = st->end_work.turn = &rnic_pd_user(st->pd)->turn;
	ret = prm_take(rnic_pd_user(st->pd), need);
	if (!ret)
		st->reserved = *need;
	return ret;
}

static int stream_reserve(struct stream *st)
{
	struct prm_bill need;

	remote_needs(&need);
	need.n[PRM_MEMORY] += relay_memory();
	return reserve(st, &need);
}

/* All but what is left for. */
static void unreserve(struct stream *st, const struct prm_bill *left)
{
	if (!st->pd)
		return;
	for (enum prm_kind k = 0; k < PRM_KINDS; k++)
		st->reserved.n[k] -= left->n[k];
	prm_give(rnic_pd_user(st->pd), &st->reserved);
	st->reserved = *left;
}

void stream_unreserve(struct stream *st)
{
	unreserve(st, &(struct prm_bill){ 0 });
}

void stream_relay_over(struct stream *st)
{
	struct prm_bill back = { .n[PRM_MEMORY] = relay_memory() };

	if (!st->relay)
		return;
	relay_free(st);
	prm_give(rnic_pd_user(st->pd), &back);
	st->reserved.n[PRM_MEMORY] -= back.n[PRM_MEMORY];
}

void stream_no_upgrade(struct stream *st)
{
	struct prm_bill left;

	upgrade_over(st);
	remote_unprepare(st);
	relay_free(st);
	local_needs(st, &left);
	unreserve(st, &left);
}

/* ---- the end ---- */

bool stream_busy(const struct stream *st)
{
	return st->d_rx.busy || st->d_tx.busy || st->d_poll.busy || st->t_rx.busy || st->t_tx.busy || st->watch_op.busy || st->owner_op.busy || st->raw_op.busy ||
	       st->bell_op.busy;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Descriptors in octets not read go with it. */
static void close_carrier(struct stream *st)
{
	if (st->d >= 0)
		close_passed(st->d, st->end[0].uid);
	st->d = -1;
}

/* An application's SO_LINGER must not make our close wait. */
static void close_tcp(struct stream *st, unsigned int end)
{
	int *fd = &st->end[end].tcp;

	if (*fd < 0)
		return;
	tcp_on_close(*fd, st->tcp_reset);
	close_socket(*fd);
	*fd = -1;
}

void stream_uncount(struct stream *st, unsigned int end)
{
	if (st->end[end].counted)
		stream_count_user(st->end[end].uid, -1);
	st->end[end].counted = false;
}

/*
 * What the connection below has (its socket, queues and Read slots) it has until it is over, and it may linger after the stream: until its
 * queue pair lets go of the domain. Without a connection that is at once.
 */
static void quotas_back(struct stream *st)
{
	struct prm_bill lingers = { 0 };

	if (st->pd) {
		lingers.n[PRM_STREAMS] = st->end[0].counted;
		lingers.n[PRM_READS] = st->reserved.n[PRM_READS];
		lingers.n[PRM_CQES] = st->reserved.n[PRM_CQES];
		st->reserved.n[PRM_READS] = st->reserved.n[PRM_CQES] = 0;
		st->end[0].counted = false;
		stream_unreserve(st);
		rnic_pd_bill(st->pd, &lingers);
		rnic_pd_put(st->pd);
	}
	stream_uncount(st, 0);
	stream_uncount(st, 1);
}

void stream_log_line(const struct stream *st, int level, const char *file, int line, const char *fmt, ...)
{
	const struct stream_end *e = &st->end[0];
	struct log_about about = {
		.id = LOG_ID_STREAM, .program = e->program, .pid = e->pid, .uid = e->uid, .peer = iw_addr_text(&e->tuple.peer), .stream = st->id,
		.reason = st->reason ? iw_reason_name(st->reason) : NULL,
	};
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_write_about(level, file, line, &about, "stream %llx of %s (pid %d), %s: %s", (unsigned long long)st->id, e->program, (int)e->pid,
			iw_tuple_text(&e->tuple), text);
}

void stream_forgotten(uint64_t id)
{
	if (stream_ops && stream_ops->forgotten)
		stream_ops->forgotten(id);
}

bool stream_unpaced_room(void)
{
	return !conf.keep_congestion && tcp_unpace_room();
}

void stream_promise_unpaced(bool more)
{
	tcp_unpace_promise(more);
}

static void room(void)
{
	if (stream_ops && stream_ops->room)
		stream_ops->room();
}

static void unpaced_over(struct stream *st)
{
	bool was = st->kept.unpaced;

	tcp_forget(&st->kept);
	if (was)
		room();
}

static void stream_free(struct stream *st)
{
	table_del(st);
	work_cancel(&st->work);
	work_cancel(&st->end_work);
	remote_free(st);
	relay_free(st);
	upgrade_free(st);
	close_carrier(st);
	if (st->state != STREAM_DEAD || !past_keep(st))
		stream_forgotten(st->id);
	local_forget(st);
	unpaced_over(st);
	close_tcp(st, 0);
	close_tcp(st, 1);
	close_fd(&st->segment);
	prm_mem_destroy(st->page);
	quotas_back(st);
	free(st->d_control);
	free(st);
}

static void end_work(struct work *w)
{
	struct stream *st = container_of(w, struct stream, end_work);

	if (st->d_drop && st->d >= 0 && !st->d_rx.busy && !st->d_tx.busy && !st->d_poll.busy)
		close_carrier(st);
	if (st->state != STREAM_DEAD || stream_busy(st))
		return;
	ended_note(st);
	if (stream_ops && stream_ops->gone)
		stream_ops->gone(st);
	stream_free(st);
}

void stream_ended_op(struct stream *st)
{
	work_queue(&st->end_work, end_work);
}

void stream_kill(struct stream *st)
{
	if (st->state == STREAM_DEAD)
		return;
	st->was = st->state;
	st->state = STREAM_DEAD;
	upgrade_over(st);
	join_over(st);
	back_over(st);
	map_over(st);
	st->d_drop = true;
	engine_cancel(&st->d_rx);
	engine_cancel(&st->d_tx);
	engine_cancel(&st->d_poll);
	engine_cancel(&st->t_rx);
	engine_cancel(&st->t_tx);
	engine_cancel(&st->watch_op);
	engine_cancel(&st->owner_op);
	engine_cancel(&st->bell_op);
	engine_cancel(&st->raw_op);
	work_queue(&st->end_work, end_work);
}

void stream_not_taken(struct stream *st, unsigned int end)
{
	atomic_store(&st->page->end[end].hand, IW_HAND_OFFERED);
}

/* The application goes on with T, so its SO_LINGER stays as it is. It is closed on return (IW_CTL_SYNC). */
bool stream_abandon(struct stream *st)
{
	if (st->state != STREAM_GRANTED)
		return true;
	if (!stream_withdraw(st, 0))
		return false;
	close_socket(st->end[0].tcp);
	st->end[0].tcp = -1;
	stream_kill(st);
	return true;
}

/* ---- making one ---- */

static int make_segment(struct stream *st)
{
	size_t size = IW_PAGE_RINGS + 2 * (size_t)conf.ring_size;
	void *p;
	int fd, ret = prm_mem_create(rnic_pd_user(st->pd), size, &p, &fd);

	if (ret)
		return ret;
	st->segment = fd;
	st->size = size;
	st->page = p;
	return 0;
}

static void fill_page(struct stream *st)
{
	struct iw_page *p = st->page;

	p->magic = IW_PAGE_MAGIC;
	p->version = IW_PAGE_VERSION;
	p->stream_id = st->id;
	p->size = st->size;
	p->tx_len = p->rx_len = conf.ring_size;
}

static void fill_end(struct stream_end *e, const struct iw_tuple *t, const struct stream_owner *o)
{
	e->tuple = *t;
	e->pid = o->pid;
	e->uid = o->uid;
	e->fd = o->fd;
	snprintf(e->program, sizeof(e->program), "%s", o->program ? o->program : "");
}

int stream_grant(int tcp, const struct iw_tuple *t, const struct stream_owner *o, bool client, uint32_t told, struct stream_grant *g,
		 struct stream **out)
{
	struct stream *st;
	int s[2] = { -1, -1 }, seg = -1, ret;

	st = calloc(1, sizeof(*st));
	if (!st)
		return -ENOMEM;
	st->d = st->segment = st->watch = st->end[0].tcp = st->end[1].tcp = -1;
	ret = stream_count_user(o->uid, 1);
	if (ret)
		goto err;
	st->id = table_id();
	fill_end(&st->end[0], t, o);
	st->end[0].counted = true;
	ret = carrier_room(st) ? stream_reserve(st) : -ENOMEM;
	if (ret)
		goto err;
	st->client = client;
	st->since_ms = st->active_ms = engine_now_ms();
	ret = carrier_make(st->id, s);
	if (ret)
		goto err;
	st->d = s[1];
	g->size = carrier_takes(st->d);
	ret = told > g->size ? -EAGAIN : make_segment(st);
	if (!ret)
		ret = carrier_cookie(s[0], &st->end[0].cookie);
	if (!ret)
		ret = local_prepare(st, s[0]);
	if (!ret)
		ret = relay_alloc(st);
	if (!ret)
		ret = upgrade_new(st);
	if (!ret && (seg = fcntl(st->segment, F_DUPFD_CLOEXEC, 0)) < 0)
		ret = -errno;
	if (ret)
		goto err;
	fill_page(st);
	st->end[0].tcp = tcp;
	tcp_look(tcp, &st->kept);
	table_add(st);
	*g = (struct stream_grant){ .stream_id = st->id, .size = st->size, .carrier = s[0], .segment = seg, .tuple = *t };
	*out = st;
	return 0;
err:
	if (s[0] >= 0)
		close(s[0]);
	stream_free(st);
	return ret == -ENFILE ? -EMFILE : ret;
}

static struct stream *revived(uint64_t id, const struct iw_tuple *t, const struct stream_owner *o)
{
	struct stream *st = stream_find(id) ? NULL : calloc(1, sizeof(*st));

	if (!st)
		return NULL;
	st->d = st->segment = st->watch = st->end[0].tcp = st->end[1].tcp = -1;
	st->id = id;
	fill_end(&st->end[0], t, o);
	return st;
}

struct stream *stream_revive(uint64_t id, const struct iw_tuple *t, const struct stream_owner *o, int segment, size_t size, bool relayed)
{
	struct prm_bill relay = { .n[PRM_MEMORY] = relay_memory() };
	struct stream *st = revived(id, t, o);
	void *p;

	if (!st)
		return NULL;
	st->end[0].counted = !stream_count_user(o->uid, 1);
	if (!st->end[0].counted || !carrier_room(st) || stream_reserve(st) || prm_mem_adopt(rnic_pd_user(st->pd), size, segment, &p)) {
		stream_free(st);
		return NULL;
	}
	if (!relayed) {
		prm_give(rnic_pd_user(st->pd), &relay);
		st->reserved.n[PRM_MEMORY] -= relay.n[PRM_MEMORY];
	}
	st->segment = segment;
	st->size = size;
	st->page = p;
	return st;
}

struct stream *stream_revive_pair(uint64_t id, const struct iw_tuple t[2], const struct stream_owner o[2], const bool counted[2], int segment, size_t size)
{
	struct stream *st = revived(id, &t[0], &o[0]);
	struct prm_bill need;
	int ret = 0;
	void *p;

	if (!st)
		return NULL;
	fill_end(&st->end[1], &t[1], &o[1]);
	st->state = STREAM_LOCAL;
	for (unsigned int e = 0; e < 2 && !ret; e++) {
		ret = counted[e] ? stream_count_user(o[e].uid, 1) : 0;
		st->end[e].counted = counted[e] && !ret;
	}
	local_needs(st, &need);
	if (!ret && !(ret = reserve(st, &need)))
		ret = prm_mem_adopt(rnic_pd_user(st->pd), size, segment, &p);
	if (ret) {
		stream_free(st);
		return NULL;
	}
	st->segment = segment;
	st->size = size;
	st->page = p;
	return st;
}

int stream_switched(struct stream *st, int app_fd)
{
	if (st->state != STREAM_GRANTED)
		return -EINVAL;
	st->end[0].fd = app_fd;
	st->since_ms = st->active_ms = engine_now_ms();
	st->state = STREAM_RELAY;
	tcp_keep(st->end[0].tcp, &st->kept);
	relay_start(st);
	if (st->state == STREAM_RELAY)
		upgrade_switched(st);
	return 0;
}

static void forget_end(struct stream *st)
{
	stream_uncount(st, 1);
	st->end[1].cookie = 0;
}

int stream_offer_end(struct stream *st, const struct iw_tuple *t, const struct stream_owner *o, struct stream_grant *g)
{
	int seg = -1, carrier = -1, ret = stream_count_user(o->uid, 1);

	if (ret)
		return ret;
	fill_end(&st->end[1], t, o);
	st->end[1].counted = true;
	ret = carrier_cookie(st->d, &st->end[1].cookie);
	if (!ret && ((carrier = fcntl(st->d, F_DUPFD_CLOEXEC, 0)) < 0 || (seg = fcntl(st->segment, F_DUPFD_CLOEXEC, 0)) < 0))
		ret = errno == ENFILE ? -EMFILE : -errno;
	if (ret) {
		close_fd(&carrier);
		forget_end(st);
		return ret;
	}
	atomic_store(&st->page->end[1].hand, IW_HAND_OFFERED);
	*g = (struct stream_grant){
		.stream_id = st->id, .size = st->size, .carrier = carrier, .segment = seg, .end = 1, .flags = IW_PAGE_LOCAL, .tuple = *t,
	};
	return 0;
}

bool stream_withdraw_end(struct stream *st)
{
	if (!stream_withdraw(st, 1))
		return false;
	forget_end(st);
	return true;
}

void stream_join_end(struct stream *st, int tcp)
{
	atomic_store(&st->page->end[1].hand, IW_HAND_TAKEN);	/* this is by what the other library knows that it is LOCAL */
	st->state = STREAM_LOCAL;
	table_add_end(st, 1);
	st->end[1].tcp = tcp;
	tcp_restore(st->end[0].tcp, &st->kept);
	local_start(st);
	close_fd(&st->d);
}

/* One that was taken a moment ago is somebody else's by now, perhaps, who is sooner here than who took it. */
static struct stream *find_carrier(uint64_t cookie, unsigned int *end)
{
	struct stream *st = table_find_carrier(cookie, end);

	return st || !handed_taken(cookie) ? st : table_find_carrier(cookie, end);
}

int stream_open(int carrier, struct stream_grant *g)
{
	struct stream *st;
	unsigned int e;
	uint64_t cookie;
	int ret = carrier_cookie(carrier, &cookie);

	if (ret)
		return ret;
	st = find_carrier(cookie, &e);
	if (!st)
		return past_open(cookie, g);
	if (st->state != STREAM_DEAD)
		agent_opened(st);
	*g = (struct stream_grant){
		.stream_id = st->id, .size = st->size, .carrier = -1, .end = e, .flags = st->state == STREAM_LOCAL ? IW_PAGE_LOCAL : 0,
		.tuple = st->end[e].tuple, .segment = fcntl(st->segment, F_DUPFD_CLOEXEC, 0),
	};
	return g->segment < 0 ? -errno : 0;
}

struct stream *stream_of_carrier(int carrier, unsigned int *end)
{
	uint64_t cookie;

	return carrier_cookie(carrier, &cookie) ? NULL : find_carrier(cookie, end);
}

/* The TCP socket of this end, or -1; *k: what is answered otherwise. */
static int answers(uint64_t id, unsigned int end, struct stream **st, struct tcp_kept **k)
{
	static struct tcp_kept none;

	*st = table_find(id);
	if (!*st)
		return end ? -1 : past_tcp(id, k);
	*k = end ? &none : &(*st)->kept;
	return end < 2 ? (*st)->end[end].tcp : -1;
}

bool stream_answers(uint64_t id, unsigned int end)
{
	struct tcp_kept *k;
	struct stream *st;

	return answers(id, end, &st, &k) >= 0;
}

int stream_setsockopt(uint64_t id, unsigned int end, int level, int name, const void *val, socklen_t len)
{
	struct tcp_kept *k;
	struct stream *st;
	int tcp = answers(id, end, &st, &k), ret = tcp < 0 ? -ENOTCONN : 0;
	bool was = !ret && k->unpaced;

	if (!ret)
		ret = tcp_set(tcp, k, level, name, val, len);
	if (!ret && st && !end)
		keep_options(st);
	if (was && !k->unpaced)
		room();
	return ret;
}

int stream_getsockopt(uint64_t id, unsigned int end, int level, int name, void *val, socklen_t *len)
{
	struct tcp_kept *k;
	struct stream *st;
	int tcp = answers(id, end, &st, &k);

	if (st && st->state == STREAM_RELAY)
		relay_acked(st);
	else if (st && st->state == STREAM_RUNNING && st->remote)
		pump_acked(st);
	return tcp < 0 ? -ENOTCONN : tcp_get(tcp, k, level, name, val, len);
}
