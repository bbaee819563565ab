// SPDX-License-Identifier: MIT
/*
 * What org.iwsock.Daemon1 changes, for an administrator, or for a user of his own: Close and CloseIdle end streams (SEC-U07), Upgrade and
 * Downgrade ask for one or for plain TCP. What is meant is found in one go and done in batches, with other work in between; the answer has a
 * row for each.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "daemon/cm/cm.h"
#include "daemon/stream/stream.h"
#include "change.h"
#include "rows.h"

#define REQUESTS	16u	/* under way */
#define IDS		65536u	/* of one request */
#define BATCH		32

struct changing;

struct method {
	const char *name;
	int (*read)(sd_bus_message *m, struct changing *c);
	void (*one)(struct changing *c, uint64_t id);
};

struct changing {
	const struct method *method;
	sd_bus_message *call, *reply;
	struct bus_caller who;
	struct work work;
	uint64_t *ids;
	size_t n, cap, next;
	int64_t uid;		/* CloseIdle: whose, -1 everybody's */
	uint64_t idle_ms;
	bool by_id;
	unsigned int changed;
	int err;		/* the first error */
};

static unsigned int requests;

static void add(struct changing *c, uint64_t id)
{
	if (c->n == c->cap && c->err >= 0) {
		size_t cap = c->cap ? c->cap * 2 : 64;
		uint64_t *ids = realloc(c->ids, cap * sizeof(*ids));

		if (ids) {
			c->ids = ids;
			c->cap = cap;
		} else {
			c->err = -ENOMEM;
		}
	}
	if (c->err >= 0)
		c->ids[c->n++] = id;
}

static bool may(const struct changing *c, uint32_t uid)
{
	return c->who.privileged || c->who.uid == uid;
}

/* Streams that have only begun, or that nobody but their two programs has in hand, are not idle ones. */
static bool idle(const struct changing *c, const struct stream_info *i)
{
	uint64_t now = engine_now_ms();

	if (i->state == STREAM_GRANTED || i->state == STREAM_STARTING || i->state == STREAM_LOCAL || i->state == STREAM_DEAD)
		return false;
	return may(c, i->uid) && (c->uid < 0 || c->uid == i->uid) && now >= i->active_ms && now - i->active_ms >= c->idle_ms;
}

static void find_idle(void *arg, const struct stream_info *i)
{
	if (idle(arg, i))
		add(arg, i->id);
}

/* ---- ending them ---- */

static const char *why_not_closed(int err)
{
	switch (-err) {
	case 0:
		return "";
	case EBUSY:
		return "it is being set up";
	case EOPNOTSUPP:
		return "it joins two programs of this host, and the daemon is not in its way: end one of them";
	default:
		return "there is no such stream";
	}
}

static void row_begin(struct changing *c, struct bus_out *o)
{
	o->m = c->reply;
	o->r = sd_bus_message_open_container(c->reply, 'a', "{sv}");
}

static void row_end(struct changing *c, struct bus_out *o)
{
	if (o->r >= 0)
		o->r = sd_bus_message_close_container(c->reply);
	c->err = o->r;
}

static void close_one(struct changing *c, uint64_t id)
{
	struct stream_info i = { 0 };
	bool there = stream_look(id, &i) && may(c, i.uid);
	struct bus_out o;
	int ret;

	if (!c->by_id && (!there || !idle(c, &i)))
		return;		/* it ended, or woke up */
	ret = there ? stream_close(id) : -ENOENT;
	c->changed += !ret;
	row_begin(c, &o);
	if (there)
		bus_put_stream(&o, &i);
	else
		put_id(&o, id);	/* of others' nobody learns that they exist */
	put(&o, "closed", "b", (int)!ret);
	put(&o, "why", "s", why_not_closed(ret));
	row_end(c, &o);
}

/* ---- asking for an upgrade, or for plain TCP ---- */

static const char *why_not_asked(int err, bool up, const struct plain_info *i)
{
	switch (-err) {
	case 0:
		return "";
	case EALREADY:
		return up ? "it is upgraded" : "it is plain TCP, and stays so";
	case EBUSY:
		return "it is being switched at this moment; try again";
	case EOPNOTSUPP:
		return up ? iw_reason_sentence(i->reason) : "what it is now cannot be undone: its octets are framed on the wire, or its two ends joined";
	default:
		return "there is no such connection, or it was not proposed";
	}
}

static void ask_one(struct changing *c, uint64_t id, bool up)
{
	struct plain_info i = { 0 };
	struct stream_info st;
	struct bus_out o;
	bool there = plain_look(id, &i) && may(c, i.uid);
	int ret = !there ? -ENOENT : up ? cm_upgrade(id) : cm_downgrade(id);

	c->changed += !ret;
	if (there)
		plain_look(id, &i);	/* as it is now */
	row_begin(c, &o);
	if (!there)
		put_id(&o, id);
	else if (i.stream_id && stream_look(i.stream_id, &st))
		bus_put_stream(&o, &st);
	else
		bus_put_plain(&o, &i);
	put(&o, "asked", "b", (int)!ret);
	put(&o, "why", "s", why_not_asked(ret, up, &i));
	row_end(c, &o);
}

static void upgrade_one(struct changing *c, uint64_t id)
{
	ask_one(c, id, true);
}

static void downgrade_one(struct changing *c, uint64_t id)
{
	ask_one(c, id, false);
}

/* ---- the answer ---- */

static void answer(struct changing *c)
{
	if (c->err >= 0)
		c->err = sd_bus_message_close_container(c->reply);
	if (c->err >= 0)
		c->err = sd_bus_message_send(c->reply);
	if (c->err < 0)
		sd_bus_reply_method_errno(c->call, c->err, NULL);
	bus_kick(sd_bus_message_get_bus(c->call));
	if (c->changed && c->method->one == close_one)
		log_about(LOG_INFO, &(struct log_about){ .id = LOG_ID_CLOSED }, "user %u closed %u streams", c->who.uid, c->changed);
	sd_bus_message_unref(c->reply);
	sd_bus_message_unref(c->call);
	free(c->ids);
	free(c);
	requests--;
}

static void step(struct work *w)
{
	struct changing *c = container_of(w, struct changing, work);

	for (int i = 0; i < BATCH && c->next < c->n && c->err >= 0; i++)
		c->method->one(c, c->ids[c->next++]);
	if (c->next < c->n && c->err >= 0)
		work_queue(&c->work, step);
	else
		answer(c);
}

/* ---- what was asked ---- */

/* The answer is an error and was sent, if one was wanted. */
#define REFUSE(m, ...) (sd_bus_reply_method_errorf(m, __VA_ARGS__), -ECANCELED)

static int read_ids(sd_bus_message *m, struct changing *c)
{
	const char *s;
	int r = sd_bus_message_enter_container(m, 'a', "s");

	while (r >= 0 && (r = sd_bus_message_read_basic(m, 's', &s)) > 0) {
		char *end;
		uint64_t id;

		errno = 0;
		id = strtoull(s, &end, 16);
		if (!*s || !strchr("0123456789abcdefABCDEF", *s) || *end || errno)
			return REFUSE(m, SD_BUS_ERROR_INVALID_ARGS, "\"%s\" is not the id of a connection", s);
		if (c->n == IDS)
			return REFUSE(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "at most %u connections at a time", IDS);
		add(c, id);
	}
	c->by_id = true;
	return r < 0 ? r : 0;
}

static int read_idle(sd_bus_message *m, struct changing *c)
{
	int r = sd_bus_message_read(m, "tx", &c->idle_ms, &c->uid);

	if (r < 0)
		return r;
	if (!c->who.privileged && c->uid >= 0 && c->uid != c->who.uid)
		return REFUSE(m, SD_BUS_ERROR_ACCESS_DENIED, "streams of user %" PRId64 " are closed by him, by root or by the daemon's user", c->uid);
	stream_foreach(find_idle, c);
	return 0;
}

static const struct method methods[] = {
	{ "Close", read_ids, close_one },
	{ "CloseIdle", read_idle, close_one },
	{ "Upgrade", read_ids, upgrade_one },
	{ "Downgrade", read_ids, downgrade_one },
};

int bus_change(sd_bus_message *m, const struct bus_caller *who)
{
	const struct method *method = methods;
	struct changing *c;
	int r;

	while (strcmp(method->name, sd_bus_message_get_member(m)))
		if (++method == methods + sizeof(methods) / sizeof(*methods))
			return -ENOSYS;
	if (requests >= REQUESTS)
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "%u requests to change something are under way; try again", requests);
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->who = *who;
	c->method = method;
	r = method->read(m, c);
	if (r >= 0)
		r = c->err;
	if (r >= 0)
		r = sd_bus_message_new_method_return(m, &c->reply);
	if (r >= 0)
		r = sd_bus_message_open_container(c->reply, 'a', "a{sv}");
	if (r < 0) {
		sd_bus_message_unref(c->reply);
		free(c->ids);
		free(c);
		return r == -ECANCELED ? 1 : r;
	}
	requests++;
	c->call = sd_bus_message_ref(m);
	work_queue(&c->work, step);
	return 1;
}
