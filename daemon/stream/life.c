/* SPDX-License-Identifier: MIT */
/* The life of a stream: made (segment, grant), agreed or withdrawn, freed. */
#include "life.h"

#include <errno.h>
#include <stdarg.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/rnic/rnic.h"
#include "carrier.h"
#include "carrier_hold.h"
#include "local.h"
#include "relay.h"
#include "remote.h"
#include "stream_priv.h"
#include "table.h"

const struct stream_cm_ops *stream_cm;

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
static int stream_reserve(struct stream *st)
{
	struct prm_bill need;
	int ret;

	st->pd = rnic_pd_new(st->end[0].uid);	/* SEC-P03 */
	if (!st->pd)
		return -ENOMEM;
	st->work.turn = st->end_work.turn = &rnic_pd_user(st->pd)->turn;
	remote_needs(&need);
	ret = prm_take(rnic_pd_user(st->pd), &need);
	if (!ret)
		st->reserved = need;
	return ret;
}

void stream_unreserve(struct stream *st, uint64_t memory)
{
	struct prm_bill back = st->reserved;

	if (!st->pd)
		return;
	st->reserved = (struct prm_bill){ 0 };
	st->reserved.n[PRM_MEMORY] = memory < back.n[PRM_MEMORY] ? memory : back.n[PRM_MEMORY];
	back.n[PRM_MEMORY] -= st->reserved.n[PRM_MEMORY];
	prm_give(rnic_pd_user(st->pd), &back);
}

/* ---- the end ---- */

bool stream_busy(const struct stream *st)
{
	return st->d_rx.busy || st->d_tx.busy || st->d_poll.busy || st->t_rx.busy || st->t_tx.busy || st->watch_op.busy;
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

/* An application's SO_LINGER must not make our close wait: { on, 0 } stays (a reset), the rest is switched off. */
static void close_tcp(int *fd)
{
	struct linger l = { 0 };

	if (*fd < 0)
		return;
	if (!tcp_linger0(*fd))
		setsockopt(*fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
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
		stream_unreserve(st, 0);
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

static void stream_free(struct stream *st)
{
	table_del(st);
	work_cancel(&st->work);
	work_cancel(&st->end_work);
	remote_free(st);
	relay_free(st);
	local_forget(st);
	close_carrier(st);
	close_tcp(&st->end[0].tcp);
	close_tcp(&st->end[1].tcp);
	close_fd(&st->segment);
	prm_mem_destroy(st->page);
	quotas_back(st);
	free(st);
}

static void end_work(struct work *w)
{
	struct stream *st = container_of(w, struct stream, end_work);

	if (st->d_drop && st->d >= 0 && !st->d_rx.busy && !st->d_tx.busy && !st->d_poll.busy)
		close_carrier(st);
	if (st->state != STREAM_DEAD || stream_busy(st))
		return;
	if (stream_cm && stream_cm->gone)
		stream_cm->gone(st);
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
	st->state = STREAM_DEAD;
	st->d_drop = true;
	engine_cancel(&st->d_rx);
	engine_cancel(&st->d_tx);
	engine_cancel(&st->d_poll);
	engine_cancel(&st->t_rx);
	engine_cancel(&st->t_tx);
	engine_cancel(&st->watch_op);
	work_queue(&st->end_work, end_work);
}

/* The application goes on with its TCP socket, so its SO_LINGER stays as it is. It is closed on return (IW_CTL_SYNC). */
void stream_abandon(struct stream *st)
{
	if (st->state != STREAM_OFFERED)
		return;
	close_socket(st->end[0].tcp);
	st->end[0].tcp = -1;
	stream_kill(st);
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

/* A socket whose cookie we cannot read would never be found again: that is an error like any other. */
static int cookie_of(int fd, uint64_t *cookie)
{
	socklen_t len = sizeof(*cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &len) ? -errno : 0;
}

int stream_new(int tcp, const struct iw_tuple *t, const struct stream_owner *o, bool client, struct stream_grant *g, struct stream **out)
{
	struct stream *st = calloc(1, sizeof(*st));
	int s[2] = { -1, -1 }, seg = -1, ret;

	if (!st)
		return -ENOMEM;
	st->d = st->segment = st->watch = st->end[0].tcp = st->end[1].tcp = -1;
	ret = stream_count_user(o->uid, 1);
	if (ret)
		goto err;
	fill_end(&st->end[0], t, o);
	st->end[0].counted = true;
	ret = stream_reserve(st);
	if (ret)
		goto err;
	st->id = table_id();
	st->client = client;
	st->since_ms = st->active_ms = engine_now_ms();
	ret = carrier_make(st->id, s);
	if (ret)
		goto err;
	st->d = s[1];
	ret = make_segment(st);
	if (!ret)
		ret = cookie_of(s[0], &st->end[0].cookie);
	if (!ret && client)
		ret = local_prepare(st, s[0]);
	if (!ret && (seg = fcntl(st->segment, F_DUPFD_CLOEXEC, 0)) < 0)
		ret = -errno;
	if (ret)
		goto err;
	fill_page(st);
	st->end[0].tcp = tcp;
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

int stream_offer(int tcp, const struct iw_tuple *t, const struct stream_owner *o, struct stream_grant *g, struct stream **st)
{
	int ret = stream_new(tcp, t, o, true, g, st);

	if (!ret)
		(*st)->state = STREAM_OFFERED;
	return ret;
}

void stream_commit(struct stream *st, int app_fd)
{
	if (st->state != STREAM_OFFERED)
		return;
	st->state = STREAM_HELD;
	st->end[0].fd = app_fd;
	hold_start(st);
}

int stream_claim(int tcp, const struct iw_tuple *t, const struct stream_owner *o, struct stream_grant *g, struct stream **out)
{
	struct stream *st;
	int ret = stream_new(tcp, t, o, false, g, &st);

	if (ret)
		return ret;
	ret = remote_start(st, false);
	if (ret) {
		close(g->carrier);
		close(g->segment);
		st->end[0].tcp = -1;	/* stays the caller's */
		stream_free(st);
		return ret;
	}
	st->state = STREAM_STARTING;
	*out = st;
	return 0;
}

/* A held stream that cannot go on: both ends see a reset. */
static void held_failed(struct stream *st, int ret)
{
	stream_log(st, LOG_ERR, "%s", strerror(-ret));
	carrier_reset(st, ECONNRESET);
	tcp_reset_on_close(st->end[0].tcp);
	stream_kill(st);
}

static void claimed_start(struct stream *st)
{
	int ret = remote_start(st, true);

	if (ret)
		held_failed(st, ret);
}

void stream_claimed(struct stream *st)
{
	if (st->state != STREAM_HELD)
		return;
	st->state = STREAM_STARTING;
	local_forget(st);
	hold_stop(st, claimed_start);
}

static void withdrawn_start(struct stream *st)
{
	int ret = relay_start(st);

	if (ret)
		held_failed(st, ret);
}

void stream_withdraw(struct stream *st, enum iw_reason reason)
{
	if (st->state != STREAM_HELD)
		return;
	st->state = STREAM_RELAY;
	st->reason = reason;
	stream_unreserve(st, relay_memory());
	local_forget(st);
	hold_stop(st, withdrawn_start);
}

int stream_claim_local(struct stream *st, int tcp, const struct iw_tuple *t, const struct stream_owner *o, struct stream_grant *g)
{
	int seg, ret;

	if (st->state != STREAM_HELD)
		return -ENOENT;
	ret = stream_count_user(o->uid, 1);
	if (ret)
		return ret;
	fill_end(&st->end[1], t, o);
	st->end[1].counted = true;
	ret = cookie_of(st->d, &st->end[1].cookie);
	seg = ret ? -1 : fcntl(st->segment, F_DUPFD_CLOEXEC, 0);
	if (!ret && seg < 0)
		ret = -errno;
	if (!ret)
		ret = local_start(st);
	if (ret) {
		if (seg >= 0)
			close(seg);
		st->end[1].counted = false;
		st->end[1].cookie = 0;
		stream_count_user(o->uid, -1);
		return ret;
	}
	table_add_end(st, 1);
	st->page->flags = IW_PAGE_LOCAL;
	st->end[1].tcp = tcp;
	st->state = STREAM_LOCAL;
	stream_unreserve(st, 0);
	*g = (struct stream_grant){
		.stream_id = st->id, .size = st->size, .carrier = st->d, .segment = seg, .end = 1, .flags = IW_PAGE_LOCAL, .tuple = *t,
	};
	st->d = -1;
	hold_stop(st, NULL);
	return 0;
}

int stream_open(int carrier, struct stream_grant *g)
{
	struct stream *st;
	unsigned int e;
	uint64_t cookie;
	int ret = cookie_of(carrier, &cookie);

	if (ret)
		return ret;
	st = table_find_carrier(cookie, &e);
	if (!st)
		return -ENOENT;
	*g = (struct stream_grant){
		.stream_id = st->id, .size = st->size, .carrier = -1, .end = e, .flags = st->state == STREAM_LOCAL ? IW_PAGE_LOCAL : 0,
		.tuple = st->end[e].tuple, .segment = fcntl(st->segment, F_DUPFD_CLOEXEC, 0),
	};
	return g->segment < 0 ? -errno : 0;
}

void stream_option(struct stream *st, unsigned int end, int level, int optname)
{
	static const int one = 1, zero = 0;
	int tcp = stream_tcp(st, end);

	if (tcp < 0 || !st->remote)
		return;
	/* these would hold up FPDUs; SO_LINGER is looked up when the application closes */
	if (level == IPPROTO_TCP && optname == TCP_CORK)
		setsockopt(tcp, level, optname, &zero, sizeof(zero));
	else if ((level == IPPROTO_TCP && optname == TCP_NODELAY) || (level == SOL_SOCKET && optname == SO_RCVLOWAT))
		setsockopt(tcp, level, optname, &one, sizeof(one));
}
