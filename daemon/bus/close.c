// SPDX-License-Identifier: MIT
/*
 * Close and CloseIdle of org.iwsock.Daemon1: an administrator, or a user for his own, ends streams (SEC-U07). The streams are found
 * in one go and ended in batches, with other work in between; the answer has a row for each.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "daemon/stream/stream.h"
#include "close.h"
#include "rows.h"

#define REQUESTS	16u	/* under way */
#define IDS		65536u	/* of one request */
#define BATCH		32

struct closing {
	sd_bus_message *call, *reply;
	struct bus_caller who;
	struct work work;
	uint64_t *ids;
	size_t n, cap, next;
	int64_t uid;		/* CloseIdle: whose, -1 everybody's */
	uint64_t idle_ms;
	bool by_id;
	unsigned int closed;
	int err;		/* the first error */
};

static unsigned int requests;

static void add(struct closing *c, uint64_t id)
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

static bool may_close(const struct closing *c, const struct stream_info *i)
{
	return c->who.privileged || c->who.uid == i->uid;
}

/* Streams that have only begun, or that nobody but their two programs has in hand, are not idle ones. */
static bool idle(const struct closing *c, const struct stream_info *i)
{
	uint64_t now = engine_now_ms();

	if (i->state == STREAM_OFFERED || i->state == STREAM_STARTING || i->state == STREAM_LOCAL || i->state == STREAM_DEAD)
		return false;
	return may_close(c, i) && (c->uid < 0 || c->uid == i->uid) && now >= i->active_ms && now - i->active_ms >= c->idle_ms;
}

static void find_idle(void *arg, const struct stream_info *i)
{
	if (idle(arg, i))
		add(arg, i->id);
}

/* ---- ending them ---- */

static const char *why_not(int err)
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

static void close_one(struct closing *c, uint64_t id)
{
	struct bus_out o = { .m = c->reply };
	struct stream_info i = { 0 };
	bool there = stream_look(id, &i) && may_close(c, &i);	/* of others' nobody learns that they exist */
	char text[20];
	int ret;

	if (!c->by_id && (!there || !idle(c, &i)))
		return;		/* it ended, or woke up */
	ret = there ? stream_close(id) : -ENOENT;
	c->closed += !ret;
	o.r = sd_bus_message_open_container(c->reply, 'a', "{sv}");
	if (there) {
		bus_put_stream(&o, &i);
	} else {
		snprintf(text, sizeof(text), "%" PRIx64, id);
		put(&o, "id", "s", text);
	}
	put(&o, "closed", "b", (int)!ret);
	put(&o, "why", "s", why_not(ret));
	if (o.r >= 0)
		o.r = sd_bus_message_close_container(c->reply);
	c->err = o.r;
}

static void answer(struct closing *c)
{
	if (c->err >= 0)
		c->err = sd_bus_message_close_container(c->reply);
	if (c->err >= 0)
		c->err = sd_bus_message_send(c->reply);
	if (c->err < 0)
		sd_bus_reply_method_errno(c->call, c->err, NULL);
	bus_kick(sd_bus_message_get_bus(c->call));
	if (c->closed)
		log_about(LOG_INFO, &(struct log_about){ .id = LOG_ID_CLOSED }, "user %u closed %u streams", c->who.uid, c->closed);
	sd_bus_message_unref(c->reply);
	sd_bus_message_unref(c->call);
	free(c->ids);
	free(c);
	requests--;
}

static void step(struct work *w)
{
	struct closing *c = container_of(w, struct closing, work);

	for (int i = 0; i < BATCH && c->next < c->n && c->err >= 0; i++)
		close_one(c, c->ids[c->next++]);
	if (c->next < c->n && c->err >= 0)
		work_queue(&c->work, step);
	else
		answer(c);
}

/* ---- what was asked ---- */

/* The answer is an error and was sent, if one was wanted. */
#define REFUSE(m, ...) (sd_bus_reply_method_errorf(m, __VA_ARGS__), -ECANCELED)

static int read_ids(sd_bus_message *m, struct closing *c)
{
	const char *s;
	int r = sd_bus_message_enter_container(m, 'a', "s");

	while (r >= 0 && (r = sd_bus_message_read_basic(m, 's', &s)) > 0) {
		char *end;
		uint64_t id;

		errno = 0;
		id = strtoull(s, &end, 16);
		if (!*s || !strchr("0123456789abcdefABCDEF", *s) || *end || errno)
			return REFUSE(m, SD_BUS_ERROR_INVALID_ARGS, "\"%s\" is not the id of a stream", s);
		if (c->n == IDS)
			return REFUSE(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "at most %u streams at a time", IDS);
		add(c, id);
	}
	c->by_id = true;
	return r < 0 ? r : 0;
}

static int read_idle(sd_bus_message *m, struct closing *c)
{
	int r = sd_bus_message_read(m, "tx", &c->idle_ms, &c->uid);

	if (r < 0)
		return r;
	if (!c->who.privileged && c->uid >= 0 && c->uid != c->who.uid)
		return REFUSE(m, SD_BUS_ERROR_ACCESS_DENIED, "streams of user %" PRId64 " are closed by him, by root or by the daemon's user", c->uid);
	stream_foreach(find_idle, c);
	return 0;
}

int bus_close(sd_bus_message *m, const struct bus_caller *who)
{
	struct closing *c;
	int r;

	if (requests >= REQUESTS)
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "%u requests to close streams are under way; try again", requests);
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->who = *who;
	r = !strcmp(sd_bus_message_get_member(m), "Close") ? read_ids(m, c) : read_idle(m, c);
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
