// SPDX-License-Identifier: MIT
/* Connections of the D-Bus interface: clients on RUNDIR/bus.sock and the system bus, driven by the engine. Never blocks. */
#include "bus.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "bus_priv.h"
#include "conf.h"
#include "engine.h"
#include "log.h"

#define BUS_CONNS	64	/* clients at a time */
#define BUS_CONNS_KEPT	8	/* of these, for root and the daemon's user */
#define BUS_CONNS_USER	16	/* of these, of one user that is neither root nor ours */
#define BUS_ASKING	16	/* callers on the system bus whose user we are finding out */
#define BUS_BATCH	16	/* messages of one connection before the others have their turn */
#define REDIAL_MS	500u	/* to the system bus, doubled up to */
#define REDIAL_MAX_MS	16000u

struct asking {			/* a method call from the system bus that waits for the caller's user id */
	sd_bus_slot *slot;
	sd_bus_message *m;
};

struct bus_conn {
	sd_bus *bus;
	struct op poll;
	struct timer timer;
	struct work work;
	short events;		/* what poll waits for */
	bool system, dead;
	struct bus_caller peer;	/* not for the system bus */
	struct asking asking[BUS_ASKING];	/* only for the system bus */
	struct bus_conn *next;
};

static struct {
	int fd;
	struct op accept;
	struct timer retry;
	struct bus_conn *conns;
	bool named;		/* we own the name on the system bus */
	bool stopping;
	struct timer redial;	/* the system bus, when it is gone or not there yet */
	unsigned int redial_ms;
} bus = { .fd = -1, .redial_ms = REDIAL_MS };

uint64_t bus_started;

static void conn_step(struct work *w);
static void system_later(void);

static bool privileged(uint32_t uid)
{
	return uid == 0 || uid == geteuid();
}

static void conn_free(struct bus_conn *c)
{
	struct bus_conn **p = &bus.conns;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	timer_stop(&c->timer);
	work_cancel(&c->work);
	free(c);
}

/* The memory goes when the poll in flight has come back. */
static void conn_dead(struct bus_conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	if (c->system) {
		bus.named = false;
		log_debug("bus: the system bus is gone");
		system_later();
	}
	timer_stop(&c->timer);
	work_cancel(&c->work);
	/* slot and message each hold the bus */
	for (int i = 0; i < BUS_ASKING; i++) {
		sd_bus_slot_unref(c->asking[i].slot);
		sd_bus_message_unref(c->asking[i].m);
	}
	sd_bus_close(c->bus);
	c->bus = sd_bus_unref(c->bus);
	if (c->poll.busy)
		engine_cancel(&c->poll);
	else
		conn_free(c);
}

static void conn_polled(struct op *op, int res, bool more)
{
	struct bus_conn *c = container_of(op, struct bus_conn, poll);

	c->events = 0;
	if (c->dead)
		conn_free(c);
	else
		work_queue(&c->work, conn_step);
}

static void conn_timeout(struct timer *t)
{
	struct bus_conn *c = container_of(t, struct bus_conn, timer);

	work_queue(&c->work, conn_step);
}

/* Wait for what sd-bus wants next. */
static int conn_wait(struct bus_conn *c, int events)
{
	struct io_uring_sqe *sqe;
	struct timespec ts;
	uint64_t until, now;
	int r = sd_bus_get_timeout(c->bus, &until);

	if (r < 0)
		return r;
	timer_stop(&c->timer);
	if (until != UINT64_MAX) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		now = (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
		timer_start(&c->timer, until > now ? (unsigned int)((until - now) / 1000 + 1) : 0, conn_timeout);
	}
	if (c->poll.busy) {
		/* comes back with -ECANCELED, and so here again */
		if (events != c->events)
			engine_cancel(&c->poll);
		return 0;
	}
	r = sd_bus_get_fd(c->bus);
	if (r < 0)
		return r;
	c->events = (short)events;
	sqe = engine_sqe();
	io_uring_prep_poll_add(sqe, r, (unsigned int)events);
	c->poll.fn = conn_polled;
	engine_submit(sqe, &c->poll);
	return 0;
}

/*
 * While answers wait to be written nothing is read: one who asks and does not listen costs us one answer's memory.
 * sd_bus_process() writes before it reads, and does not read in a turn in which it wrote.
 */
static void conn_step(struct work *w)
{
	struct bus_conn *c = container_of(w, struct bus_conn, work);
	uint64_t queued;
	int r = 1, events;

	for (int i = 0; i < BUS_BATCH && r > 0; i++) {
		r = sd_bus_process(c->bus, NULL);
		if (r < 0)
			goto dead;
		if (sd_bus_get_n_queued_write(c->bus, &queued) == 0 && queued > 0)
			break;
	}
	events = sd_bus_get_events(c->bus);
	if (events < 0)
		goto dead;
	if (events & POLLOUT)
		events = POLLOUT;
	else if (r > 0)
		work_queue(&c->work, conn_step);
	if (conn_wait(c, events) >= 0)
		return;
dead:
	conn_dead(c);
}

void bus_kick(sd_bus *b)
{
	for (struct bus_conn *c = bus.conns; c; c = c->next)
		if (c->bus == b)
			work_queue(&c->work, conn_step);
}

bool bus_on_system(void)
{
	return bus.named;
}

static int conn_add(sd_bus *b, const struct bus_caller *peer)
{
	struct bus_conn *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->bus = b;
	c->system = !peer;
	if (peer)
		c->peer = *peer;
	r = sd_bus_add_object_vtable(b, NULL, BUS_PATH, BUS_NAME, bus_vtable, c);
	if (r < 0) {
		free(c);
		return r;
	}
	c->next = bus.conns;
	bus.conns = c;
	work_queue(&c->work, conn_step);
	return 0;
}

/* ---- who asks ---- */

static int have_uid(sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	struct asking *a = userdata;
	struct bus_caller who = { .uid = UINT32_MAX };
	sd_bus_message *m = a->m;
	int r;

	a->slot = sd_bus_slot_unref(a->slot);
	a->m = NULL;
	if (!sd_bus_message_is_method_error(reply, NULL) && sd_bus_message_read(reply, "u", &who.uid) > 0)
		who.privileged = privileged(who.uid);
	r = bus_answer(m, &who);
	if (r < 0)
		sd_bus_reply_method_errno(m, r, NULL);
	bus_kick(sd_bus_message_get_bus(m));
	sd_bus_message_unref(m);
	return 1;
}

/* On the system bus the bus itself has to be asked who a caller is: without blocking. */
int bus_method(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct bus_conn *c = userdata;
	struct asking *a = c->asking;
	int r;

	if (!c->system)
		return bus_answer(m, &c->peer);
	while (a < c->asking + BUS_ASKING && a->m)
		a++;
	if (a == c->asking + BUS_ASKING)
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "Too many requests at once.");
	r = sd_bus_call_method_async(c->bus, &a->slot, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
				     "GetConnectionUnixUser", have_uid, a, "s", sd_bus_message_get_sender(m));
	if (r < 0)
		return r;
	a->m = sd_bus_message_ref(m);
	return 1;
}

/* ---- RUNDIR/bus.sock ---- */

static int peer_server(int fd, sd_bus **out)
{
	sd_bus *b = NULL;
	sd_id128_t id;
	int r = sd_id128_randomize(&id);

	if (r < 0)
		return r;
	r = sd_bus_new(&b);
	if (r < 0)
		return r;
	r = sd_bus_set_fd(b, fd, fd);
	if (r < 0)
		goto fail;
	/* the bus has the fd from here on */
	*out = b;
	if ((r = sd_bus_set_server(b, 1, id)) < 0 || (r = sd_bus_set_anonymous(b, 1)) < 0 ||
	    (r = sd_bus_negotiate_fds(b, 0)) < 0 || (r = sd_bus_start(b)) < 0)
		return r;
	return 0;
fail:
	sd_bus_unref(b);
	return r;
}

static bool room_for(const struct bus_caller *who)
{
	unsigned int all = 0, same = 0;

	for (struct bus_conn *c = bus.conns; c; c = c->next) {
		all++;
		same += !c->system && c->peer.uid == who->uid;
	}
	return who->privileged ? all < BUS_CONNS : all < BUS_CONNS - BUS_CONNS_KEPT && same < BUS_CONNS_USER;
}

static void client_came(int fd)
{
	struct bus_caller who;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	sd_bus *b = NULL;
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
		close(fd);
		return;
	}
	who.uid = cred.uid;
	who.privileged = privileged(cred.uid);
	if (!room_for(&who)) {
		log_warn("bus: too many connections, refusing pid %d of user %u", cred.pid, cred.uid);
		close(fd);
		return;
	}
	r = peer_server(fd, &b);
	if (!b)
		close(fd);
	if (r >= 0)
		r = conn_add(b, &who);
	if (r < 0) {
		log_info("bus: pid %d of user %u does not speak D-Bus: %s", cred.pid, cred.uid, strerror(-r));
		sd_bus_close(b);
		sd_bus_unref(b);
	}
}

static void accept_start(void);

static void accept_again(struct timer *t)
{
	accept_start();
}

static void accepted(struct op *op, int res, bool more)
{
	if (bus.stopping) {
		if (res >= 0)
			close(res);
		return;
	}
	if (res >= 0)
		client_came(res);
	if (more)
		return;
	if (res < 0 && res != -ECONNABORTED && res != -EINTR) {
		log_warn("bus: accept: %s", strerror(-res));
		timer_start(&bus.retry, 1000, accept_again);
	} else {
		accept_start();
	}
}

static void accept_start(void)
{
	struct io_uring_sqe *sqe = engine_sqe();

	io_uring_prep_multishot_accept(sqe, bus.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	bus.accept.fn = accepted;
	engine_submit(sqe, &bus.accept);
}

/* A fresh socket takes the place of a stale one in one step. */
static int listen_on(const char *rundir)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char path[sizeof(a.sun_path)];
	int fd, r;

	if (snprintf(path, sizeof(path), "%s/bus.sock", rundir) >= (int)sizeof(path) ||
	    snprintf(a.sun_path, sizeof(a.sun_path), "%s/bus.sock.new", rundir) >= (int)sizeof(a.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(a.sun_path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		goto fail;
	/* everybody may ask; what he is told depends on who he is */
	if (chmod(a.sun_path, 0666) < 0 || listen(fd, 64) < 0 || rename(a.sun_path, path) < 0) {
		r = -errno;
		unlink(a.sun_path);
		close(fd);
		return r;
	}
	return fd;
fail:
	r = -errno;
	close(fd);
	return r;
}

/* ---- the system bus, when there is one ---- */

static int named(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	uint32_t how;

	if (e)
		log_debug("bus: no name on the system bus: %s", e->message);
	else if (sd_bus_message_read(m, "u", &how) > 0)
		bus.named = how == 1 || how == 4;	/* primary owner, already owner */
	bus.redial_ms = REDIAL_MS;
	return 1;
}

static void system_bus(void)
{
	sd_bus *b = NULL;
	int r = sd_bus_open_system(&b);

	if (r < 0) {
		log_debug("bus: no system bus: %s", strerror(-r));
		system_later();
		return;
	}
	sd_bus_negotiate_fds(b, 0);
	r = sd_bus_request_name_async(b, NULL, BUS_NAME, 0, named, NULL);
	if (r >= 0)
		r = conn_add(b, NULL);
	if (r < 0) {
		log_debug("bus: system bus: %s", strerror(-r));
		sd_bus_unref(b);
		system_later();
	}
}

static void system_again(struct timer *t)
{
	system_bus();
}

static void system_later(void)
{
	if (bus.stopping)
		return;
	timer_start(&bus.redial, bus.redial_ms, system_again);
	bus.redial_ms = bus.redial_ms * 2 < REDIAL_MAX_MS ? bus.redial_ms * 2 : REDIAL_MAX_MS;
}

int bus_start(void)
{
	int fd = listen_on(conf.rundir);

	if (fd < 0) {
		log_err("bus: %s/bus.sock: %s", conf.rundir, strerror(-fd));
		return fd;
	}
	bus_started = engine_now_ms();
	bus.fd = fd;
	accept_start();
	system_bus();
	return 0;
}

void bus_stop(void)
{
	struct bus_conn *c, *next;
	char path[sizeof(conf.rundir) + 16];

	bus.stopping = true;
	timer_stop(&bus.retry);
	timer_stop(&bus.redial);
	for (c = bus.conns; c; c = next) {
		next = c->next;
		conn_dead(c);
	}
	if (bus.fd < 0)
		return;
	if (bus.accept.busy)
		engine_cancel(&bus.accept);
	snprintf(path, sizeof(path), "%s/bus.sock", conf.rundir);
	unlink(path);
	close(bus.fd);
	bus.fd = -1;
}
