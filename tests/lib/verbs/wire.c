// SPDX-License-Identifier: MIT
/* The wire of a device made up: what works beside the program, and moves what was posted by TCP. Memory is read and written where it is. */
#include "made_up.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KICKED, TOLD };		/* else the number of an id */
#define SEVERED	16

static struct {
	pthread_t thread;
	bool runs, stop, kicked;
	int ep, kick, told;
	int severed[SEVERED];
	unsigned int nsevered;
} w = { .ep = -1 };

/* ---- the end of a connection ---- */

static void hang_up(struct id *id)
{
	if (id->fd < 0)
		return;
	epoll_ctl(w.ep, EPOLL_CTL_DEL, id->fd, NULL);
	if (id->severed && w.nsevered < SEVERED)
		w.severed[w.nsevered++] = id->fd;
	else
		close(id->fd);
	id->fd = -1;
}

/* As the kernel says it of an iWARP connection that is not to be. */
static int no_answer(int err)
{
	if (err == ECONNRESET || err == ECONNREFUSED)
		return RDMA_CM_EVENT_REJECTED;
	return err == ETIMEDOUT ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_CONNECT_ERROR;
}

void wire_end(struct id *id)
{
	id->state = ENDED;
	hang_up(id);
	if (id->ibv.qp)
		qp_error(qp_of(id));
}

void wire_lost(struct id *id, int err)
{
	enum id_state state = id->state;

	if (state == ENDED)
		return;
	wire_end(id);
	if (state == UP) {
		id_event(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
		if (told_card())
			id_event(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL, 0);
	} else if (state == DIALS || state == CONNECTS) {
		id_event(id, no_answer(err), -err, NULL, 0);
	} else if (id->ours) {
		id_free(id);
	}
}

/* In order: what is still on its way to us is not to undo what is on its way from us. */
void wire_close(struct id *id)
{
	struct id *rest;

	if (id->state != UP)
		return;
	rest = id_new(NULL, NULL);
	rest->ours = true;
	rest->state = CLOSES;
	rest->fd = id->fd;
	epoll_ctl(w.ep, EPOLL_CTL_DEL, id->fd, NULL);
	id->fd = -1;
	shutdown(rest->fd, SHUT_WR);
	wire_watch(rest, false);
	wire_lost(id, 0);
}

static void closes(struct id *id)
{
	char skipped[65536];
	ssize_t n = recv(id->fd, skipped, sizeof(skipped), 0);

	if (!n || (n < 0 && errno != EAGAIN))
		id_free(id);
}

/* What the other end did wrong: it is told. */
static void terminate(struct id *id, enum ibv_event_type type)
{
	wire_send(id, TERMINATE, NULL, 0);
	async(id->ibv.verbs, type, id->ibv.qp);
	wire_lost(id, EPROTO);
}

/* ---- sending ---- */

int wire_send(struct id *id, int kind, const void *pd, size_t len)
{
	struct frame f = { .kind = (uint8_t)kind, .len = (uint32_t)len };
	struct iovec iov[2] = { { &f, sizeof(f) }, { (void *)pd, len } };

	return writev(id->fd, iov, 2) == (ssize_t)(sizeof(f) + len) ? 0 : -1;
}

/* Its parts as they are in memory; false: one of them is not the queue pair's. */
static bool gather(const struct qp *qp, const struct wqe *e, struct iovec *iov, size_t *len)
{
	*len = 0;
	for (int i = 0; i < e->nsge; i++) {
		if (!mr_of(qp->ibv.pd, e->sge[i].lkey, e->sge[i].addr, e->sge[i].length, 0))
			return false;
		iov[i] = (struct iovec){ (void *)(uintptr_t)e->sge[i].addr, e->sge[i].length };
		*len += e->sge[i].length;
	}
	return true;
}

/* What is left of them after so many octets. */
static int skip(struct iovec *iov, int n, size_t octets)
{
	int i = 0, left = 0;

	for (; i < n; i++) {
		if (octets >= iov[i].iov_len) {
			octets -= iov[i].iov_len;
			continue;
		}
		iov[left++] = (struct iovec){ (char *)iov[i].iov_base + octets, iov[i].iov_len - octets };
		octets = 0;
	}
	return left;
}

/* False: nothing can be done now. */
static bool send_one(struct id *id)
{
	struct qp *qp = qp_of(id);
	struct wqe *e = &qp->sq.wqe[qp->sq.tail % qp->sq.size];
	struct iovec iov[MOST_SGE + 1];
	size_t len;
	ssize_t n;

	if (!gather(qp, e, iov + 1, &len)) {
		complete(qp, &qp->sq, IBV_WC_LOC_PROT_ERR, 0);
		terminate(id, IBV_EVENT_QP_FATAL);
		return false;
	}
	if (!id->out_len) {
		id->out = (struct frame){ .kind = e->op == IBV_WR_SEND ? SEND : WRITE, .solicited = e->solicited, .len = (uint32_t)len, .rkey = e->rkey,
					  .raddr = e->raddr };
		id->out_len = sizeof(id->out) + len;
		id->sent = 0;
	}
	iov[0] = (struct iovec){ &id->out, sizeof(id->out) };
	n = writev(id->fd, iov, skip(iov, e->nsge + 1, id->sent));
	if (n < 0 && errno == EAGAIN) {
		wire_watch(id, true);
		return false;
	}
	if (n < 0) {
		wire_lost(id, errno);
		return false;
	}
	id->sent += (size_t)n;
	if (id->sent == id->out_len) {
		id->out_len = 0;
		complete(qp, &qp->sq, IBV_WC_SUCCESS, 0);
	}
	return id->state == UP;
}

static void send_all(struct id *id)
{
	while (id->state == UP && id->ibv.qp && qp_of(id)->sq.head != qp_of(id)->sq.tail && send_one(id))
		;
}

/* ---- receiving ---- */

static void place(struct id *id)
{
	struct qp *qp = qp_of(id);
	struct wqe *e;

	if (id->in.kind == WRITE) {
		if (!mr_of(qp->ibv.pd, id->in.rkey, id->in.raddr, id->in.len, IBV_ACCESS_REMOTE_WRITE)) {
			note("misuse: a Write into %u octets that are not for it", id->in.len);
			terminate(id, IBV_EVENT_QP_ACCESS_ERR);
			return;
		}
		id->place = (uint8_t *)(uintptr_t)id->in.raddr;
		return;
	}
	if (qp->rq.head == qp->rq.tail) {
		note("misuse: a Send of %u octets, and no receive is posted", id->in.len);
		terminate(id, IBV_EVENT_QP_FATAL);
		return;
	}
	e = &qp->rq.wqe[qp->rq.tail % qp->rq.size];
	if (e->sge[0].length < id->in.len) {
		note("misuse: a Send of %u octets for %u", id->in.len, e->sge[0].length);
		complete(qp, &qp->rq, IBV_WC_LOC_LEN_ERR, 0);
		terminate(id, IBV_EVENT_QP_FATAL);
	} else if (!mr_of(qp->ibv.pd, e->sge[0].lkey, e->sge[0].addr, e->sge[0].length, IBV_ACCESS_LOCAL_WRITE)) {
		note("misuse: memory of a receive is not registered");
		complete(qp, &qp->rq, IBV_WC_LOC_PROT_ERR, 0);
		terminate(id, IBV_EVENT_QP_FATAL);
	} else {
		id->place = (uint8_t *)(uintptr_t)e->sge[0].addr;
	}
}

/* Its head is there: where does the rest go? */
static void headed(struct id *id)
{
	bool data = id->in.kind == SEND || id->in.kind == WRITE;

	id->body_len = 0;
	id->body = id->in.len;
	id->place = id->pd;
	if (id->state == UP && data && id->ibv.qp)
		place(id);
	else if (id->in.kind != TERMINATE && (data || id->in.len > sizeof(id->pd)))
		wire_lost(id, EPROTO);
}

static void asked(struct id *id)
{
	struct id *l = id->listener;

	if (id->state != CAME || id->in.kind != REQUEST) {
		wire_lost(id, EPROTO);
	} else if (told("mute")) {
		note("mute");
	} else if (told("foreign")) {
		note("foreign");
		wire_send(id, REJECT, NULL, 0);
		wire_lost(id, 0);
	} else {
		id->state = ASKED;
		id->ours = false;
		id->listener = NULL;
		hold(ID, 1);
		id->ibv.verbs = l->ibv.verbs;
		id_event(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, id->pd, id->in.len);
	}
}

static void answered(struct id *id)
{
	if (id->state != DIALS) {
		wire_lost(id, EPROTO);
	} else if (id->in.kind == REJECT) {
		id->state = ENDED;
		hang_up(id);
		id_event(id, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, id->pd, id->in.len);
	} else {
		id->state = UP;
		id->ibv.qp->state = IBV_QPS_RTS;
		id_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, id->pd, id->in.len);
	}
}

static void whole(struct id *id)
{
	switch (id->in.kind) {
	case REQUEST:
		asked(id);
		break;
	case REPLY:
	case REJECT:
		answered(id);
		break;
	case SEND:
		id->heard = true;
		complete(qp_of(id), &qp_of(id)->rq, IBV_WC_SUCCESS, id->in.len);
		break;
	case WRITE:
		break;
	default:
		if (id->ibv.qp)
			async(id->ibv.verbs, IBV_EVENT_QP_FATAL, id->ibv.qp);
		wire_lost(id, ECONNRESET);
	}
}

/* False: nothing is there, or it is no more. */
static bool receive_some(struct id *id)
{
	bool head = id->in_len < sizeof(id->in);
	uint8_t *to = head ? (uint8_t *)&id->in + id->in_len : id->place + id->body_len;
	size_t want = head ? sizeof(id->in) - id->in_len : id->body - id->body_len;
	uint64_t number = id->number;
	ssize_t n = want ? recv(id->fd, to, want, 0) : 0;

	if (n < 0 && errno == EAGAIN)
		return false;
	if (want && n <= 0) {
		wire_lost(id, n ? errno : ECONNRESET);
		return false;
	}
	if (head) {
		id->in_len += (size_t)n;
		if (id->in_len == sizeof(id->in))
			headed(id);
	} else {
		id->body_len += (size_t)n;
		if (id->body_len == id->body) {
			id->in_len = 0;
			whole(id);
		}
	}
	TAILQ_FOREACH (id, &ids, node)
		if (id->number == number)
			return id->fd >= 0;
	return false;
}

/* ---- those who dial ---- */

int wire_connected(struct id *id)
{
	socklen_t len = sizeof(struct sockaddr_storage);
	int one = 1;

	setsockopt(id->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (getsockname(id->fd, &id->ibv.route.addr.src_addr, &len) || wire_send(id, REQUEST, id->pd, id->body_len))
		return -1;
	id->state = DIALS;
	wire_watch(id, false);
	return 0;
}

static void connects(struct id *id)
{
	int err = 0;
	socklen_t len = sizeof(err);

	getsockopt(id->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err || wire_connected(id))
		wire_lost(id, err ? err : ECONNRESET);
}

static void comes(struct id *l)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from), local = sizeof(from);
	int fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
	struct id *id;

	if (fd < 0)
		return;
	id = id_new(l->ibv.channel, l->ibv.context);
	id->ours = id->passive = true;
	id->listener = l;
	id->state = CAME;
	id->fd = fd;
	memcpy(&id->ibv.route.addr.dst_storage, &from, len);
	getsockname(fd, &id->ibv.route.addr.src_addr, &local);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	wire_watch(id, false);
}

/* ---- what works beside the program ---- */

void wire_watch(struct id *id, bool out)
{
	struct epoll_event ev = { .events = EPOLLIN | (out ? EPOLLOUT : 0u), .data.u64 = id->number };

	id->blocked = out;
	if (epoll_ctl(w.ep, EPOLL_CTL_MOD, id->fd, &ev) && epoll_ctl(w.ep, EPOLL_CTL_ADD, id->fd, &ev))
		abort();
}

void wire_kick(void)
{
	if (!w.kicked && eventfd_write(w.kick, 1))
		abort();
	w.kicked = true;
}

static void kicked(void)
{
	struct id *id;
	eventfd_t n;

	if (eventfd_read(w.kick, &n))
		return;
	w.kicked = false;
	TAILQ_FOREACH (id, &ids, node)
		if (!id->blocked)
			send_all(id);
}

static void hears(void)
{
	char skipped[1024];

	while (read(w.told, skipped, sizeof(skipped)) > 0)
		;
	if (told("gone"))
		context_gone();
}

static void happens(struct id *id, uint32_t events)
{
	if (id->state == LISTENS) {
		comes(id);
	} else if (id->state == CONNECTS) {
		connects(id);
	} else if (id->state == CLOSES) {
		closes(id);
	} else {
		if (id->blocked && events & EPOLLOUT) {
			wire_watch(id, false);
			send_all(id);
		}
		for (int i = 0; id->fd >= 0 && i < 16 && receive_some(id); i++)
			;
	}
}

static void *work(void *unused)
{
	struct epoll_event ev;
	bool stop = false;
	struct id *id;

	while (!stop) {
		if (epoll_wait(w.ep, &ev, 1, -1) != 1)
			continue;
		pthread_mutex_lock(&lock);
		if (ev.data.u64 == KICKED) {
			kicked();
		} else if (ev.data.u64 == TOLD) {
			hears();
		} else {
			TAILQ_FOREACH (id, &ids, node)
				if (id->number == ev.data.u64)
					break;
			if (id)
				happens(id, ev.events);
		}
		stop = w.stop;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void add(int fd, uint64_t what)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = what };

	if (fd < 0 || epoll_ctl(w.ep, EPOLL_CTL_ADD, fd, &ev))
		abort();
}

/* No signal of the program's is for it. */
int wire_start(void)
{
	sigset_t all, was;
	int ret;

	if (w.runs)
		return 0;
	w.ep = epoll_create1(EPOLL_CLOEXEC);
	w.kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w.told = told_watch();
	add(w.kick, KICKED);
	add(w.told, TOLD);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	ret = pthread_create(&w.thread, NULL, work, NULL);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	w.runs = !ret;
	return ret;
}

void wire_stop(void)
{
	struct id *id;

	if (!w.runs)
		return;
	pthread_mutex_lock(&lock);
	w.stop = true;
	w.kicked = false;
	wire_kick();
	pthread_mutex_unlock(&lock);
	pthread_join(w.thread, NULL);
	w.runs = false;
	while ((id = TAILQ_FIRST(&ids)))
		id_free(id);
	for (unsigned int i = 0; i < w.nsevered; i++)
		close(w.severed[i]);
	close(w.ep);
	close(w.kick);
	close(w.told);
}
