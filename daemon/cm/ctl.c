// SPDX-License-Identifier: MIT
/* Clients: the control socket, one connection per process that loaded the library, requests in, replies out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/acceptor.h"
#include "daemon/base/closing.h"
#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/net/locals.h"
#include "daemon/net/peers_page.h"
#include "book.h"
#include "ctl.h"
#include "match.h"
#include "message.h"
#include "switch.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD	77
#endif

#define MAX_FDS		2
#define MAX_REQS	64u	/* of one client at a time */
#define MAX_CLIENTS	8192u	/* of one user */
#define REFUSED_MS	100u	/* until it is looked at what those may have come for who were refused */

struct conn_client {		/* a client as the control socket knows it */
	struct client c;
	struct client_priv p;
	int fd;
	struct op recv;
	struct work work;		/* in the user's turn: what came by recv */
	int res, fds[MAX_FDS];		/* of it; fds are -1 when somebody else has them */
	unsigned int nfds;
	bool hello, dead;
	struct msghdr msg;
	struct iovec iov;
	_Alignas(8) uint8_t buf[IW_CTL_MAX];
	union {
		struct cmsghdr h;
		uint8_t room[CMSG_SPACE(IW_SCM_MAX * sizeof(int))];
	} control;
};

struct list clients = { &clients, &clients };
static unsigned int nclients;

unsigned int client_count(void)
{
	return nclients;
}

static struct conn_client *full(struct client *c)
{
	return container_of(c, struct conn_client, c);
}

/* ---- life of a client ---- */

static void close_fds(struct conn_client *cc)
{
	for (unsigned int i = 0; i < MAX_FDS; i++) {
		if (cc->fds[i] >= 0)
			close_passed(cc->fds[i], cc->c.uid);
		cc->fds[i] = -1;
	}
}

static void client_free(struct conn_client *cc)
{
	work_cancel(&cc->work);
	close_fds(cc);
	if (cc->c.proc)
		munmap(cc->c.proc, sizeof(*cc->c.proc));
	close_passed(cc->fd, cc->c.uid);	/* descriptors in messages not received go with it */
	prm_program_gone(cc->c.uid);
	free(cc);
}

/* Everything of the client goes at once; its memory when the last receive has come back. */
static void client_drop(struct conn_client *cc)
{
	if (cc->dead)
		return;
	cc->dead = true;
	list_del(&cc->p.node);
	nclients--;
	log_debug("client pid %d (%s) gone", (int)cc->c.pid, cc->c.program);
	cm_client_gone(&cc->c);
	shutdown(cc->fd, SHUT_RDWR);
	engine_cancel(&cc->recv);
	if (!cc->recv.busy)
		client_free(cc);
}

#define client_log(c, ...) \
	log_about(LOG_WARNING, &((struct log_about){ .id = LOG_ID_CLIENT, .program = (c)->program, .pid = (c)->pid, .uid = (c)->uid }), __VA_ARGS__)

int ctl_pidfd(struct client *c)
{
	int fd = -1;
	socklen_t len = sizeof(fd);

	if (!getsockopt(full(c)->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
		return fd;
	/* before Linux 6.5: it is alive, since it waits for our answer */
	fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return fd < 0 ? -errno : fd;
}

void ctl_reply(struct client *c, void *msg, const int *fds, unsigned int nfds)
{
	struct conn_client *cc = full(c);
	union {
		struct cmsghdr h;
		uint8_t room[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { msg, ((struct iw_ctl_hdr *)msg)->len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (cc->dead)
		return;
	if (nfds) {
		mh.msg_control = control.room;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		control.h.cmsg_level = SOL_SOCKET;
		control.h.cmsg_type = SCM_RIGHTS;
		control.h.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.h), fds, nfds * sizeof(int));
	}
	if (sendmsg(cc->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return;
	if (errno == EAGAIN)
		client_log(c, "pid %d (%s) does not read its replies; closed", (int)c->pid, c->program);
	shutdown(cc->fd, SHUT_RDWR);	/* the receive sees the end and drops the client: not here, callers still use it */
}

/* ---- requests ---- */

int req_begin(struct cm_req *r, struct client *c, const struct iw_ctl_hdr *h)
{
	if (c->priv->nreqs >= MAX_REQS) {
		client_log(c, "pid %d (%s) has %u requests open; closed", (int)c->pid, c->program, c->priv->nreqs);
		return -EDQUOT;
	}
	c->priv->nreqs++;
	r->client = c;
	r->seq = h->seq;
	list_add_tail(&c->priv->reqs, &r->node);
	return 0;
}

void req_end(struct cm_req *r)
{
	if (!r->client)
		return;
	r->client->priv->nreqs--;
	list_del(&r->node);
	r->client = NULL;
}

void req_move(struct cm_req *to, struct cm_req *from)
{
	*to = *from;
	list_init(&to->node);
	list_add_tail(&from->node, &to->node);
	list_del(&from->node);
	from->client = NULL;
}

void req_ack(struct cm_req *r, enum iw_reason reason, uint64_t id)
{
	struct iw_ctl_ack m;

	if (!r->client)
		return;
	iw_ctl_init(&m, IW_CTL_ACK, r->seq);
	m.result = reason != IW_REASON_ACCELERATED;
	m.reason = reason;
	m.id = id;
	ctl_reply(r->client, &m, NULL, 0);
	req_end(r);
}

void req_plain(struct cm_req *r, enum iw_reason reason, uint64_t takes)
{
	struct iw_ctl_stream m;

	if (!r->client)
		return;
	iw_ctl_init(&m, IW_CTL_STREAM, r->seq);
	m.result = 1;
	m.reason = reason;
	m.size = takes;
	ctl_reply(r->client, &m, NULL, 0);
	req_end(r);
}

static void grant_close(const struct stream_grant *g)
{
	if (g->carrier >= 0)
		close(g->carrier);
	close(g->segment);
}

static void grant_send(struct cm_req *r, const struct stream_grant *g)
{
	struct iw_ctl_stream m;
	int fds[2] = { g->carrier, g->segment };

	iw_ctl_init(&m, IW_CTL_STREAM, r->seq);
	m.stream_id = g->stream_id;
	m.size = g->size;
	m.end = g->end;
	m.flags = g->flags | (addr_is_local(g->tuple.peer.ip) ? IW_PAGE_NEAR : 0);
	m.local = g->tuple.local;
	m.peer = g->tuple.peer;
	grant_add(r->client, g->stream_id, g->end);
	if (g->carrier < 0)
		ctl_reply(r->client, &m, &g->segment, 1);
	else
		ctl_reply(r->client, &m, fds, 2);
}

void req_stream(struct cm_req *r, const struct stream_grant *g)
{
	if (r->client)
		grant_send(r, g);
	grant_close(g);
	req_ack(r, IW_REASON_ACCELERATED, g->stream_id);	/* a close by the application is the last one from here on */
}

/* ---- the first message ---- */

static int proc_page(struct client *c)
{
	int fd = memfd_create("iwsock-process", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(*c->proc)) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto fail;
	p = mmap(NULL, sizeof(*c->proc), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		goto fail;
	c->proc = p;
	c->proc->magic = IW_PROC_MAGIC;
	c->proc->version = 3;
	return fd;
fail:
	close(fd);
	return -ENOMEM;
}

static void hello_refuse(struct conn_client *cc, uint32_t seq, enum iw_reason reason)
{
	struct iw_ctl_hello_ack m;

	iw_ctl_init(&m, IW_CTL_HELLO_ACK, seq);
	m.result = reason;
	m.answer_ms = conf.answer_timeout;
	ctl_reply(&cc->c, &m, NULL, 0);
}

static int hello(struct conn_client *cc, const struct iw_ctl_hello *h)
{
	struct iw_ctl_hello_ack m;
	int fds[2];

	snprintf(cc->c.program, sizeof(cc->c.program), "%s", h->program);
	fds[0] = proc_page(&cc->c);
	fds[1] = peers_fd();
	if (fds[0] < 0) {
		hello_refuse(cc, h->h.seq, IW_REASON_QUOTA);
		return 0;
	}
	cc->hello = true;
	iw_ctl_init(&m, IW_CTL_HELLO_ACK, h->h.seq);
	m.answer_ms = conf.answer_timeout;
	ctl_reply(&cc->c, &m, fds, 2);
	close(fds[0]);
	log_debug("client pid %d uid %u (%s)", (int)cc->c.pid, cc->c.uid, cc->c.program);
	return 0;
}

/* ---- receiving ---- */

static struct timer refused;
static void client_recv(struct conn_client *cc);

/* 0, or -EPROTO with the reason logged. Takes fd. */
static int client_message(struct conn_client *cc, size_t len, int *fds, unsigned int nfds)
{
	const struct iw_ctl_hdr *h = (const void *)cc->buf;
	int ret;

	if (cc->msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || nfds > MAX_FDS) {
		client_log(&cc->c, "pid %d sent %s; closed", (int)cc->c.pid,
			 cc->msg.msg_flags & MSG_TRUNC ? "an oversized message" : "too many descriptors");
		return -EPROTO;
	}
	ret = iw_ctl_check(cc->buf, len, nfds, 1);
	if (ret == -EPROTONOSUPPORT && !cc->hello)
		hello_refuse(cc, len >= sizeof(*h) ? h->seq : 0, IW_REASON_VERSION);
	if (ret) {
		client_log(&cc->c, "pid %d (%s) sent a malformed message (%zu octets, type %u); closed", (int)cc->c.pid, cc->c.program, len,
			 len >= sizeof(*h) ? h->type : 0);
		return -EPROTO;
	}
	if ((h->type == IW_CTL_HELLO) == cc->hello && h->type != IW_CTL_UNMAP) {	/* a hint, which needs no hand-shake */
		client_log(&cc->c, "pid %d sent %s out of order; closed", (int)cc->c.pid, iw_ctl_name(h->type));
		return -EPROTO;
	}
	if (h->type == IW_CTL_HELLO)
		return hello(cc, (const void *)cc->buf);
	ret = cm_message(&cc->c, cc->buf, nfds ? fds[0] : -1);
	if (nfds)
		fds[0] = -1;
	return ret;
}

static void client_work(struct work *w)
{
	struct conn_client *cc = container_of(w, struct conn_client, work);
	int ret = cc->res;

	if (op_again(ret))
		ret = 0;
	else if (ret <= 0)
		ret = -ENOTCONN;
	else
		ret = client_message(cc, (size_t)ret, cc->fds, cc->nfds);
	close_fds(cc);
	if (ret >= 0 && closing_too_many(cc->c.uid)) {
		client_log(&cc->c, "user %u passed files that do not close; pid %d closed", (unsigned int)cc->c.uid, (int)cc->c.pid);
		ret = -EDQUOT;
	}
	if (ret < 0)
		client_drop(cc);
	else
		client_recv(cc);
}

/* What it costs is its user's (SEC-P06). The next one is received when this one has been dealt with. */
static void client_received(struct op *op, int res, bool more)
{
	struct conn_client *cc = container_of(op, struct conn_client, recv);

	cc->nfds = res >= 0 ? passed_take(&cc->msg, cc->fds, MAX_FDS, cc->c.uid) : 0;
	cc->res = res;
	if (cc->dead)
		client_free(cc);
	else
		work_queue(&cc->work, client_work);
}

static void client_recv(struct conn_client *cc)
{
	struct io_uring_sqe *sqe = engine_sqe();

	cc->iov = (struct iovec){ cc->buf, sizeof(cc->buf) };
	cc->msg = (struct msghdr){
		.msg_iov = &cc->iov, .msg_iovlen = 1, .msg_control = &cc->control, .msg_controllen = sizeof(cc->control),
	};
	cc->recv.fn = client_received;
	io_uring_prep_recvmsg(sqe, cc->fd, &cc->msg, MSG_CMSG_CLOEXEC);
	engine_submit(sqe, &cc->recv);
}

/* Counts it when it may. */
static bool user_may(const struct ucred *cred)
{
	const struct prm_user *u = prm_user_get(cred->uid);
	unsigned int n = u ? u->programs : 0;
	const char *why;

	if (n >= MAX_CLIENTS)
		why = "";
	else if (closing_too_many(cred->uid))
		why = " and passed files that do not close";
	else if (!prm_program(cred->uid))
		why = "; what is left of the open files is kept for others (LimitNOFILE=)";
	else
		return true;
	log_about(LOG_WARNING, &((struct log_about){ .id = LOG_ID_CLIENT, .pid = cred->pid, .uid = cred->uid }), "user %u has %u clients%s; pid %d refused", (unsigned int)cred->uid, n, why, (int)cred->pid);
	return false;
}

/* UNMAP may be what they came for. All of them at once, since each look goes over all streams. */
static void look_for_refused(struct timer *t)
{
	streams_unmap();
}

static void client_new(int fd)
{
	struct conn_client *cc = calloc(1, sizeof(*cc));
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);

	if (!cc || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) || !user_may(&cred)) {
		free(cc);
		if (!refused.due)
			timer_start(&refused, REFUSED_MS, look_for_refused);
		close_passed(fd, cred.uid);	/* messages with descriptors may be in it already */
		return;
	}
	cc->fd = fd;
	cc->c.pid = cred.pid;
	cc->c.uid = cred.uid;
	cc->work.turn = &prm_user_get(cred.uid)->turn;	/* user_may() has made it */
	for (unsigned int i = 0; i < MAX_FDS; i++)
		cc->fds[i] = -1;
	cc->c.priv = &cc->p;
	cc->p.self = &cc->c;
	list_init(&cc->p.reqs);
	list_init(&cc->p.proposals);
	list_init(&cc->p.plain);
	list_init(&cc->p.grants);
	list_add_tail(&clients, &cc->p.node);
	nclients++;
	client_recv(cc);
}

/* ---- the socket ---- */

static int listening = -1;	/* from ctl_listen() to ctl_start() */
static struct acceptor acceptor = { .what = "a client", .fn = client_new, .fd = -1 };
static char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];	/* of the socket that is ours to remove */

static int ctl_bind(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int ret, fd;

	ret = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", conf.rundir, IW_CTL_SOCK);
	if (ret < 0 || (size_t)ret >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(socket_path, sa.sun_path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	unlink(sa.sun_path);		/* stale: main.c holds the lock of the run directory */
	if (bind(fd, (void *)&sa, sizeof(sa)) || chmod(sa.sun_path, 0666) || listen(fd, 512)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

int ctl_listen(void)
{
	int fd = acceptor_passed("ctl", AF_UNIX, SOCK_SEQPACKET);

	if (fd < 0)
		fd = ctl_bind();
	if (fd < 0)
		log_err("%s/%s: %s", conf.rundir, IW_CTL_SOCK, strerror(-fd));
	listening = fd;
	return fd < 0 ? fd : 0;
}

void ctl_start(void)
{
	switch_start();
	acceptor_start(&acceptor, listening);
}

void ctl_stop(void)
{
	if (acceptor.fd < 0)
		return;
	if (socket_path[0])
		unlink(socket_path);
	acceptor_stop(&acceptor);
	timer_stop(&refused);
	list_each(n, nxt, &clients)
		client_drop(full(client_of(n)));
}
