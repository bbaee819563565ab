// SPDX-License-Identifier: MIT
/*
 * Lists of org.iwsock.Daemon1: streams, those that have ended, plain connections, peers, STags, devices. What is to be told is copied in one go and
 * then turned into a message in batches, so that 10,000 streams do not hold up the data path. Keys are an interface: iwctl
 * --json hands them on as they are, so they are only ever added to.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cm/cm.h"
#include "daemon/base/engine.h"
#include "daemon/rnic/devices.h"
#include "daemon/rnic/rnic.h"
#include "daemon/session/session.h"
#include "daemon/stream/stream.h"
#include "rows.h"

#define LISTS	64	/* asked for; they are told one after the other, so that only one takes memory */
#define BATCH	64	/* rows before the data path has its turn */

/* One of several kinds of rows: how to copy it, how to tell it. */
struct listing {
	sd_bus_message *call, *reply;
	struct bus_caller who;
	struct listing *next_list;
	const struct listing_kind *kind;
	char *rows;
	size_t n, cap, next;
	int err;		/* the first error */
};

struct listing_kind {
	const char *method;
	size_t size;
	void (*collect)(struct listing *l);
	void (*tell)(struct bus_out *o, const void *row);
};

static struct listing *first, **last = &first;
static unsigned int lists;
static struct work turn;

static void lists_step(struct work *w);

static void add(struct listing *l, const void *row)
{
	size_t size = l->kind->size;

	if (l->err < 0)
		return;
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		char *rows = realloc(l->rows, cap * size);

		if (!rows) {
			l->err = -ENOMEM;
			return;
		}
		l->rows = rows;
		l->cap = cap;
	}
	memcpy(l->rows + l->n++ * size, row, size);
}

/* Who has which connection is shown to its own user, to root and to the daemon's user. */
static bool may_see(const struct listing *l, uint32_t uid)
{
	return l->who.privileged || l->who.uid == uid;
}

static const char *state_name(enum stream_state s)
{
	static const char *const names[] = {
		[STREAM_GRANTED] = "granted", [STREAM_STARTING] = "starting",
		[STREAM_RUNNING] = "running", [STREAM_LOCAL] = "running", [STREAM_RELAY] = "relay",
		[STREAM_CLOSING] = "closing", [STREAM_DEAD] = "dead",
	};

	return (unsigned int)s < sizeof(names) / sizeof(*names) && names[s] ? names[s] : "unknown";
}

static const char *transport_name(const struct stream_info *i)
{
	if (i->reason != IW_REASON_ACCELERATED || i->state == STREAM_RELAY)
		return "tcp";
	if (i->state == STREAM_GRANTED)
		return "pending";
	return i->state == STREAM_LOCAL ? "local" : "iwarp";
}

void bus_put_counts(struct bus_out *o, const struct endpoint_stat *s)
{
	put(o, "tx_sends", "t", s->tx_send);
	put(o, "rx_sends", "t", s->rx_send);
	put(o, "tx_writes", "t", s->tx_write);
	put(o, "rx_writes", "t", s->rx_write);
	put(o, "tx_immediates", "t", s->tx_imm);
	put(o, "rx_immediates", "t", s->rx_imm);
	put(o, "tx_reads", "t", s->tx_read);
	put(o, "rx_reads", "t", s->rx_read);
	put(o, "tx_read_responses", "t", s->tx_rresp);
	put(o, "rx_read_responses", "t", s->rx_rresp);
	put(o, "tx_atomics", "t", s->tx_atomic);
	put(o, "rx_atomics", "t", s->rx_atomic);
	put(o, "tx_fpdus", "t", s->tx_fpdu);
	put(o, "rx_fpdus", "t", s->rx_fpdu);
	put(o, "tx_wire_bytes", "t", s->tx_octets);
	put(o, "rx_wire_bytes", "t", s->rx_octets);
	put(o, "tx_write_bytes", "t", s->tx_write_octets);
	put(o, "rx_write_bytes", "t", s->rx_write_octets);
	put(o, "tx_read_bytes", "t", s->tx_read_octets);
	put(o, "rx_read_bytes", "t", s->rx_read_octets);
	put(o, "rx_zero_tagged", "t", s->rx_zero_tagged);	/* slow paths (SEC-U08) */
	put(o, "rx_tiny", "t", s->rx_tiny);
}

static uint64_t since(uint64_t ms)
{
	uint64_t now = engine_now_ms();

	return now > ms ? now - ms : 0;
}

/* Of a connection that was proposed: when, and what it had carried by then; what the other end says. */
static void put_past(struct bus_out *o, const struct plain_info *i)
{
	if (!i->id)
		return;
	put(o, "since_proposal_ms", "t", since(i->proposed_ms));
	put(o, "proposed_octets", "t", i->octets);
	put(o, "proposed_calls", "u", i->calls);
	put(o, "went_back", "u", i->backs);
	if (i->reason != IW_REASON_OTHER_END)
		return;
	put(o, "their_reason", "s", iw_reason_name(i->theirs));
	put(o, "their_reason_number", "u", i->theirs);
}

/* Of a stream: when it became what it is, and after how many octets since the connection began. */
static void put_upgrade(struct bus_out *o, const struct stream_info *i)
{
	if (i->upgraded_ms) {
		put(o, "since_upgrade_ms", "t", since(i->upgraded_ms));
		put(o, "upgraded_at_tx", "t", i->upgraded_tx);
		put(o, "upgraded_at_rx", "t", i->upgraded_rx);
	}
	if (i->congestion[0]) {
		put(o, "congestion", "s", i->congestion);
		put(o, "congestion_told", "s", i->congestion_told);
	}
	put(o, "attempts", "u", i->attempts);
	if (i->failed)
		put(o, "attempt_failed", "s", i->failed);
}

static void put_stream(struct bus_out *o, const struct stream_info *i, const struct plain_info *before)
{
	bool relayed = i->state == STREAM_GRANTED || i->state == STREAM_RELAY;

	put_id(o, i->id);
	put(o, "transport", "s", transport_name(i));
	put(o, "state", "s", state_name(i->state));
	put(o, "path", "s", i->path);
	if (i->device)
		put(o, "device", "s", i->device);
	put(o, "side", "s", i->client ? "client" : "server");
	put(o, "pid", "u", (uint32_t)i->pid);
	put(o, "uid", "u", i->uid);
	put(o, "fd", "i", i->fd);
	put_program(o, "program", i->program);
	put_addr(o, "local", &i->tuple.local);
	put_addr(o, "peer", &i->tuple.peer);
	put_reason(o, relayed && before->id ? before->reason : i->reason);
	put(o, "age_ms", "t", since(i->since_ms));
	put_past(o, before);
	put_upgrade(o, i);
	if (i->state == STREAM_LOCAL)	/* the daemon is not in the way of its data, so it does not know */
		return;
	put(o, "idle_ms", "t", since(i->active_ms));
	put(o, "tx_bytes", "t", i->tx_bytes);
	put(o, "rx_bytes", "t", i->rx_bytes);
	bus_put_counts(o, &i->stat);
}

/* A copy of what may be gone when the batch comes: before.client is. */
struct stream_row {
	struct stream_info stream;
	struct plain_info before;
};

static void fill_stream(struct stream_row *row, const struct stream_info *i)
{
	row->stream = *i;
	row->before.id = 0;
	plain_before(i->id, &i->tuple, &row->before);
}

void bus_put_stream(struct bus_out *o, const struct stream_info *i)
{
	struct stream_row row;

	fill_stream(&row, i);
	put_stream(o, &row.stream, &row.before);
}

static void put_stream_row(struct bus_out *o, const void *row)
{
	const struct stream_row *r = row;

	put_stream(o, &r->stream, &r->before);
}

/* What is told of one that has ended is what it was by then. */
void bus_put_ended(struct bus_out *o, const struct stream_ended *e)
{
	const struct stream_info *i = &e->info;

	put_id(o, i->id);
	put(o, "how", "s", e->how);
	if (e->error) {
		put(o, "error", "s", strerror(e->error));
		put(o, "error_number", "u", (uint32_t)e->error);
	}
	put(o, "since_end_ms", "t", since(e->ended_ms));
	put(o, "duration_ms", "t", e->ended_ms - i->since_ms);
	put(o, "transport", "s", e->local ? "local" : e->remote ? "iwarp" : "tcp");
	put(o, "side", "s", i->client ? "client" : "server");
	put(o, "pid", "u", (uint32_t)i->pid);
	put(o, "uid", "u", i->uid);
	put(o, "fd", "i", i->fd);
	put_program(o, "program", i->program);
	put_addr(o, "local", &i->tuple.local);
	put_addr(o, "peer", &i->tuple.peer);
	put_reason(o, i->reason);
	if (e->local)
		return;
	put(o, "tx_bytes", "t", i->tx_bytes);
	put(o, "rx_bytes", "t", i->rx_bytes);
	bus_put_counts(o, &i->stat);
}

static void put_ended(struct bus_out *o, const void *row)
{
	bus_put_ended(o, row);
}

/* The same. */
struct plain_row {
	struct plain_info info;
	pid_t pid;
	char program[64];
};

static void fill_plain(struct plain_row *row, const struct plain_info *i)
{
	row->info = *i;
	row->pid = i->client ? i->client->pid : 0;
	snprintf(row->program, sizeof(row->program), "%s", i->client ? i->client->program : "");
}

static void put_plain_row(struct bus_out *o, const void *row)
{
	const struct plain_row *r = row;
	const struct plain_info *i = &r->info;

	if (i->id)
		put_id(o, i->id);
	put(o, "transport", "s", "tcp");
	put(o, "state", "s", "plain");
	put(o, "side", "s", i->is_client ? "client" : "server");
	put(o, "pid", "u", (uint32_t)r->pid);
	put(o, "uid", "u", i->uid);
	put(o, "fd", "i", i->fd);
	put_program(o, "program", r->program);
	put_addr(o, "local", &i->tuple.local);
	put_addr(o, "peer", &i->tuple.peer);
	put_reason(o, i->reason);
	put_past(o, i);
}

void bus_put_plain(struct bus_out *o, const struct plain_info *i)
{
	struct plain_row row;

	fill_plain(&row, i);
	put_plain_row(o, &row);
}

const char *bus_peer_state(unsigned int state)
{
	static const char *const states[] = { "unknown", "iwarp", "plain", "local" };

	return state <= IW_PEER_LOCAL ? states[state] : "unknown";
}

static void put_peer(struct bus_out *o, const void *row)
{
	const struct peer_info *i = row;
	uint64_t now = engine_now_ms();

	put_ip(o, "address", i->ip);
	put(o, "state", "s", bus_peer_state(i->state));
	put_reason(o, i->reason);
	put(o, "session_in", "b", (int)i->in);
	put(o, "session_out", "b", (int)i->out);
	put(o, "streams", "u", i->streams);
	if (i->expires_ms)
		put(o, "expires_in_ms", "t", i->expires_ms > now ? i->expires_ms - now : 0);
}

static void put_stag(struct bus_out *o, const void *row)
{
	static const struct { unsigned int bit; const char *name; } rights[] = {
		{ IW_ACCESS_LOCAL_READ, "local-read" }, { IW_ACCESS_LOCAL_WRITE, "local-write" },
		{ IW_ACCESS_REMOTE_READ, "remote-read" }, { IW_ACCESS_REMOTE_WRITE, "remote-write" },
		{ IW_ACCESS_REMOTE_ATOMIC, "remote-atomic" }, { IW_ACCESS_READ_SINK, "read-sink" },
	};
	const struct rnic_mr_info *i = row;
	char s[128] = "";

	snprintf(s, sizeof(s), "0x%08" PRIx32, i->stag);
	put(o, "stag", "s", s);
	snprintf(s, sizeof(s), "0x%" PRIx64, i->to);
	put(o, "to", "s", s);
	put(o, "uid", "u", i->uid);
	put(o, "length", "t", i->len);
	s[0] = 0;
	for (size_t k = 0; k < sizeof(rights) / sizeof(*rights); k++) {
		if (!(i->access & rights[k].bit))
			continue;
		if (s[0])
			strcat(s, ",");
		strcat(s, rights[k].name);
	}
	put(o, "access", "s", s);
	snprintf(s, sizeof(s), "%" PRIx64, i->stream_id);
	put(o, "stream", "s", s);
}

static void put_device(struct bus_out *o, const void *row)
{
	const struct device_info *i = row;

	put(o, "device", "s", i->name);
	put(o, "streams", "u", i->streams);
	put(o, "carried", "t", i->carried);
	bus_put_counts(o, &i->stat);
}

/* ---- copies ---- */

static void add_stream(void *arg, const struct stream_info *i)
{
	struct stream_row row;

	if (!may_see(arg, i->uid))
		return;
	fill_stream(&row, i);
	add(arg, &row);
}

static void streams(struct listing *l)
{
	stream_foreach(add_stream, l);
}

static void add_plain(void *arg, const struct plain_info *i)
{
	struct plain_row row;

	if (!may_see(arg, i->uid))
		return;
	fill_plain(&row, i);
	add(arg, &row);
}

static void plain(struct listing *l)
{
	plain_foreach(add_plain, l);
}

static void add_peer(void *arg, const struct peer_info *i)
{
	add(arg, i);
}

static void peers(struct listing *l)
{
	peers_foreach(add_peer, l);
}

/* Whoever knows an STag is one guess nearer to using it. */
static void add_stag(void *arg, const struct rnic_mr_info *i)
{
	if (may_see(arg, i->uid))
		add(arg, i);
}

static void stags(struct listing *l)
{
	rnic_mr_foreach(add_stag, l);
}

static void add_device(void *arg, const struct device_info *i)
{
	add(arg, i);
}

static void all_devices(struct listing *l)
{
	devices_foreach(add_device, l);
}

static void add_ended(void *arg, const struct stream_ended *e)
{
	if (may_see(arg, e->info.uid))
		add(arg, e);
}

static void ended(struct listing *l)
{
	stream_ended_foreach(add_ended, l);
}

static const struct listing_kind kinds[] = {
	{ "Devices", sizeof(struct device_info), all_devices, put_device },
	{ "Ended", sizeof(struct stream_ended), ended, put_ended },
	{ "Streams", sizeof(struct stream_row), streams, put_stream_row },
	{ "Plain", sizeof(struct plain_row), plain, put_plain_row },
	{ "Peers", sizeof(struct peer_info), peers, put_peer },
	{ "Stags", sizeof(struct rnic_mr_info), stags, put_stag },
};

/* ---- batches ---- */

static void list_start(struct listing *l)
{
	l->kind->collect(l);
	if (l->err >= 0)
		l->err = sd_bus_message_new_method_return(l->call, &l->reply);
	if (l->err >= 0)
		l->err = sd_bus_message_open_container(l->reply, 'a', "a{sv}");
}

static void list_end(struct listing *l)
{
	if (l->err >= 0)
		l->err = sd_bus_message_close_container(l->reply);
	if (l->err >= 0)
		l->err = sd_bus_message_send(l->reply);
	if (l->err < 0)
		sd_bus_reply_method_errno(l->call, l->err, NULL);
	bus_kick(sd_bus_message_get_bus(l->call));
	first = l->next_list;
	if (!first)
		last = &first;
	sd_bus_message_unref(l->reply);
	sd_bus_message_unref(l->call);
	free(l->rows);
	free(l);
	lists--;
}

static void lists_step(struct work *w)
{
	struct listing *l = first;
	struct bus_out o;

	if (!l->reply && l->err >= 0)
		list_start(l);
	o = (struct bus_out){ .m = l->reply, .r = l->err };
	for (int i = 0; i < BATCH && l->next < l->n && o.r >= 0; i++, l->next++) {
		o.r = sd_bus_message_open_container(l->reply, 'a', "{sv}");
		l->kind->tell(&o, l->rows + l->next * l->kind->size);
		if (o.r >= 0)
			o.r = sd_bus_message_close_container(l->reply);
	}
	l->err = o.r;
	if (l->next == l->n || l->err < 0)
		list_end(l);
	if (first)
		work_queue(&turn, lists_step);
}

int bus_list(sd_bus_message *m, const struct bus_caller *who)
{
	const char *member = sd_bus_message_get_member(m);
	const struct listing_kind *kind = NULL;
	struct listing *l;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].method, member))
			kind = &kinds[i];
	if (!kind)
		return -ENOSYS;
	if (lists >= LISTS)
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "%u lists wait to be told; try again", lists);
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	lists++;
	l->kind = kind;
	l->who = *who;
	l->call = sd_bus_message_ref(m);
	*last = l;
	last = &l->next_list;
	work_queue(&turn, lists_step);
	return 1;
}
