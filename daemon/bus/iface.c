// SPDX-License-Identifier: MIT
/* The methods and properties of org.iwsock.Daemon1. Totals, peers and reasons are for everybody. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cm/cm.h"
#include "daemon/base/conf.h"
#include "daemon/base/engine.h"
#include "daemon/net/ipsec.h"
#include "daemon/rnic/rnic.h"
#include "daemon/session/session.h"
#include "daemon/stream/stream.h"
#include "bus.h"
#include "change.h"
#include "iface.h"
#include "out.h"
#include "rows.h"
#include "signals.h"

#define CHECKS 8	/* probes at a time */

struct tally { unsigned int plain, proposed, peers; };

static void tally_plain(void *arg, const struct plain_info *i)
{
	((struct tally *)arg)->plain++;
	((struct tally *)arg)->proposed += i->proposed_ms != 0;
}

static void tally_peer(void *arg, const struct peer_info *i)
{
	((struct tally *)arg)->peers += i->state == IW_PEER_POSITIVE;
}

static const char *const ipsec_names[] = { [IPSEC_OFF] = "off", [IPSEC_ON] = "on", [IPSEC_UNREADABLE] = "unreadable" };

#define BUCKETS	32u

/* Each bucket with those before it; the last is without a bound. */
static void put_buckets(struct bus_out *o, const char *key, const uint64_t *n, unsigned int buckets)
{
	uint64_t upto[BUCKETS], sum = 0;

	for (unsigned int b = 0; b < buckets; b++)
		upto[b] = sum += n[b];
	if (o->r >= 0)
		o->r = sd_bus_message_open_container(o->m, 'e', "sv");
	if (o->r >= 0)
		o->r = sd_bus_message_append_basic(o->m, 's', key);
	if (o->r >= 0)
		o->r = sd_bus_message_open_container(o->m, 'v', "at");
	if (o->r >= 0)
		o->r = sd_bus_message_append_array(o->m, 't', upto, buckets * sizeof(*upto));
	if (o->r >= 0)
		o->r = sd_bus_message_close_container(o->m);
	if (o->r >= 0)
		o->r = sd_bus_message_close_container(o->m);
}

/* Up to 1 ms, 2, 4 ... */
static void put_times(struct bus_out *o)
{
	const struct upgrade_times *t = upgrade_times();

	static_assert(UPGRADE_TIMES <= BUCKETS && ENDPOINT_SIZES <= BUCKETS, "put_buckets()");
	put(o, "upgrade_sum_ms", "t", t->sum_ms);
	put_buckets(o, "upgrade_log2_ms", t->n, UPGRADE_TIMES);
}

static void put_status(struct bus_out *o)
{
	struct stream_tally streams;
	struct tally t = { 0 };

	stream_tally(&streams);
	plain_foreach(tally_plain, &t);
	peers_foreach(tally_peer, &t);
	put(o, "version", "s", IWSOCK_VERSION);
	put(o, "pid", "u", (uint32_t)getpid());
	put(o, "uid", "u", (uint32_t)geteuid());
	put(o, "uptime_ms", "t", engine_now_ms() - bus_started);
	put(o, "run_dir", "s", conf.rundir);
	put(o, "control_port", "q", conf.control_port);
	put(o, "system_bus", "b", (int)bus_on_system());
	put(o, "programs", "u", client_count());
	put(o, "peers", "u", t.peers);
	put(o, "streams_iwarp", "u", streams.iwarp);
	put(o, "streams_local", "u", streams.local);
	put(o, "streams_pending", "u", streams.pending);
	put(o, "streams_relay", "u", streams.relay);
	put(o, "streams_closing", "u", streams.closing);
	put(o, "plain", "u", t.plain);
	put(o, "proposed", "u", t.proposed);
	put(o, "ends_switched", "t", switch_totals.switched);
	put(o, "ends_joined", "t", switch_totals.joined);
	put(o, "ends_upgraded", "t", switch_totals.upgraded);
	put(o, "ends_back", "t", switch_totals.back);
	put(o, "stags", "u", rnic_mr_count());
	for (enum prm_kind k = 0; k < PRM_KINDS; k++) {
		char key[32];

		snprintf(key, sizeof(key), "used_%s", prm_name(k));
		put(o, key, "t", prm_total(k));
		snprintf(key, sizeof(key), "refused_%s", prm_name(k));
		put(o, key, "t", prm_refused(k));
	}
	put(o, "tx_bytes", "t", streams.counts.tx_bytes);
	put(o, "rx_bytes", "t", streams.counts.rx_bytes);
	bus_put_counts(o, &streams.counts.stat);
	put(o, "ended", "t", stream_ended_count());
	put_times(o);
	put_buckets(o, "tx_sizes_log4", streams.counts.stat.tx_size, ENDPOINT_SIZES);
	put(o, "subscribers", "u", bus_subscribers());
	put(o, "signals_missed", "t", bus_signals_missed());
	put(o, "require_ipsec", "s", ipsec_names[ipsec_state()]);
	put(o, "ipsec_policies", "u", ipsec_policies());
	put(o, "crc", "b", (int)conf.crc);
	put(o, "markers", "b", (int)conf.markers);
	put(o, "large_fpdu", "b", (int)conf.large_fpdu);
	put(o, "keep_congestion", "b", (int)conf.keep_congestion);
	put(o, "provider", "s", conf.provider == CONF_PROVIDER_AUTO ? "auto" : "soft");
	put(o, "device", "s", conf.device);
	put(o, "verbs", "b", HAVE_VERBS);
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

static int method_check(sd_bus_message *m, const struct bus_caller *who)
{
	struct iw_addr a = { 0 };
	const char *host;
	uint8_t v4[4];
	uint16_t port;
	int r = sd_bus_message_read(m, "sq", &host, &port);

	if (r < 0)
		return r;
	if (inet_pton(AF_INET, host, v4) == 1) {
		a.family = AF_INET;
		iw_ip_from_v4(a.ip, v4);
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
	cm_check(&a, who->uid, checked, sd_bus_message_ref(m));
	return 1;
}

/* ---- answers ---- */

static void put_row(struct bus_out *o, unsigned int r)
{
	if (o->r >= 0)
		o->r = sd_bus_message_open_container(o->m, 'a', "{sv}");
	put_reason(o, r);
	put(o, "as_client", "t", reason_count(r, true));
	put(o, "as_server", "t", reason_count(r, false));
	put(o, "sentence", "s", iw_reason_sentence(r));
	put(o, "advice", "s", iw_reason_advice(r));
	if (o->r >= 0)
		o->r = sd_bus_message_close_container(o->m);
}

static void put_reasons(struct bus_out *o)
{
	for (unsigned int r = 0; r < IW_REASON_MAX; r++)
		if (iw_reason_known(r))
			put_row(o, r);
	if (reason_count(IW_REASON_OTHER, true) || reason_count(IW_REASON_OTHER, false))
		put_row(o, IW_REASON_OTHER);
}

static int method_short(sd_bus_message *m, const char *contents, void (*fill)(struct bus_out *))
{
	struct bus_out o = { 0 };

	o.r = sd_bus_message_new_method_return(m, &o.m);
	if (o.r >= 0)
		o.r = sd_bus_message_open_container(o.m, 'a', contents);
	fill(&o);
	if (o.r >= 0)
		o.r = sd_bus_message_close_container(o.m);
	if (o.r >= 0)
		o.r = sd_bus_message_send(o.m);
	sd_bus_message_unref(o.m);
	return o.r;
}

int bus_answer(sd_bus_message *m, const struct bus_caller *who)
{
	const char *member = sd_bus_message_get_member(m);
	int r;

	if (!strcmp(member, "Check"))
		return method_check(m, who);
	if (!strcmp(member, "Status"))
		return method_short(m, "{sv}", put_status);
	if (!strcmp(member, "Reasons"))
		return method_short(m, "a{sv}", put_reasons);
	r = bus_subscription(m, who);
	if (r != -ENOSYS)
		return r;
	r = bus_change(m, who);
	return r == -ENOSYS ? bus_list(m, who) : r;
}

/* ---- properties ---- */

static int get_version(sd_bus *bus, const char *path, const char *iface, const char *name, sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	return sd_bus_message_append(m, "s", IWSOCK_VERSION);
}

static int get_port(sd_bus *bus, const char *path, const char *iface, const char *name, sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	return sd_bus_message_append(m, "q", conf.control_port);
}

static int get_u(sd_bus *bus, const char *path, const char *iface, const char *name, sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	static const struct { const char *name; unsigned int (*of)(void); } of[] = {
		{ "Programs", client_count }, { "Streams", stream_count }, { "Subscribers", bus_subscribers },
	};
	size_t i = 0;

	while (i < sizeof(of) / sizeof(*of) - 1 && strcmp(of[i].name, name))
		i++;
	return sd_bus_message_append(m, "u", of[i].of());
}

static uint64_t uptime(void)
{
	return engine_now_ms() - bus_started;
}

static int get_t(sd_bus *bus, const char *path, const char *iface, const char *name, sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	static const struct { const char *name; uint64_t (*of)(void); } of[] = {
		{ "UptimeMilliseconds", uptime }, { "StreamsEnded", stream_ended_count }, { "SignalsMissed", bus_signals_missed },
	};
	size_t i = 0;

	while (i < sizeof(of) / sizeof(*of) - 1 && strcmp(of[i].name, name))
		i++;
	return sd_bus_message_append(m, "t", of[i].of());
}

const sd_bus_vtable bus_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_PROPERTY("Version", "s", get_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("ControlPort", "q", get_port, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("UptimeMilliseconds", "t", get_t, 0, 0),
	SD_BUS_PROPERTY("Programs", "u", get_u, 0, 0),
	SD_BUS_PROPERTY("Streams", "u", get_u, 0, 0),
	SD_BUS_PROPERTY("StreamsEnded", "t", get_t, 0, 0),
	SD_BUS_PROPERTY("Subscribers", "u", get_u, 0, 0),
	SD_BUS_PROPERTY("SignalsMissed", "t", get_t, 0, 0),
	SD_BUS_METHOD_WITH_ARGS("Status", SD_BUS_NO_ARGS, SD_BUS_RESULT("a{sv}", status), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Streams", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", streams), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Plain", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", connections), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Ended", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", streams), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Peers", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", peers), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Stags", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", stags), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Devices", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", devices), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Reasons", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", reasons), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Check", SD_BUS_ARGS("s", host, "q", port), SD_BUS_RESULT("b", ok, "s", text), bus_method,
				SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Upgrade", SD_BUS_ARGS("as", ids), SD_BUS_RESULT("aa{sv}", connections), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Downgrade", SD_BUS_ARGS("as", ids), SD_BUS_RESULT("aa{sv}", connections), bus_method,
				SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Close", SD_BUS_ARGS("as", ids), SD_BUS_RESULT("aa{sv}", streams), bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("CloseIdle", SD_BUS_ARGS("t", idle_ms, "x", uid), SD_BUS_RESULT("aa{sv}", streams), bus_method,
				SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Subscribe", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("Unsubscribe", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, bus_method, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_SIGNAL_WITH_ARGS("PeerChanged", SD_BUS_ARGS("a{sv}", peer), 0),
	SD_BUS_SIGNAL_WITH_ARGS("StreamUpgraded", SD_BUS_ARGS("a{sv}", stream), 0),
	SD_BUS_SIGNAL_WITH_ARGS("StreamEnded", SD_BUS_ARGS("a{sv}", stream), 0),
	SD_BUS_SIGNAL_WITH_ARGS("Fallback", SD_BUS_ARGS("a{sv}", connection), 0),
	SD_BUS_SIGNAL_WITH_ARGS("Missed", SD_BUS_ARGS("a{sv}", count), 0),
	SD_BUS_VTABLE_END
};
