// SPDX-License-Identifier: MIT
/*
 * Signals of org.iwsock.Daemon1. A signal on the system bus goes to everybody, and who has which connection is no matter of others: so each goes
 * to one subscriber, who is known as those are who ask. Without subscribers nobody is called (the watches are NULL). Who is told too much in a
 * second, or does not read, is told how many were left out instead.
 */
#include "signals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/engine.h"
#include "daemon/cm/cm.h"
#include "daemon/net/peers.h"
#include "daemon/stream/stream.h"
#include "iface.h"
#include "rows.h"

#define RATE		100u	/* signals to one subscriber in */
#define WINDOW_MS	1000u
#define QUEUED		256u	/* messages on its connection that it has not read */
#define SUBSCRIBERS	64u	/* on the system bus; on bus.sock there is one for each connection */
#define KEPT		8u	/* of these, for root and the daemon's user */
#define OF_USER		16u	/* of these, of one user that is neither root nor ours */

struct subscriber {
	sd_bus *bus;
	char *name;		/* on the system bus */
	struct bus_caller who;
	sd_bus_slot *match, *asking;	/* until its name is gone; whether it is there */
	sd_bus_message *call;	/* Subscribe, while that is asked */
	unsigned int sent;	/* since the window began */
	uint64_t missed;
	struct subscriber *next;
};

static struct subscriber *all;
static unsigned int count;
static uint64_t missed;
static struct timer window;

unsigned int bus_subscribers(void)
{
	return count;
}

uint64_t bus_signals_missed(void)
{
	return missed;
}

/* ---- telling ---- */

typedef void (*fill_fn)(struct bus_out *o, const void *what);

static int send_to(struct subscriber *s, const char *signal, fill_fn fill, const void *what)
{
	struct bus_out o = { 0 };

	o.r = sd_bus_message_new_signal(s->bus, &o.m, BUS_PATH, BUS_NAME, signal);
	if (o.r >= 0 && s->name)
		o.r = sd_bus_message_set_destination(o.m, s->name);
	if (o.r >= 0)
		o.r = sd_bus_message_open_container(o.m, 'a', "{sv}");
	fill(&o, what);
	if (o.r >= 0)
		o.r = sd_bus_message_close_container(o.m);
	if (o.r >= 0)
		o.r = sd_bus_send(s->bus, o.m, NULL);
	sd_bus_message_unref(o.m);
	bus_kick(s->bus);
	return o.r;
}

static bool reads(const struct subscriber *s)
{
	uint64_t queued = 0;

	return sd_bus_get_n_queued_write(s->bus, &queued) >= 0 && queued < QUEUED;
}

static void put_missed(struct bus_out *o, const void *what)
{
	put(o, "missed", "t", *(const uint64_t *)what);
}

/* What was left out is said before anything that came later. */
static bool up_to_date(struct subscriber *s)
{
	if (!reads(s))
		return false;
	if (s->missed && send_to(s, "Missed", put_missed, &s->missed) >= 0)
		s->missed = 0;
	return !s->missed;
}

static void window_ends(struct timer *t)
{
	bool again = false;

	for (struct subscriber *s = all; s; s = s->next) {
		s->sent = 0;
		again |= !up_to_date(s);
	}
	if (again)
		timer_start(&window, WINDOW_MS, window_ends);
}

static void tell(struct subscriber *s, const char *signal, fill_fn fill, const void *what)
{
	if (s->call)		/* not before it was answered */
		return;
	if (!window.due)
		timer_start(&window, WINDOW_MS, window_ends);
	if (s->sent < RATE && up_to_date(s) && send_to(s, signal, fill, what) >= 0) {
		s->sent++;
		return;
	}
	s->missed++;
	missed++;
}

#define EVERYBODY (-1)

/* uid: whose it is. */
static void tell_all(const char *signal, int64_t uid, fill_fn fill, const void *what)
{
	for (struct subscriber *s = all; s; s = s->next)
		if (uid == EVERYBODY || s->who.privileged || s->who.uid == uid)
			tell(s, signal, fill, what);
}

/* ---- what is told ---- */

struct peer_change { const struct peer *peer; enum iw_peer_state from; };

static void put_peer_change(struct bus_out *o, const void *what)
{
	const struct peer_change *c = what;

	put_ip(o, "address", c->peer->ip);
	put(o, "old_state", "s", bus_peer_state(c->from));
	put(o, "state", "s", bus_peer_state(c->peer->state));
	put_reason(o, c->peer->reason);
}

static void peer_changed(const struct peer *p, enum iw_peer_state from)
{
	tell_all("PeerChanged", EVERYBODY, put_peer_change, &(struct peer_change){ p, from });
}

static void put_stream(struct bus_out *o, const void *what)
{
	bus_put_stream(o, what);
}

static void upgraded(uint64_t id, unsigned int end)
{
	struct stream_info i;

	if (stream_look_end(id, end, &i))
		tell_all("StreamUpgraded", i.uid, put_stream, &i);
}

static void put_plain(struct bus_out *o, const void *what)
{
	bus_put_plain(o, what);
}

static void fallback(const struct plain_info *i)
{
	tell_all("Fallback", i->uid, put_plain, i);
}

static void put_end(struct bus_out *o, const void *what)
{
	bus_put_ended(o, what);
}

static void stream_over(const struct stream_ended *e)
{
	tell_all("StreamEnded", e->info.uid, put_end, e);
}

static const struct cm_watch watch = { upgraded, fallback };

static void watches(void)
{
	cm_watch = all ? &watch : NULL;
	peers_watch = all ? peer_changed : NULL;
	stream_ended_watch = all ? stream_over : NULL;
	if (!all)
		timer_stop(&window);
}

/* ---- who is told ---- */

static struct subscriber *find(sd_bus *bus, const char *name)
{
	struct subscriber *s = all;

	while (s && (s->bus != bus || (name && strcmp(s->name, name))))
		s = s->next;
	return s;
}

static void drop(struct subscriber *s)
{
	struct subscriber **p = &all;

	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	count--;
	sd_bus_slot_unref(s->match);
	sd_bus_slot_unref(s->asking);
	sd_bus_message_unref(s->call);
	free(s->name);
	free(s);
	watches();
}

void bus_signals_gone(sd_bus *bus)
{
	struct subscriber *s;

	while ((s = find(bus, NULL)))
		drop(s);
}

static bool room(const struct bus_caller *who)
{
	unsigned int named = 0, same = 0;

	for (const struct subscriber *s = all; s; s = s->next) {
		named += s->name != NULL;
		same += s->name && s->who.uid == who->uid;
	}
	return who->privileged ? named < SUBSCRIBERS : named < SUBSCRIBERS - KEPT && same < OF_USER;
}

static int name_changed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *name, *before, *after;

	if (sd_bus_message_read(m, "sss", &name, &before, &after) > 0 && !*after)
		drop(userdata);
	return 0;
}

static int have_name(sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	struct subscriber *s = userdata;
	sd_bus *bus = s->bus;
	int there = 0;

	if (sd_bus_message_is_method_error(reply, NULL) || sd_bus_message_read(reply, "b", &there) <= 0 || !there) {
		drop(s);
		return 1;
	}
	sd_bus_reply_method_return(s->call, NULL);
	s->call = sd_bus_message_unref(s->call);
	s->asking = sd_bus_slot_unref(s->asking);
	bus_kick(bus);
	return 1;
}

/* Asked when the bus knows what to tell us: who is there then does not leave unnoticed. */
static int look_after(struct subscriber *s)
{
	char rule[256];
	int r;

	if (snprintf(rule, sizeof(rule), "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',interface='org.freedesktop.DBus',"
		     "member='NameOwnerChanged',arg0='%s'", s->name) >= (int)sizeof(rule))
		return -EINVAL;
	r = sd_bus_add_match_async(s->bus, &s->match, rule, name_changed, NULL, s);
	if (r < 0)
		return r;
	return sd_bus_call_method_async(s->bus, &s->asking, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameHasOwner",
					have_name, s, "s", s->name);
}

/* One that came over the system bus is answered when its name is looked after. */
static int subscribe(sd_bus_message *m, const struct bus_caller *who, const char *name)
{
	struct subscriber *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return -ENOMEM;
	*s = (struct subscriber){ .bus = sd_bus_message_get_bus(m), .who = *who, .next = all };
	all = s;
	count++;
	if (name) {
		s->call = sd_bus_message_ref(m);
		s->name = strdup(name);
		r = s->name ? look_after(s) : -ENOMEM;
	}
	watches();
	if (r < 0)
		drop(s);
	return r < 0 || name ? r : sd_bus_reply_method_return(m, NULL);
}

int bus_subscription(sd_bus_message *m, const struct bus_caller *who)
{
	bool on = !strcmp(sd_bus_message_get_member(m), "Subscribe");
	sd_bus *bus = sd_bus_message_get_bus(m);
	const char *name = sd_bus_is_bus_client(bus) > 0 ? sd_bus_message_get_sender(m) : NULL;
	struct subscriber *s;

	if (!on && strcmp(sd_bus_message_get_member(m), "Unsubscribe"))
		return -ENOSYS;
	s = find(bus, name);
	if (!on && s)
		drop(s);
	if (!on || s)
		return sd_bus_reply_method_return(m, NULL);
	if (name && !room(who))
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "too many subscribers");
	return subscribe(m, who, name);
}
