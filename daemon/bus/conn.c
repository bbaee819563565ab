// SPDX-License-Identifier: MIT
/* A connection of the D-Bus interface, driven by the engine, and who asks on it. Never blocks. */
#include "conn.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/engine.h"
#include "iface.h"
#include "signals.h"

#define CONNS		64	/* clients at a time */
#define CONNS_KEPT	8	/* of these, for root and the daemon's user */
#define CONNS_USER	16	/* of these, of one user that is neither root nor ours */
#define ASKING		16	/* callers on the system bus whose user we are finding out */
#define BATCH		16	/* messages of one connection before the others have their turn */

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
	bool dead;
	void (*gone)(void);	/* of the system bus */
	struct bus_caller peer;	/* not for the system bus */
	struct asking asking[ASKING];	/* only for the system bus */
	struct bus_conn *next;
};

static struct bus_conn *conns;

static void conn_step(struct work *w);

bool bus_privileged(uint32_t uid)
{
	return uid == 0 || uid == geteuid();
}

static void conn_free(struct bus_conn *c)
{
	struct bus_conn **p = &conns;

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
	if (c->gone)
		c->gone();
	timer_stop(&c->timer);
	work_cancel(&c->work);
	/* slot and message each hold the bus */
	for (int i = 0; i < ASKING; i++) {
		sd_bus_slot_unref(c->asking[i].slot);
		sd_bus_message_unref(c->asking[i].m);
	}
	bus_signals_gone(c->bus);
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
	uint64_t until, now;
	int r = sd_bus_get_timeout(c->bus, &until);

	if (r < 0)
		return r;
	timer_stop(&c->timer);
	if (until != UINT64_MAX) {
		now = engine_clock_us();
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

	for (int i = 0; i < BATCH && r > 0; i++) {
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
	for (struct bus_conn *c = conns; c; c = c->next)
		if (c->bus == b)
			work_queue(&c->work, conn_step);
}

bool bus_conn_room(const struct bus_caller *who)
{
	unsigned int all = 0, same = 0;

	for (struct bus_conn *c = conns; c; c = c->next) {
		all++;
		same += !c->gone && c->peer.uid == who->uid;
	}
	return who->privileged ? all < CONNS : all < CONNS - CONNS_KEPT && same < CONNS_USER;
}

int bus_conn_add(sd_bus *b, const struct bus_caller *peer, void (*gone)(void))
{
	struct bus_conn *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->bus = b;
	c->gone = gone;
	if (peer)
		c->peer = *peer;
	r = sd_bus_add_object_vtable(b, NULL, BUS_PATH, BUS_NAME, bus_vtable, c);
	if (r < 0) {
		free(c);
		return r;
	}
	c->next = conns;
	conns = c;
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
		who.privileged = bus_privileged(who.uid);
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

	if (!c->gone)
		return bus_answer(m, &c->peer);
	while (a < c->asking + ASKING && a->m)
		a++;
	if (a == c->asking + ASKING)
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "Too many requests at once.");
	r = sd_bus_call_method_async(c->bus, &a->slot, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
				     "GetConnectionUnixUser", have_uid, a, "s", sd_bus_message_get_sender(m));
	if (r < 0)
		return r;
	a->m = sd_bus_message_ref(m);
	return 1;
}

void bus_conns_drop(void)
{
	struct bus_conn *c, *next;

	for (c = conns; c; c = next) {
		next = c->next;
		conn_dead(c);
	}
}
