// SPDX-License-Identifier: MIT
/* rdma_cm of a device made up: ids, and what becomes of them. */
#include "made_up.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct cm_channel {
	struct rdma_event_channel ibv;
	struct events events;
	unsigned int ids;
};

struct ids ids = TAILQ_HEAD_INITIALIZER(ids);

static int error(int err)
{
	errno = err;
	return -1;
}

/* ---- events ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cm_channel *ch;

	if (told_fail("rdma_create_event_channel"))
		return NULL;
	ch = calloc(1, sizeof(*ch));
	if (!ch || events_init(&ch->events) || wire_start())
		abort();
	ch->ibv.fd = ch->events.fd;
	hold(CHANNEL, 1);
	return &ch->ibv;
}

void rdma_destroy_event_channel(struct rdma_event_channel *ibv)
{
	struct cm_channel *ch = (struct cm_channel *)ibv;

	if (ch->ids)
		note("misuse: rdma_destroy_event_channel with %u ids", ch->ids);
	events_fini(&ch->events);
	free(ch);
	hold(CHANNEL, -1);
}

void id_event(struct id *id, int type, int status, const void *pd, size_t len)
{
	bool up = type == RDMA_CM_EVENT_ESTABLISHED;
	struct event *e = calloc(1, sizeof(*e));

	if (!e)
		abort();
	if (told_event(&type, &status) && up)	/* it came to something else */
		wire_end(id);
	e->cm.id = &id->ibv;
	e->cm.event = (enum rdma_cm_event_type)type;
	e->cm.status = status;
	e->id = id;
	memcpy(e->pd, pd ? pd : "", len);
	e->cm.param.conn.private_data = e->pd;
	e->cm.param.conn.private_data_len = (uint8_t)len;
	events_put(&((struct cm_channel *)id->ibv.channel)->events, e);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct event *e = events_get(&((struct cm_channel *)channel)->events);

	if (!e)
		return -1;
	pthread_mutex_lock(&lock);
	e->id->unacked++;
	pthread_mutex_unlock(&lock);
	*event = &e->cm;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct event *e = (struct event *)((char *)event - offsetof(struct event, cm));

	pthread_mutex_lock(&lock);
	e->id->unacked--;
	pthread_mutex_unlock(&lock);
	free(e);
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[] = {
		"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR", "RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR",
		"RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE", "RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE",
		"RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED", "RDMA_CM_EVENT_DEVICE_REMOVAL",
		"RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};

	return (unsigned int)event < sizeof(names) / sizeof(names[0]) ? names[event] : "UNKNOWN EVENT";
}

/* ---- ids ---- */

struct id *id_new(struct rdma_event_channel *channel, void *context)
{
	static uint64_t numbers = 16;
	struct id *id = calloc(1, sizeof(*id));

	if (!id)
		abort();
	id->number = numbers++;
	id->fd = -1;
	id->ibv.channel = channel;
	id->ibv.context = context;
	id->ibv.ps = RDMA_PS_TCP;
	id->ibv.port_num = 1;
	if (channel)
		((struct cm_channel *)channel)->ids++;
	TAILQ_INSERT_TAIL(&ids, id, node);
	return id;
}

static bool of_id(const struct event *e, const void *id)
{
	return e->id == id;
}

/* Those that it is dialled by, of which nobody has heard, end with it. */
void id_free(struct id *id)
{
	struct cm_channel *ch = (struct cm_channel *)id->ibv.channel;
	struct id *other, *next;

	for (other = id->state == LISTENS ? TAILQ_FIRST(&ids) : NULL; other; other = next) {
		next = TAILQ_NEXT(other, node);
		if (other->listener == id) {
			close(other->fd);
			ch->ids--;
			TAILQ_REMOVE(&ids, other, node);
			free(other);
		}
	}
	if (id->fd >= 0)
		close(id->fd);
	if (ch) {
		events_drop(&ch->events, of_id, id);
		ch->ids--;
	}
	TAILQ_REMOVE(&ids, id, node);
	free(id);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	if (told_fail("rdma_create_id"))
		return -1;
	pthread_mutex_lock(&lock);
	*id = &id_new(channel, context)->ibv;
	hold(ID, 1);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *ibv)
{
	struct id *id = id_of(ibv);

	if (id->unacked)
		note("misuse: rdma_destroy_id waits for ever: %u events are not acknowledged", id->unacked);
	if (ibv->qp)
		note("misuse: rdma_destroy_id with a queue pair");
	pthread_mutex_lock(&lock);
	id_free(id);
	hold(ID, -1);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- addresses ---- */

static socklen_t length(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static bool loopback(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)sa)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) >> 24 == 127;
}

/* Each address of this host is the device's, but those of the loopback. */
static int bind_to(struct id *id, const struct sockaddr *sa)
{
	struct context *ctx;
	int one = 1;

	id->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (id->fd < 0)
		return -1;
	setsockopt(id->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(id->fd, sa, length(sa)))
		return -1;
	ctx = loopback(sa) ? NULL : context_get();
	if (!ctx)
		return error(ENODEV);
	id->ibv.verbs = &ctx->ibv;
	memcpy(&id->ibv.route.addr.src_storage, sa, length(sa));
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *ibv, struct sockaddr *sa)
{
	int ret;

	if (told_fail("rdma_bind_addr"))
		return -1;
	pthread_mutex_lock(&lock);
	ret = bind_to(id_of(ibv), sa);
	pthread_mutex_unlock(&lock);
	return ret;
}

int rdma_listen(struct rdma_cm_id *ibv, int backlog)
{
	struct id *id = id_of(ibv);

	if (told_fail("rdma_listen") || listen(id->fd, backlog))
		return -1;
	pthread_mutex_lock(&lock);
	id->state = LISTENS;
	wire_watch(id, false);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *ibv, struct sockaddr *src, struct sockaddr *dst, int ms)
{
	int ret;

	if (told_fail("rdma_resolve_addr"))
		return -1;
	pthread_mutex_lock(&lock);
	ret = bind_to(id_of(ibv), src);
	memcpy(&ibv->route.addr.dst_storage, dst, length(dst));
	if (!ret)
		id_event(id_of(ibv), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	pthread_mutex_unlock(&lock);
	return ret;
}

int rdma_resolve_route(struct rdma_cm_id *ibv, int ms)
{
	if (told_fail("rdma_resolve_route"))
		return -1;
	pthread_mutex_lock(&lock);
	id_event(id_of(ibv), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- connections ---- */

int rdma_create_qp(struct rdma_cm_id *ibv, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int ret;

	if (told_fail("rdma_create_qp"))
		return -1;
	if (context_is_gone(ibv->verbs))
		return error(EIO);
	pthread_mutex_lock(&lock);
	ret = qp_new(id_of(ibv), pd, attr);
	pthread_mutex_unlock(&lock);
	return ret;
}

void rdma_destroy_qp(struct rdma_cm_id *ibv)
{
	struct id *id = id_of(ibv);

	pthread_mutex_lock(&lock);
	if (id->state != IDLE)
		wire_lost(id, 0);
	qp_free(qp_of(id));
	ibv->qp = NULL;
	pthread_mutex_unlock(&lock);
}

static int tcp(struct id *id)
{
	struct pollfd p = { .fd = id->fd, .events = POLLOUT };
	int err = 0;
	socklen_t len = sizeof(err);

	if (connect(id->fd, &id->ibv.route.addr.dst_addr, length(&id->ibv.route.addr.dst_addr)) && errno != EINPROGRESS)
		return -1;
	if (told_card())
		return 0;
	while (!poll(&p, 1, -1))
		;
	getsockopt(id->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	return err ? error(err) : 0;
}

/* siw waits for TCP in the call. */
int rdma_connect(struct rdma_cm_id *ibv, struct rdma_conn_param *param)
{
	struct id *id = id_of(ibv);
	int ret;

	if (told_fail("rdma_connect"))
		return -1;
	if (!ibv->qp || context_is_gone(ibv->verbs))
		return error(EINVAL);
	memcpy(id->pd, param->private_data, param->private_data_len);
	id->body_len = param->private_data_len;
	ret = tcp(id);
	if (ret)
		return ret;
	pthread_mutex_lock(&lock);
	if (told_card()) {
		id->state = CONNECTS;
		wire_watch(id, true);
	} else {
		ret = wire_connected(id);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

int rdma_accept(struct rdma_cm_id *ibv, struct rdma_conn_param *param)
{
	struct id *id = id_of(ibv);
	int ret = 0;

	if (told_fail("rdma_accept"))
		return -1;
	pthread_mutex_lock(&lock);
	if (!ibv->qp || id->state != ASKED || wire_send(id, REPLY, param->private_data, param->private_data_len)) {
		ret = error(ibv->qp ? ECONNRESET : EINVAL);
	} else {
		id->state = UP;
		ibv->qp->state = IBV_QPS_RTS;
		id_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

int rdma_reject(struct rdma_cm_id *ibv, const void *pd, uint8_t len)
{
	struct id *id = id_of(ibv);

	if (told_fail("rdma_reject"))
		return -1;
	pthread_mutex_lock(&lock);
	if (id->state == ASKED)
		wire_send(id, REJECT, pd, len);
	wire_lost(id, 0);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *ibv)
{
	if (told_fail("rdma_disconnect"))
		return -1;
	pthread_mutex_lock(&lock);
	if (qp_of(id_of(ibv))->sq.head != qp_of(id_of(ibv))->sq.tail)
		note("misuse: rdma_disconnect with something under way");
	wire_close(id_of(ibv));
	pthread_mutex_unlock(&lock);
	return 0;
}

void ids_gone(const struct ibv_context *ctx)
{
	struct id *id, *next;

	for (id = TAILQ_FIRST(&ids); id; id = next) {
		next = TAILQ_NEXT(id, node);
		if (id->ibv.verbs != ctx || id->ours)
			continue;
		if (id->state == LISTENS) {
			close(id->fd);
			id->fd = -1;
		} else {
			wire_lost(id, ENODEV);
		}
		id_event(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
	}
}
