// SPDX-License-Identifier: MIT
/*
 * The methods of org.iwsock.Daemon1. Keys of the dictionaries are an interface: iwctl --json hands them on as they are, so
 * they are only ever added to. Everybody may see counts, states and reasons; who and where (pid, program, user, addresses,
 * STags) only the connection's own user, root and the daemon's user.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus_priv.h"
#include "cm.h"
#include "conf.h"
#include "engine.h"
#include "rnic.h"
#include "stream.h"

#define CHECKS 8	/* probes at a time */

struct out {			/* a reply being filled; r: the first error */
	sd_bus_message *m;
	const struct bus_caller *who;
	int r;
};

#define put(o, key, type, value) do { \
	if ((o)->r >= 0) \
		(o)->r = sd_bus_message_append((o)->m, "{sv}", key, type, value); \
} while (0)

static void row(struct out *o)
{
	if (o->r >= 0)
		o->r = sd_bus_message_open_container(o->m, 'a', "{sv}");
}

static void row_end(struct out *o)
{
	if (o->r >= 0)
		o->r = sd_bus_message_close_container(o->m);
}

static bool may_see(const struct out *o, uint32_t uid)
{
	return o->who->privileged || o->who->uid == uid;
}

static void put_ip(struct out *o, const char *key, const uint8_t ip[16])
{
	char s[INET6_ADDRSTRLEN];
	bool mapped = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)ip);

	inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? ip + 12 : ip, s, sizeof(s));
	put(o, key, "s", s);
}

/* 192.0.2.1:80, [2001:db8::1]:80, [fe80::1%2]:80; an AF_INET6 socket with an IPv4 peer shows [::ffff:192.0.2.1]:80, as ss does. */
static void put_addr(struct out *o, const char *key, const struct iw_addr *a)
{
	char ip[INET6_ADDRSTRLEN], s[INET6_ADDRSTRLEN + 24], scope[16] = "";

	if (a->family == AF_INET) {
		inet_ntop(AF_INET, a->ip + 12, ip, sizeof(ip));
		snprintf(s, sizeof(s), "%s:%u", ip, a->port);
	} else {
		inet_ntop(AF_INET6, a->ip, ip, sizeof(ip));
		if (a->scope_id)
			snprintf(scope, sizeof(scope), "%%%u", a->scope_id);
		snprintf(s, sizeof(s), "[%s%s]:%u", ip, scope, a->port);
	}
	put(o, key, "s", s);
}

static void put_reason(struct out *o, unsigned int reason)
{
	put(o, "reason", "s", iw_reason_name(reason));
	put(o, "reason_number", "u", reason);
}

/* Text that came from a program: D-Bus wants UTF-8. */
static void put_program(struct out *o, const char *key, const char *program)
{
	char s[64];
	size_t i;

	for (i = 0; i < sizeof(s) - 1 && program && program[i]; i++)
		s[i] = program[i] >= ' ' && program[i] < 127 ? program[i] : '?';
	s[i] = 0;
	put(o, key, "s", s);
}

static const char *state_name(enum stream_state s)
{
	static const char *const names[] = {
		[STREAM_OFFERED] = "offered", [STREAM_HELD] = "held", [STREAM_STARTING] = "starting",
		[STREAM_RUNNING] = "running", [STREAM_LOCAL] = "running", [STREAM_RELAY] = "relay",
		[STREAM_CLOSING] = "closing", [STREAM_DEAD] = "dead",
	};

	return (unsigned int)s < sizeof(names) / sizeof(*names) && names[s] ? names[s] : "unknown";
}

static const char *transport_name(const struct stream_info *i)
{
	if (i->reason != IW_REASON_ACCELERATED || i->state == STREAM_RELAY)
		return "tcp";
	if (i->state == STREAM_OFFERED || i->state == STREAM_HELD)
		return "pending";
	return i->state == STREAM_LOCAL ? "local" : "iwarp";
}

static void put_counts(struct out *o, const struct iw_qp_stat *s)
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
}

static void put_stream(void *arg, const struct stream_info *i)
{
	struct out *o = arg;
	uint64_t now = engine_now_ms();
	char id[20];

	row(o);
	snprintf(id, sizeof(id), "%" PRIx64, i->id);
	put(o, "id", "s", id);
	put(o, "transport", "s", transport_name(i));
	put(o, "state", "s", state_name(i->state));
	put(o, "side", "s", i->client ? "client" : "server");
	if (may_see(o, i->uid)) {
		put(o, "pid", "u", (uint32_t)i->pid);
		put(o, "uid", "u", i->uid);
		put(o, "fd", "i", i->fd);
		put_program(o, "program", i->program);
		put_addr(o, "local", &i->tuple.local);
		put_addr(o, "peer", &i->tuple.peer);
	}
	put_reason(o, i->reason);
	put(o, "age_ms", "t", now > i->since_ms ? now - i->since_ms : 0);
	put(o, "tx_bytes", "t", i->tx_bytes);
	put(o, "rx_bytes", "t", i->rx_bytes);
	put_counts(o, &i->qp);
	row_end(o);
}

static void put_plain(void *arg, const struct plain_info *i)
{
	struct out *o = arg;

	row(o);
	put(o, "transport", "s", "tcp");
	put(o, "state", "s", "plain");
	put(o, "side", "s", i->is_client ? "client" : "server");
	if (may_see(o, i->client->uid)) {
		put(o, "pid", "u", (uint32_t)i->client->pid);
		put(o, "uid", "u", i->client->uid);
		put(o, "fd", "i", i->fd);
		put_program(o, "program", i->client->program);
		put_addr(o, "local", &i->tuple.local);
		put_addr(o, "peer", &i->tuple.peer);
	}
	put_reason(o, i->reason);
	row_end(o);
}

static void put_peer(void *arg, const struct peer_info *i)
{
	static const char *const states[] = { "unknown", "iwarp", "plain", "local" };
	struct out *o = arg;
	uint64_t now = engine_now_ms();

	row(o);
	put_ip(o, "address", i->ip);
	put(o, "state", "s", i->state <= IW_PEER_LOCAL ? states[i->state] : "unknown");
	put_reason(o, i->reason);
	put(o, "session_in", "b", (int)i->in);
	put(o, "session_out", "b", (int)i->out);
	put(o, "streams", "u", i->streams);
	if (i->expires_ms)
		put(o, "expires_in_ms", "t", i->expires_ms > now ? i->expires_ms - now : 0);
	row_end(o);
}

static void put_stag(void *arg, const struct rnic_mr_info *i)
{
	static const struct { unsigned int bit; const char *name; } rights[] = {
		{ IW_ACCESS_LOCAL_READ, "local-read" }, { IW_ACCESS_LOCAL_WRITE, "local-write" },
		{ IW_ACCESS_REMOTE_READ, "remote-read" }, { IW_ACCESS_REMOTE_WRITE, "remote-write" },
		{ IW_ACCESS_REMOTE_ATOMIC, "remote-atomic" }, { IW_ACCESS_READ_SINK, "read-sink" },
	};
	struct out *o = arg;
	char s[128] = "";

	row(o);
	/* whoever knows an STag is one guess nearer to using it */
	if (may_see(o, i->uid)) {
		snprintf(s, sizeof(s), "0x%08" PRIx32, i->stag);
		put(o, "stag", "s", s);
		snprintf(s, sizeof(s), "0x%" PRIx64, i->to);
		put(o, "to", "s", s);
		put(o, "uid", "u", i->uid);
	}
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
	row_end(o);
}

static void put_listener(void *arg, const struct listener_info *i)
{
	struct out *o = arg;

	row(o);
	put_addr(o, "address", &i->addr);
	if (may_see(o, i->uid)) {
		put(o, "pid", "u", (uint32_t)i->pid);
		put(o, "uid", "u", i->uid);
		put_program(o, "program", i->program);
	}
	row_end(o);
}

static void put_reasons(struct out *o)
{
	for (unsigned int r = 0; r < IW_REASON_MAX; r++) {
		row(o);
		put_reason(o, r);
		put(o, "as_client", "t", reason_count(r, true));
		put(o, "as_server", "t", reason_count(r, false));
		put(o, "sentence", "s", iw_reason_sentence(r));
		put(o, "advice", "s", iw_reason_advice(r));
		row_end(o);
	}
}

struct tally { unsigned int iwarp, local, relay, pending, closing, plain, listeners, peers; uint64_t tx, rx; };

static void tally_stream(void *arg, const struct stream_info *i)
{
	struct tally *t = arg;

	t->tx += i->tx_bytes;
	t->rx += i->rx_bytes;
	switch (i->state) {
	case STREAM_OFFERED: case STREAM_HELD: t->pending++; break;
	case STREAM_STARTING: case STREAM_RUNNING: t->iwarp++; break;
	case STREAM_LOCAL: t->local++; break;
	case STREAM_RELAY: t->relay++; break;
	case STREAM_CLOSING: case STREAM_DEAD: t->closing++; break;
	}
}

static void tally_plain(void *arg, const struct plain_info *i)
{
	((struct tally *)arg)->plain++;
}

static void tally_listener(void *arg, const struct listener_info *i)
{
	((struct tally *)arg)->listeners++;
}

static void tally_peer(void *arg, const struct peer_info *i)
{
	((struct tally *)arg)->peers += i->state == IW_PEER_POSITIVE;
}

static void put_status(struct out *o)
{
	struct tally t = { 0 };

	stream_foreach(tally_stream, &t);
	plain_foreach(tally_plain, &t);
	listener_foreach(tally_listener, &t);
	peers_foreach(tally_peer, &t);
	put(o, "version", "s", IWSOCK_VERSION);
	put(o, "pid", "u", (uint32_t)getpid());
	put(o, "uid", "u", (uint32_t)geteuid());
	put(o, "uptime_ms", "t", engine_now_ms() - bus_started);
	put(o, "run_dir", "s", conf.rundir);
	put(o, "control_port", "q", conf.control_port);
	put(o, "system_bus", "b", (int)bus_on_system());
	put(o, "programs", "u", client_count());
	put(o, "listeners", "u", t.listeners);
	put(o, "peers", "u", t.peers);
	put(o, "streams_iwarp", "u", t.iwarp);
	put(o, "streams_local", "u", t.local);
	put(o, "streams_pending", "u", t.pending);
	put(o, "streams_relay", "u", t.relay);
	put(o, "streams_closing", "u", t.closing);
	put(o, "plain", "u", t.plain);
	put(o, "stags", "u", rnic_mr_count());
	put(o, "tx_bytes", "t", t.tx);
	put(o, "rx_bytes", "t", t.rx);
	put(o, "crc", "b", (int)conf.crc);
	put(o, "markers", "b", (int)conf.markers);
	put(o, "large_fpdu", "b", (int)conf.large_fpdu);
	put(o, "ring_size", "u", conf.ring_size);
	put(o, "inline_max", "u", conf.inline_max);
	put(o, "read_threshold", "u", conf.srcavail_min);
}

/* ---- Check ---- */

static unsigned int checks;

static void checked(void *arg, bool ok, const char *text)
{
	sd_bus_message *m = arg;

	checks--;
	sd_bus_reply_method_return(m, "bs", (int)ok, text);
	bus_kick(sd_bus_message_get_bus(m));
	sd_bus_message_unref(m);
}

static int method_check(sd_bus_message *m)
{
	struct iw_addr a = { 0 };
	const char *host;
	uint16_t port;
	int r = sd_bus_message_read(m, "sq", &host, &port);

	if (r < 0)
		return r;
	if (inet_pton(AF_INET, host, a.ip + 12) == 1) {
		a.family = AF_INET;
		a.ip[10] = a.ip[11] = 0xff;
	} else if (inet_pton(AF_INET6, host, a.ip) == 1) {
		a.family = AF_INET6;
	} else {
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_INVALID_ARGS, "\"%s\" is not a numeric address", host);
	}
	if (!port)
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_INVALID_ARGS, "the port must be 1 to 65535");
	if (checks >= CHECKS)
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "%u checks are under way; try again", checks);
	a.port = port;
	checks++;
	cm_check(&a, checked, sd_bus_message_ref(m));
	return 1;
}

/* ---- answers ---- */

static void rows(struct out *o, const char *what)
{
	if (!strcmp(what, "Streams"))
		stream_foreach(put_stream, o);
	else if (!strcmp(what, "Plain"))
		plain_foreach(put_plain, o);
	else if (!strcmp(what, "Peers"))
		peers_foreach(put_peer, o);
	else if (!strcmp(what, "Stags"))
		rnic_mr_foreach(put_stag, o);
	else if (!strcmp(what, "Listeners"))
		listener_foreach(put_listener, o);
	else if (!strcmp(what, "Reasons"))
		put_reasons(o);
	else
		o->r = -ENOSYS;
}

int bus_answer(sd_bus_message *m, const struct bus_caller *who)
{
	const char *member = sd_bus_message_get_member(m);
	struct out o = { .who = who };
	bool one = !strcmp(member, "Status");

	if (!strcmp(member, "Check"))
		return method_check(m);
	o.r = sd_bus_message_new_method_return(m, &o.m);
	if (o.r < 0)
		return o.r;
	o.r = sd_bus_message_open_container(o.m, 'a', one ? "{sv}" : "a{sv}");
	if (one)
		put_status(&o);
	else
		rows(&o, member);
	if (o.r >= 0)
		o.r = sd_bus_message_close_container(o.m);
	if (o.r >= 0)
		o.r = sd_bus_message_send(o.m);
	sd_bus_message_unref(o.m);
	return o.r;
}

const sd_bus_vtable bus_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD_WITH_ARGS("Status", SD_BUS_NO_ARGS, SD_BUS_RESULT("a{sv}", status), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Streams", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", streams), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Plain", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", connections), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Peers", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", peers), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Stags", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", stags), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Reasons", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", reasons), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Listeners", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", listeners), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Check", SD_BUS_ARGS("s", host, "q", port), SD_BUS_RESULT("b", ok, "s", text), bus_method,
				SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_VTABLE_END
};
