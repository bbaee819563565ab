// SPDX-License-Identifier: MIT
/* Life of control sessions: dialling, MPA startup, receive buffers, the end, redialling. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/net/ipsec.h"
#include "daemon/net/sock.h"
#include "daemon/rnic/prm.h"
#include "answer.h"
#include "ask.h"
#include "port.h"

/* While a question is open; else nobody waits, and of a host that is gone the kernel's keepalive tells. */
#define IDLE_MS		5000u	/* PING when nothing came for so long */
#define DEAF_MS		15000u	/* a session on which nothing came for so long, PINGs notwithstanding, is given up */
#define REDIALS		60u
#define REDIAL_FIRST_MS	100u
#define REDIAL_MAX_MS	2000u
#define DIALS_MAX	256u		/* under way */
#define DIALS_USER	16u		/* that one user may have when there are so many */

static struct list dials = { &dials, &dials };
static unsigned int ndials;
static bool stopping;
unsigned int sess_in;

static const struct endpoint_ulp sess_ulp;

/* ---- making and ending ---- */

uint64_t daemon_generation(void)
{
	static uint64_t random;

	if (!random && getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint64_t)getpid() << 32 | 1;
	return random;
}

static void sess_work(struct work *w);

struct sess *sess_new(struct peer *p, bool dialled)
{
	struct sess *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->peer = p;
	s->dialled = dialled;
	s->fd = -1;
	s->started = engine_now_ms();
	list_init(&s->dial);
	list_init(&s->waiting);
	list_init(&s->proving);
	list_init(&s->asked);
	list_init(&s->strangers);
	list_add_tail(dialled ? &p->out : &p->in, &s->node);
	sess_in += !dialled;
	return s;
}

#define ABOUT(s) (&((struct log_about){ .id = LOG_ID_SESSION, .peer = iw_ip_text((s)->peer->ip) }))

void sess_fail(struct sess *s, enum iw_reason why, const char *text)
{
	if (s->state == SESS_DEAD)
		return;
	if (text)
		log_about(LOG_WARNING, ABOUT(s), "session %s %s: %s; closed", s->dialled ? "to" : "from", iw_ip_text(s->peer->ip), text);
	s->why = why;
	s->never_up = s->state != SESS_UP;
	s->state = SESS_DEAD;
	work_queue(&s->work, sess_work);
}

static void sess_free(struct sess *s)
{
	if (s->ep) {
		endpoint_deregister(s->ep, &s->mr);
		if (s->gives_way || (!s->dialled && !port_lingers(s->peer)))
			endpoint_abort(s->ep);
		else
			endpoint_detach(s->ep);
	} else if (s->fd >= 0) {
		close(s->fd);
	}
	timer_stop(&s->timer);
	work_cancel(&s->work);
	sess_dialled(s);
	list_del(&s->node);
	sess_in -= !s->dialled;
	free(s->bufs);
	free(s);
}

static void redial(struct timer *t)
{
	static const uint8_t any[16];
	struct peer *p = container_of(t, struct peer, redial);
	enum iw_reason reason;

	if (list_empty(&p->out))
		sess_dial(p, any, PRM_DAEMON, &reason);
}

bool sess_any_up(const struct list *sessions)
{
	list_each(n, nxt, sessions)
		if (list_entry(n, struct sess, node)->state == SESS_UP)
			return true;
	return false;
}

/* Some session of ours, and one of theirs to the same address of this host. */
static bool both_ways(const struct peer *p)
{
	list_each(o, onxt, &p->out) {
		const struct sess *out = list_entry(o, struct sess, node);

		list_each(i, inxt, &p->in) {
			const struct sess *in = list_entry(i, struct sess, node);

			if (out->state == SESS_UP && in->state == SESS_UP && in->vouched && iw_ip_same(out->local, in->local))
				return true;
		}
	}
	return false;
}

void sess_review(struct peer *p)
{
	bool both = both_ways(p);

	if (stopping)
		return;
	if (!both && p->state == IW_PEER_POSITIVE)
		peer_set(p, IW_PEER_UNKNOWN, 0, 0);
	if (both && p->state != IW_PEER_POSITIVE)
		peer_set(p, IW_PEER_POSITIVE, 0, 0);
	if (both)
		session_ops->peer_up(p->ip);
}

/* One of our sessions ended: what the peer is now, and when we try again. */
static void peer_after(struct peer *p, bool was_up, enum iw_reason why)
{
	if (sess_any_up(&p->out) || stopping)
		return;
	if (was_up) {
		peer_set(p, IW_PEER_UNKNOWN, 0, 0);
		p->redials = REDIALS;
		p->redial_ms = REDIAL_FIRST_MS;
	} else if (why != IW_REASON_RESOURCES) {
		peer_set(p, IW_PEER_NEGATIVE, why, conf.negative_ttl * 1000);
	}
	if (!p->redials || !list_empty(&p->out))
		return;
	p->redials--;
	timer_start(&p->redial, p->redial_ms, redial);
	p->redial_ms = p->redial_ms * 2 > REDIAL_MAX_MS ? REDIAL_MAX_MS : p->redial_ms * 2;
}

static void sess_work(struct work *w)
{
	struct sess *s = container_of(w, struct sess, work);
	struct peer *p = s->peer;
	enum iw_reason why = s->why;
	bool was_up = !s->never_up, dialled = s->dialled;
	uint8_t local[16];

	if (s->op.busy) {	/* comes back here */
		engine_cancel(&s->op);
		return;
	}
	memcpy(local, s->local, 16);
	list_del(&s->node);
	if (dialled)
		ask_down(s, was_up ? IW_REASON_DAEMON_GONE : why);
	else
		answer_down(s);
	port_down(s);
	sess_free(s);
	if (!dialled) {
		sess_review(p);
		return;
	}
	peer_after(p, was_up, why);
	if (was_up)
		session_ops->peer_gone(p->ip);
	answer_dialled(p, local, false);
}

/* ---- messages in and out ---- */

void sess_send(struct sess *s, const struct iw_sm *m)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .flags = IW_WR_INLINE | IW_WR_QUIET };
	int len = iw_sm_encode(m, wr.inl);

	if (s->state == SESS_DEAD || !s->ep)
		return;
	if (len < 0) {
		sess_fail(s, IW_REASON_RESOURCES, "a message could not be made");
		return;
	}
	wr.inl_len = (uint8_t)len;
	if (endpoint_post_send(s->ep, &wr))
		sess_fail(s, IW_REASON_DAEMON_GONE, "the send queue is full");
}
static_assert(IW_SM_MAX <= IW_WR_INLINE_MAX, "messages go inline");

static int buf_post(struct sess *s, uint64_t i)
{
	struct iw_sge sge = { .stag = s->mr.stag, .to = s->mr.to + i * IW_SM_BUF_SIZE, .len = IW_SM_BUF_SIZE };

	return endpoint_post_recv(s->ep, i, &sge);
}

static int bufs_post(struct sess *s)
{
	size_t len = (size_t)IW_SM_BUFS * IW_SM_BUF_SIZE;
	int ret = -ENOMEM;

	s->bufs = calloc(1, len);
	if (s->bufs)
		ret = endpoint_register(s->ep, s->bufs, len, 0, IW_ACCESS_LOCAL_WRITE, &s->mr);
	for (uint64_t i = 0; !ret && i < IW_SM_BUFS; i++)
		ret = buf_post(s, i);
	return ret;
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct sess *s = ctx;
	struct iw_sm m;
	bool bad;

	if (s->state == SESS_DEAD || cqe->op != IW_WR_RECV || cqe->status != IW_WC_OK)
		return;
	bad = cqe->has_imm || cqe->has_inv || cqe->wr_id >= IW_SM_BUFS ||
	      iw_sm_decode(&m, s->bufs + cqe->wr_id * IW_SM_BUF_SIZE, cqe->len, !s->dialled);
	if (bad) {
		sess_fail(s, IW_REASON_VERSION, "malformed message");
		return;
	}
	if (buf_post(s, cqe->wr_id)) {
		sess_fail(s, IW_REASON_RESOURCES, "a receive buffer could not be posted");
		return;
	}
	s->heard_ms = engine_now_ms();
	if (s->dialled)
		ask_received(s, &m);
	else
		answer_received(s, &m);
}

/* ---- MPA ---- */

static void pd_make(uint8_t out[IW_SM_PD_LEN])
{
	struct iw_sm_pd pd = {
		.ver_lo = IW_SM_VERSION, .ver_hi = IW_SM_VERSION, .bufs = IW_SM_BUFS, .buf_size = IW_SM_BUF_SIZE,
		.generation = daemon_generation(),
	};

	iw_sm_pd_encode(&pd, out);
}

/* Acceptor: somebody's MPA Request. */
static void on_request(void *ctx, const struct endpoint_said *said)
{
	struct sess *s = ctx;
	uint8_t pd[IW_SM_PD_LEN], no[IW_SM_REJECT_LEN];
	int ret = iw_sm_pd_decode(&s->theirs, said->pd, said->pd_len);

	if (ret == -EPROTONOSUPPORT || !said->p2p) {
		log_about(LOG_WARNING, ABOUT(s), "session from %s: no common version", iw_ip_text(s->peer->ip));
		iw_sm_reject_encode(IW_REASON_VERSION, no);
		endpoint_reject(s->ep, no, sizeof(no));
		return;
	}
	if (ret) {
		sess_fail(s, IW_REASON_VERSION, "its MPA Request is not that of an iwarpd");
		return;
	}
	pd_make(pd);
	if (bufs_post(s) || endpoint_accept(s->ep, pd, sizeof(pd)))
		sess_fail(s, IW_REASON_RESOURCES, "no resources for it");
}

static void idle(struct timer *t)
{
	struct sess *s = container_of(t, struct sess, timer);
	uint64_t silent = engine_now_ms() - s->heard_ms;

	if (!s->nslots)
		return;
	if (silent >= DEAF_MS) {
		sess_fail(s, IW_REASON_PEER_UNREACHABLE, "its daemon does not answer");
		return;
	}
	if (silent >= IDLE_MS)
		ask_ping(s);	/* where there is no room for it, questions are open that do as well */
	timer_start(&s->timer, IDLE_MS, idle);
}

void sess_listen(struct sess *s)
{
	if (s->timer.due)
		return;
	s->heard_ms = engine_now_ms();
	timer_start(&s->timer, IDLE_MS, idle);
}

static void hello_late(struct timer *t)
{
	sess_fail(container_of(t, struct sess, timer), IW_REASON_PEER_UNREACHABLE, "no HELLO");
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	struct sess *s = ctx;

	s->state = SESS_HELLO;
	if (!s->dialled) {
		timer_start(&s->timer, conf.startup_timeout, hello_late);
		return;
	}
	if (iw_sm_pd_decode(&s->theirs, said->pd, said->pd_len)) {
		sess_fail(s, IW_REASON_PEER_NO_IWARP, "its MPA Reply is not that of an iwarpd");
		return;
	}
	s->window = s->theirs.bufs / 2 < SESS_WINDOW ? s->theirs.bufs / 2 : SESS_WINDOW;
	s->heard_ms = engine_now_ms();
	ask_up(s);
	timer_start(&s->timer, IDLE_MS, idle);
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	struct sess *s = ctx;

	s->fin |= ev == ENDPOINT_EV_EOF;
}

/* What a failed startup says about the other side. */
static enum iw_reason startup_reason(int err, const struct endpoint_said *reject)
{
	int r = reject ? iw_sm_reject_decode(reject->pd, reject->pd_len) : -EPROTO;

	if (err == ECONNREFUSED)
		return r > 0 ? (enum iw_reason)r : IW_REASON_PEER_NO_IWARP;
	if (err == ECONNRESET || err == EPIPE || !err)
		return IW_REASON_PEER_REFUSED;	/* 'allow' closes without a word */
	return err == ETIMEDOUT ? IW_REASON_PEER_UNREACHABLE : IW_REASON_PEER_NO_IWARP;
}

/* A FIN alone is no word of the daemon's: the kernel may have sent it for one that was killed. */
static const char *end_text(const struct sess *s, int err)
{
	if (s->stopped)
		return "its daemon was stopped";
	return s->fin || !err ? "closed by the other side" : strerror(err);
}

static void on_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	struct sess *s = ctx;
	struct endpoint *ep = s->ep;

	/* the endpoint goes its own way from here */
	endpoint_deregister(ep, &s->mr);
	s->ep = NULL;
	if (!s->dialled && !port_lingers(s->peer))
		endpoint_abort(ep);
	if (s->state == SESS_DEAD)
		return;
	if (s->state == SESS_UP || s->state == SESS_HELLO)
		log_about(LOG_INFO, ABOUT(s), "session %s %s ended: %s", s->dialled ? "to" : "from", iw_ip_text(s->peer->ip), end_text(s, err));
	else if (!s->dialled)
		log_about(LOG_WARNING, ABOUT(s), "session from %s failed to start: %s", iw_ip_text(s->peer->ip), err ? strerror(err) : "closed");
	sess_fail(s, s->state == SESS_UP ? IW_REASON_DAEMON_GONE : startup_reason(err, reject), NULL);
}

static const struct endpoint_ulp sess_ulp = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .closed = on_closed,
};

int sess_conn(struct sess *s)
{
	struct rnic_pd *pd = rnic_pd_get(PRM_DAEMON);
	int ret = pd ? soft_create(s->fd, pd, &sess_ulp, s, &s->ep) : -ENOMEM;

	if (pd)
		rnic_pd_put(pd);
	if (ret) {
		s->ep = NULL;
		return ret;
	}
	s->fd = -1;
	if (!s->dialled)
		endpoint_counted(s->ep, &s->peer->in_conns);
	return 0;
}

/* ---- dialling ---- */

void sess_socket(int fd)
{
	static const struct { int name, v; } opts[] = {
		{ TCP_NODELAY, 1 }, { TCP_KEEPIDLE, 5 }, { TCP_KEEPINTVL, 2 }, { TCP_KEEPCNT, 3 }, { TCP_USER_TIMEOUT, 10000 },
	};
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	for (size_t i = 0; i < sizeof(opts) / sizeof(opts[0]); i++)
		setsockopt(fd, IPPROTO_TCP, opts[i].name, &opts[i].v, sizeof(opts[i].v));
}

static enum iw_reason connect_reason(int err)
{
	switch (err) {
	case ECONNREFUSED:
	case ECONNRESET:
		return IW_REASON_PEER_NO_IWARP;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
	case EADDRNOTAVAIL:
		return IW_REASON_RESOURCES;
	case ENOKEY:
		return IW_REASON_NO_IPSEC;
	default:
		return IW_REASON_PEER_UNREACHABLE;
	}
}

static void connected(struct op *op, int res, bool more)
{
	struct sess *s = container_of(op, struct sess, op);
	uint8_t pd[IW_SM_PD_LEN];
	int err = 0;
	socklen_t len = sizeof(err);

	if (s->state == SESS_DEAD) {
		work_queue(&s->work, sess_work);
		return;
	}
	if (res < 0)
		err = -res;
	else
		getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		s->peer->dial_err = err;
		sess_fail(s, connect_reason(err), NULL);
		return;
	}
	s->state = SESS_STARTING;
	pd_make(pd);
	if (sess_conn(s) || bufs_post(s) || endpoint_initiate(s->ep, pd, sizeof(pd)))
		sess_fail(s, IW_REASON_RESOURCES, "no resources for it");
}

static void dial_late(struct timer *t)
{
	struct sess *s = container_of(t, struct sess, timer);

	s->peer->dial_err = ETIMEDOUT;
	sess_fail(s, IW_REASON_PEER_UNREACHABLE, NULL);
}

static int dial_socket(struct sess *s, const uint8_t src[16])
{
	static const uint8_t any[16];
	struct iw_addr to = { .port = conf.control_port, .scope_id = s->peer->scope_id }, from = { .scope_id = s->peer->scope_id };
	struct sockaddr_storage sa;
	socklen_t len;

	memcpy(to.ip, s->peer->ip, 16);
	to.family = iw_ip_family(to.ip);
	len = iw_addr_to_sockaddr(&to, &sa);
	s->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return -errno;
	sess_socket(s->fd);
	if (memcmp(src, any, 16)) {
		struct sockaddr_storage me;

		memcpy(from.ip, src, 16);
		from.family = iw_ip_family(src);
		if (bind(s->fd, (void *)&me, iw_addr_to_sockaddr(&from, &me)))
			return -errno;
	}
	if (connect(s->fd, (void *)&sa, len) && errno != EINPROGRESS)
		return -errno;
	if (!sock_name(s->fd, &from, false))
		memcpy(s->local, from.ip, 16);
	s->me = from;
	s->them = to;
	/* only now our address and port are known; nothing but a SYN has gone out */
	return ipsec_check(&(struct iw_tuple){ .local = from, .peer = to }) ? -ENOKEY : 0;
}

void sess_dialled(struct sess *s)
{
	if (list_empty(&s->dial))
		return;
	list_del(&s->dial);
	ndials--;
}

/*
 * Every user may propose connections to any address, and one that does not answer is dialled for SESS_DIAL_MS: who names hundreds must not
 * take the table of peers, or files, from others. His own oldest gives way; the oldest of all when it is many users.
 */
static void dial_begun(struct sess *s)
{
	struct sess *own = NULL, *any = NULL;
	unsigned int n_own = 0;

	list_add_tail(&dials, &s->dial);
	if (++ndials <= DIALS_MAX)
		return;
	list_each(n, nxt, &dials) {
		struct sess *old = list_entry(n, struct sess, dial);

		if (old == s || old->state == SESS_DEAD)
			continue;
		any = any ? any : old;
		if (old->uid != s->uid)
			continue;
		own = own ? own : old;
		n_own++;
	}
	if (n_own >= DIALS_USER)
		sess_fail(own, IW_REASON_RESOURCES, NULL);
	else if (any)
		sess_fail(any, IW_REASON_RESOURCES, NULL);
}

struct sess *sess_dial(struct peer *p, const uint8_t src[16], uint64_t uid, enum iw_reason *reason)
{
	struct sess *s = sess_new(p, true);
	struct io_uring_sqe *sqe;
	int ret;

	if (!s) {
		*reason = IW_REASON_RESOURCES;
		return NULL;
	}
	ret = dial_socket(s, src);
	if (ret) {
		*reason = connect_reason(-ret);
		p->dial_err = -ret;
		sess_free(s);
		peer_after(p, false, *reason);
		return NULL;
	}
	s->uid = uid;
	s->state = SESS_CONNECTING;
	s->op.fn = connected;
	sqe = engine_sqe();
	io_uring_prep_poll_add(sqe, s->fd, POLLOUT);
	engine_submit(sqe, &s->op);
	timer_start(&s->timer, SESS_DIAL_MS, dial_late);
	dial_begun(s);
	return s;
}

struct sess *sess_out(struct peer *p, const uint8_t src[16])
{
	static const uint8_t any[16];
	bool anyone = !memcmp(src, any, 16);
	struct sess *best = NULL;

	list_each(n, nxt, &p->out) {
		struct sess *s = list_entry(n, struct sess, node);

		if (s->state == SESS_DEAD || (!anyone && !iw_ip_same(s->local, src)))
			continue;
		if (!best || s->state > best->state)
			best = s;
	}
	return best;
}

/* ---- start, and the end of all ---- */

static void not_proposed(const struct iw_tuple *t, const struct iw_sm *m, struct iw_sm *answer)
{
	answer->reason = IW_REASON_UNANSWERED;
}

static void not_held(struct sess_question *q, const struct iw_tuple *t)
{
	sess_answer(q, &(struct iw_sm){ .reason = IW_REASON_UNANSWERED });
}

static void no_hold(struct sess_question *q)
{
}

static void nothing_waits(const uint8_t ip[16])
{
}

static const struct session_ops nobody = {
	.propose = not_proposed, .hold = not_held, .hold_gone = no_hold, .peer_up = nothing_waits, .peer_gone = nothing_waits,
};
const struct session_ops *session_ops = &nobody;

int session_start(void)
{
	return port_start();
}

static void stop_peer(struct peer *p, void *arg)
{
	timer_stop(&p->redial);
	p->redials = 0;
	list_each(n, nxt, &p->out)
		sess_fail(list_entry(n, struct sess, node), IW_REASON_DAEMON_GONE, NULL);
	list_each(n, nxt, &p->in) {
		struct sess *s = list_entry(n, struct sess, node);

		answer_stopping(s);
		sess_fail(s, IW_REASON_DAEMON_GONE, NULL);
	}
}

static void renew_peer(struct peer *p, void *arg)
{
	list_each(n, nxt, &p->out) {
		struct sess *s = list_entry(n, struct sess, node);

		if (ipsec_check(&(struct iw_tuple){ .local = s->me, .peer = s->them }))
			sess_fail(s, IW_REASON_NO_IPSEC, "no IPsec policy covers the connection, and require_ipsec is set");
	}
	list_each(n, nxt, &p->in) {
		struct sess *s = list_entry(n, struct sess, node);
		const char *why = port_refuses(&s->me, &s->them);

		if (why)
			sess_fail(s, IW_REASON_PEER_REFUSED, why);
	}
}

void session_renew(void)
{
	peers_each(renew_peer, NULL);
}

void session_stop(void)
{
	stopping = true;
	port_stop();
	peers_each(stop_peer, NULL);
}
