// SPDX-License-Identifier: MIT
/* Connections beside the applications', by rdma_cm: dialled, answered, lost; the addresses of this host where they can be dialled; hosts without. */
#include "verbs_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/base/conf.h"

#define BACKLOG		128
#define RESOLVE_MS	2000
#define TRIES		6u	/* who is dialled learns of the connection at about the same time, and may be later */
#define PROBE_MS	1000u
#define AGAIN_MS	20u	/* times the tries so far */
#define NONE_MS		2000u	/* an address without a device is looked at again */
#define ADDRESSES	256u	/* of this host that are known */
#define MARKS		256u	/* hosts that are known to have none: what is marked last stays */

static struct {
	struct rdma_event_channel *channel;
	struct op op;
	struct list listeners;
	struct list waiting;
	unsigned int addresses;
	unsigned int ids;
	bool removed;		/* a device is to go, which librdmacm holds open as long as it is loaded */
	bool closing;
	struct work work;
} cm = { .listeners = { &cm.listeners, &cm.listeners }, .waiting = { &cm.waiting, &cm.waiting } };

struct listener {		/* a local address; without id: no device has it, for a while */
	struct list node;
	struct rdma_cm_id *id;
	struct verbs_dev *dev;
	uint8_t ip[16];
	uint64_t again_ms;
};

struct list *verbs_waiting(void)
{
	return &cm.waiting;
}

/* ---- hosts without ---- */

static struct { uint8_t ip[16]; uint64_t until; } marks[MARKS];

bool verbs_peer_soft(const uint8_t ip[16])
{
	unsigned int i = iw_addr_hash(ip, 0) % MARKS;

	return marks[i].until > engine_now_ms() && iw_ip_same(marks[i].ip, ip);
}

void verbs_peer_mark(const uint8_t ip[16])
{
	unsigned int i = iw_addr_hash(ip, 0) % MARKS;
	bool again = iw_ip_same(marks[i].ip, ip);

	memcpy(marks[i].ip, ip, 16);
	marks[i].until = engine_now_ms() + conf.negative_ttl * UINT64_C(1000);
	log_write(again ? LOG_DEBUG : LOG_INFO, __FILE__, __LINE__, "device: %s is not reached by one; asked again after %u s", iw_ip_text(ip), conf.negative_ttl);
}

void verbs_peer_unmark(const uint8_t ip[16])
{
	unsigned int i = iw_addr_hash(ip, 0) % MARKS;

	if (iw_ip_same(marks[i].ip, ip))
		marks[i].until = 0;
}

/* ---- addresses ---- */

static socklen_t sockaddr_of(const uint8_t ip[16], uint16_t port, struct sockaddr_storage *ss)
{
	struct iw_addr a = { .port = port, .family = iw_ip_family(ip) };

	memcpy(a.ip, ip, 16);
	return iw_addr_to_sockaddr(&a, ss);
}

static uint16_t our_port(void)
{
	return (uint16_t)(conf.control_port + 1);
}

static int channel_open(void);
static void release(struct work *w);

static int id_new(void *ctx, struct rdma_cm_id **id)
{
	int ret = channel_open();

	*id = NULL;
	if (!ret && verbs_lib.rdma_create_id(cm.channel, id, ctx, RDMA_PS_TCP))
		ret = -errno;
	cm.ids += !ret;
	return ret;
}

void verbs_id_end(struct rdma_cm_id *id)
{
	verbs_lib.rdma_destroy_id(id);
	if (!--cm.ids && cm.removed)
		work_queue(&cm.work, release);
}

static void unlisten(struct listener *l)
{
	if (!l->id)
		return;
	verbs_put_dev(l->dev);
	l->dev = NULL;
	verbs_id_end(l->id);
	l->id = NULL;
}

static int listen_on(struct listener *l)
{
	struct sockaddr_storage ss = { 0 };
	int ret = id_new(l, &l->id);

	if (ret)
		return ret;
	sockaddr_of(l->ip, our_port(), &ss);
	if (verbs_lib.rdma_bind_addr(l->id, (void *)&ss))
		ret = -errno;
	else if (!l->id->verbs || !device_may(verbs_lib.ibv_get_device_name(l->id->verbs->device)))
		ret = -ENODEV;
	else if (verbs_lib.rdma_listen(l->id, BACKLOG))
		ret = -errno;
	else
		ret = verbs_take_dev(l->id->verbs, &l->dev);
	if (ret)
		unlisten(l);
	return ret;
}

/* A host can have whole networks of addresses: one without a device is forgotten for another. */
static struct listener *listener_new(void)
{
	struct listener *l;

	if (cm.addresses < ADDRESSES) {
		l = calloc(1, sizeof(*l));
		cm.addresses += !!l;
		return l;
	}
	list_each (pos, nxt, &cm.listeners) {
		l = list_entry(pos, struct listener, node);
		if (!l->id) {
			list_del(&l->node);
			*l = (struct listener){ 0 };
			return l;
		}
	}
	return NULL;
}

static struct listener *listener_of(const uint8_t ip[16])
{
	struct listener *l;

	list_each (pos, nxt, &cm.listeners) {
		l = list_entry(pos, struct listener, node);
		if (iw_ip_same(l->ip, ip))
			return l;
	}
	l = listener_new();
	if (!l)
		return NULL;
	memcpy(l->ip, ip, 16);
	list_add_tail(&cm.listeners, &l->node);
	return l;
}

int verbs_listen(const struct iw_addr *local)
{
	struct listener *l = listener_of(local->ip);
	int ret;

	if (!l)
		return -ENOMEM;
	if (l->id)
		return 0;
	if (l->again_ms > engine_now_ms())
		return -ENODEV;
	ret = verbs_load();
	if (!ret)
		ret = listen_on(l);
	if (!ret)
		return 0;
	l->again_ms = engine_now_ms() + NONE_MS;
	if (ret == -EACCES)
		log_warn("device: port %u of rdma_cm: %s; with systemd: CAP_NET_BIND_SERVICE, see iwarpd.conf(5), provider", our_port(), strerror(-ret));
	else
		log_debug("device: %s has none: %s", iw_ip_text(local->ip), strerror(-ret));
	return ret;
}

/* ---- who dials ---- */

static void dial(struct timer *t);

/* Not now, or not at all. */
static void not_reached(struct verbs *v)
{
	verbs_undo(v);
	if (++v->tries < TRIES) {
		timer_start(&v->timer, AGAIN_MS * v->tries, dial);
		return;
	}
	if (!v->refused)
		verbs_peer_mark(v->t.peer.ip);
	verbs_failed(v);
}

static void dial(struct timer *t)
{
	struct verbs *v = container_of(t, struct verbs, timer);
	struct sockaddr_storage from = { 0 }, to = { 0 };

	if (id_new(v, &v->id)) {
		verbs_failed(v);
		return;
	}
	sockaddr_of(v->t.local.ip, 0, &from);
	sockaddr_of(v->t.peer.ip, our_port(), &to);
	if (verbs_lib.rdma_resolve_addr(v->id, (void *)&from, (void *)&to, RESOLVE_MS))
		not_reached(v);
}

void verbs_dial(struct verbs *v)
{
	v->state = VERBS_DIALS;
	if (getrandom(&v->key, sizeof(v->key), 0) == (ssize_t)sizeof(v->key))
		dial(&v->timer);
	else
		verbs_failed(v);
}

static void resolved(struct verbs *v)
{
	if (verbs_lib.rdma_resolve_route(v->id, RESOLVE_MS))
		not_reached(v);
}

static struct rdma_conn_param param(const void *pd, size_t len)
{
	return (struct rdma_conn_param){ .private_data = pd, .private_data_len = (uint8_t)len, .retry_count = 7, .rnr_retry_count = 7 };
}

static void dial_long(struct timer *t)
{
	struct verbs *v = container_of(t, struct verbs, timer);

	v->tries = TRIES;
	not_reached(v);
}

static void dial_on(struct verbs *v)
{
	struct iw_beside_dial d = { .key = v->key, .sport = v->t.local.port, .dport = v->t.peer.port };
	uint8_t pd[IW_BESIDE_DIAL_LEN];
	struct rdma_conn_param p = param(pd, sizeof(pd));

	iw_beside_dial_encode(&d, pd);
	if (verbs_lib.rdma_connect(v->id, &p))
		not_reached(v);
	else
		timer_start(&v->timer, conf.startup_timeout, dial_long);
}

/*
 * siw waits in the call until TCP is connected, or has given up after minutes; so it is tried before, here, where it keeps nobody, whether the
 * port answers at all.
 */
static void probe_end(struct verbs *v)
{
	if (v->probe >= 0)
		close(v->probe);
	v->probe = -1;
}

static void probe_over(struct op *op, int res, bool more)
{
	struct verbs *v = container_of(op, struct verbs, probe_op);

	probe_end(v);
	if (v->state == VERBS_DIALS && v->id) {
		timer_stop(&v->timer);
		if (res)
			not_reached(v);
		else
			dial_on(v);
	}
	verbs_kick(v);
}

static void probe_long(struct timer *t)
{
	engine_cancel(&container_of(t, struct verbs, timer)->probe_op);
}

void verbs_dial_end(struct verbs *v)
{
	if (v->probe_op.busy)
		engine_cancel(&v->probe_op);
}

static void probe(struct verbs *v)
{
	struct io_uring_sqe *sqe;
	socklen_t len = sockaddr_of(v->t.peer.ip, our_port(), &v->probed);

	v->probe = socket(v->probed.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (v->probe < 0) {
		verbs_failed(v);
		return;
	}
	sqe = engine_sqe();
	v->probe_op.fn = probe_over;
	io_uring_prep_connect(sqe, v->probe, (void *)&v->probed, len);
	engine_submit(sqe, &v->probe_op);
	timer_start(&v->timer, PROBE_MS, probe_long);
}

static void routed(struct verbs *v)
{
	if (verbs_make(v))
		verbs_failed(v);
	else if (v->dev->waits)
		probe(v);
	else
		dial_on(v);
}

static void connected(struct verbs *v)
{
	if (!v->dials || v->state != VERBS_DIALS)
		return;
	v->state = VERBS_MADE;
	v->poll = true;
	if (verbs_hello(v))
		verbs_failed(v);
	verbs_kick(v);
}

/* ---- who is dialled ---- */

static bool same_ip(const struct sockaddr *sa, const uint8_t ip[16])
{
	struct iw_addr a;

	return iw_addr_from_sockaddr(&a, sa, sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) && iw_ip_same(a.ip, ip);
}

static struct verbs *wanted(struct rdma_cm_id *id, const struct iw_beside_dial *d)
{
	list_each (pos, nxt, &cm.waiting) {
		struct verbs *v = list_entry(pos, struct verbs, node);

		if (v->t.local.port == d->dport && v->t.peer.port == d->sport && same_ip(rdma_get_local_addr(id), v->t.local.ip) &&
		    same_ip(rdma_get_peer_addr(id), v->t.peer.ip) && verbs_waits(v))
			return v;
	}
	return NULL;
}

static void dialled(struct rdma_cm_id *id, const struct iw_beside_dial *d)
{
	struct verbs *v = d ? wanted(id, d) : NULL;
	struct rdma_conn_param p = param(NULL, 0);
	uint8_t no[IW_BESIDE_DIAL_LEN];		/* it is a daemon that says so */

	cm.ids++;
	iw_beside_dial_encode(&(struct iw_beside_dial){ 0 }, no);
	if (!v) {
		log_debug("device: dialled for port %u from %u, which is not here", d ? d->dport : 0, d ? d->sport : 0);
		verbs_lib.rdma_reject(id, no, sizeof(no));
		verbs_id_end(id);
		return;
	}
	v->id = id;
	id->context = v;
	v->key = d->key;
	verbs_dialled(v);
	if (verbs_make(v)) {
		verbs_lib.rdma_reject(id, no, sizeof(no));
		verbs_failed(v);
	} else if (verbs_lib.rdma_accept(id, &p)) {
		verbs_failed(v);
	}
}

/* ---- what rdma_cm tells ---- */

struct told {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	bool dialled;		/* by a daemon, or rejected by one */
	struct iw_beside_dial d;
};

static void of_connection(struct verbs *v, const struct told *e)
{
	switch (e->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		resolved(v);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		routed(v);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		connected(v);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		log_debug("device: %s (%d), beside %s", verbs_lib.rdma_event_str(e->type), e->status, iw_tuple_text(&v->t));
		v->refused |= e->type == RDMA_CM_EVENT_REJECTED && e->dialled;
		if (v->state == VERBS_DIALS)
			not_reached(v);
		else
			verbs_failed(v);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		verbs_failed(v);
		break;
	default:
		break;
	}
}

static bool is_listener(const struct rdma_cm_id *id, struct listener **out)
{
	list_each (pos, nxt, &cm.listeners) {
		*out = list_entry(pos, struct listener, node);
		if ((*out)->id == id)
			return true;
	}
	return false;
}

static void heard(const struct told *e)
{
	struct listener *l;

	cm.removed |= e->type == RDMA_CM_EVENT_DEVICE_REMOVAL;
	if (e->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		dialled(e->id, e->dialled ? &e->d : NULL);
	else if (!is_listener(e->id, &l))
		of_connection(e->id->context, e);
	else if (e->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		unlisten(l);
}

static void channel_watch(void);

/* An event is acknowledged before anything is done about it: the end of its id would wait for that. */
static void ready(struct op *op, int res, bool more)
{
	struct rdma_cm_event *ev;

	if (cm.closing) {
		verbs_lib.rdma_destroy_event_channel(cm.channel);
		verbs_unload();
		cm.channel = NULL;
		cm.closing = cm.removed = false;
		return;
	}
	while (!verbs_lib.rdma_get_cm_event(cm.channel, &ev)) {
		struct told e = { .type = ev->event, .status = ev->status, .id = ev->id };

		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST || ev->event == RDMA_CM_EVENT_REJECTED)
			e.dialled = !iw_beside_dial_decode(&e.d, ev->param.conn.private_data, ev->param.conn.private_data_len);
		verbs_lib.rdma_ack_cm_event(ev);
		heard(&e);
	}
	channel_watch();
}

static void channel_watch(void)
{
	struct io_uring_sqe *sqe = engine_sqe();

	cm.op.fn = ready;
	io_uring_prep_poll_add(sqe, cm.channel->fd, POLLIN);
	engine_submit(sqe, &cm.op);
}

static void release(struct work *w)
{
	if (cm.ids || !cm.channel || cm.closing)
		return;
	cm.closing = true;
	engine_cancel(&cm.op);
}

static int channel_open(void)
{
	int flags;

	if (cm.channel)
		return cm.closing ? -ENODEV : 0;
	cm.channel = verbs_lib.rdma_create_event_channel();
	if (!cm.channel)
		return -errno;
	flags = fcntl(cm.channel->fd, F_GETFL);
	if (flags < 0 || fcntl(cm.channel->fd, F_SETFL, flags | O_NONBLOCK)) {
		verbs_lib.rdma_destroy_event_channel(cm.channel);
		cm.channel = NULL;
		return -EIO;
	}
	channel_watch();
	return 0;
}
