// SPDX-License-Identifier: MIT
/* iwctl metrics: what status, peers, devices and reasons tell as numbers, in the text format of OpenMetrics. */
#include "iwctl.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "http.h"
#include "out.h"

#define PATIENCE_MS	5000u	/* with the daemon, while somebody waits who gives up after ten seconds */

/* One number of Status: rows of the same name stand together, and the first says what it is. A counter's name is told with _total. */
static const struct metric {
	const char *name, *type, *unit, *help;
	const char *key;
	const char *label, *value, *label2, *value2;	/* or NULL */
} metrics[] = {
	{ "iwsock_programs", "gauge", NULL, "Programs with the library that are connected to the daemon.", "programs", NULL, NULL, NULL, NULL },
	{ "iwsock_streams", "gauge", NULL, "Streams that the daemon has: ends of connections that were switched.", "streams_iwarp", "transport", "iwarp", NULL, NULL },
	{ "iwsock_streams", NULL, NULL, NULL, "streams_local", "transport", "local", NULL, NULL },
	{ "iwsock_streams", NULL, NULL, NULL, "streams_pending", "transport", "pending", NULL, NULL },
	{ "iwsock_streams", NULL, NULL, NULL, "streams_relay", "transport", "relayed", NULL, NULL },
	{ "iwsock_streams", NULL, NULL, NULL, "streams_closing", "transport", "closing", NULL, NULL },
	{ "iwsock_plain", "gauge", NULL, "Connections that were told of and are plain TCP.", "plain", NULL, NULL, NULL, NULL },
	{ "iwsock_proposed", "gauge", NULL, "Those of them that were proposed.", "proposed", NULL, NULL, NULL, NULL },
	{ "iwsock_ends", "counter", NULL, "Ends of connections by what became of them; one may go back and forth.", "ends_switched", "event", "switched", NULL, NULL },
	{ "iwsock_ends", NULL, NULL, NULL, "ends_joined", "event", "joined", NULL, NULL },
	{ "iwsock_ends", NULL, NULL, NULL, "ends_upgraded", "event", "upgraded", NULL, NULL },
	{ "iwsock_ends", NULL, NULL, NULL, "ends_back", "event", "back", NULL, NULL },
	{ "iwsock_ended", "counter", NULL, "Streams that have ended.", "ended", NULL, NULL, NULL, NULL },
	{ "iwsock_stream_bytes", "counter", "bytes", "Octets of programs, but for those within the host.", "tx_bytes", "direction", "sent", NULL, NULL },
	{ "iwsock_stream_bytes", NULL, NULL, NULL, "rx_bytes", "direction", "received", NULL, NULL },
	{ "iwsock_messages", "counter", NULL, "RDMAP messages.", "tx_sends", "operation", "send", "direction", "sent" },
	{ "iwsock_messages", NULL, NULL, NULL, "rx_sends", "operation", "send", "direction", "received" },
	{ "iwsock_messages", NULL, NULL, NULL, "tx_writes", "operation", "write", "direction", "sent" },
	{ "iwsock_messages", NULL, NULL, NULL, "rx_writes", "operation", "write", "direction", "received" },
	{ "iwsock_messages", NULL, NULL, NULL, "tx_immediates", "operation", "immediate", "direction", "sent" },
	{ "iwsock_messages", NULL, NULL, NULL, "rx_immediates", "operation", "immediate", "direction", "received" },
	{ "iwsock_messages", NULL, NULL, NULL, "tx_reads", "operation", "read_request", "direction", "sent" },
	{ "iwsock_messages", NULL, NULL, NULL, "rx_reads", "operation", "read_request", "direction", "received" },
	{ "iwsock_messages", NULL, NULL, NULL, "tx_read_responses", "operation", "read_response", "direction", "sent" },
	{ "iwsock_messages", NULL, NULL, NULL, "rx_read_responses", "operation", "read_response", "direction", "received" },
	{ "iwsock_messages", NULL, NULL, NULL, "tx_atomics", "operation", "atomic", "direction", "sent" },
	{ "iwsock_messages", NULL, NULL, NULL, "rx_atomics", "operation", "atomic", "direction", "received" },
	{ "iwsock_payload_bytes", "counter", "bytes", "Octets that RDMA Writes and Read Responses placed.", "tx_write_bytes", "operation", "write", "direction", "sent" },
	{ "iwsock_payload_bytes", NULL, NULL, NULL, "rx_write_bytes", "operation", "write", "direction", "received" },
	{ "iwsock_payload_bytes", NULL, NULL, NULL, "tx_read_bytes", "operation", "read_response", "direction", "sent" },
	{ "iwsock_payload_bytes", NULL, NULL, NULL, "rx_read_bytes", "operation", "read_response", "direction", "received" },
	{ "iwsock_fpdus", "counter", NULL, "FPDUs.", "tx_fpdus", "direction", "sent", NULL, NULL },
	{ "iwsock_fpdus", NULL, NULL, NULL, "rx_fpdus", "direction", "received", NULL, NULL },
	{ "iwsock_wire_bytes", "counter", "bytes", "Octets of FPDUs with all headers.", "tx_wire_bytes", "direction", "sent", NULL, NULL },
	{ "iwsock_wire_bytes", NULL, NULL, NULL, "rx_wire_bytes", "direction", "received", NULL, NULL },
	{ "iwsock_slow_segments", "counter", NULL, "Segments that cost more than they carry: tiny ones, and tagged ones without an octet.", "rx_tiny", "kind", "tiny", NULL, NULL },
	{ "iwsock_slow_segments", NULL, NULL, NULL, "rx_zero_tagged", "kind", "zero_tagged", NULL, NULL },
	{ "iwsock_stags", "gauge", NULL, "Registered memory.", "stags", NULL, NULL, NULL, NULL },
	{ "iwsock_ipsec_policies", "gauge", NULL, "IPsec policies in and out that were read, with require_ipsec.", "ipsec_policies", NULL, NULL, NULL, NULL },
	{ "iwsock_quota_used", "gauge", NULL, "What users have of what has a quota; memory in octets.", "used_streams", "resource", "streams", NULL, NULL },
	{ "iwsock_quota_used", NULL, NULL, NULL, "used_memory", "resource", "memory", NULL, NULL },
	{ "iwsock_quota_used", NULL, NULL, NULL, "used_stags", "resource", "stags", NULL, NULL },
	{ "iwsock_quota_used", NULL, NULL, NULL, "used_reads", "resource", "reads", NULL, NULL },
	{ "iwsock_quota_used", NULL, NULL, NULL, "used_cq_entries", "resource", "cq_entries", NULL, NULL },
	{ "iwsock_quota_refused", "counter", NULL, "Times that a quota said no.", "refused_streams", "resource", "streams", NULL, NULL },
	{ "iwsock_quota_refused", NULL, NULL, NULL, "refused_memory", "resource", "memory", NULL, NULL },
	{ "iwsock_quota_refused", NULL, NULL, NULL, "refused_stags", "resource", "stags", NULL, NULL },
	{ "iwsock_quota_refused", NULL, NULL, NULL, "refused_reads", "resource", "reads", NULL, NULL },
	{ "iwsock_quota_refused", NULL, NULL, NULL, "refused_cq_entries", "resource", "cq_entries", NULL, NULL },
};

/* ---- families, as --json tells them ---- */

static json_t *family(json_t *list, const char *name, const char *type, const char *unit, const char *help)
{
	json_t *f = json_pack("{s:s, s:s, s:s, s:[]}", "name", name, "type", type, "help", help, "samples");

	if (unit)
		json_object_set_new(f, "unit", json_string(unit));
	json_array_append_new(list, f);
	return f;
}

/* The suffix is that of the sample's name. Takes the value over. */
static void sample(json_t *f, const char *suffix, const char *label, const char *value, const char *label2, const char *value2, json_t *v)
{
	json_t *labels = json_object(), *s = json_pack("{s:s, s:o, s:o}", "suffix", suffix, "labels", labels, "value", v);

	if (label)
		json_object_set_new(labels, label, json_string(value));
	if (label2)
		json_object_set_new(labels, label2, json_string(value2));
	json_array_append_new(json_object_get(f, "samples"), s);
}

static void add_daemon(json_t *list, const json_t *status)
{
	json_t *f = family(list, "iwsock_daemon_info", "gauge", NULL, "The daemon that runs: 1.");

	sample(f, "", "version", iwctl_str(status, "version", "?"), NULL, NULL, json_integer(1));
	f = family(list, "iwsock_uptime_seconds", "gauge", "seconds", "How long it has run.");
	sample(f, "", NULL, NULL, NULL, NULL, json_real((double)iwctl_num(status, "uptime_ms") / 1000));
}

/* What this daemon does not tell yet is not told here. */
static void add_numbers(json_t *list, const json_t *status)
{
	json_t *f = NULL;

	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
		const struct metric *m = &metrics[i];

		if (m->type)
			f = family(list, m->name, m->type, m->unit, m->help);
		if (json_object_get(status, m->key))
			sample(f, strcmp(iwctl_str(f, "type", ""), "counter") ? "" : "_total", m->label, m->value, m->label2, m->value2,
			       json_incref(json_object_get(status, m->key)));
	}
}

static void add_peers(json_t *list, const json_t *peers)
{
	static const char *const states[] = { "iwarp", "plain", "local", "unknown" };
	json_t *f = family(list, "iwsock_peers", "gauge", NULL, "Other hosts that are known of."), *p;
	size_t i;

	for (size_t s = 0; s < sizeof(states) / sizeof(*states); s++) {
		json_int_t n = 0;

		json_array_foreach(peers, i, p)
			n += !strcmp(iwctl_str(p, "state", ""), states[s]);
		sample(f, "", "state", states[s], NULL, NULL, json_integer(n));
	}
}

/* Those that a stream was carried by, or could be. */
static void add_devices(json_t *list, const json_t *devices)
{
	json_t *streams = family(list, "iwsock_device_streams", "gauge", NULL, "Streams that an RDMA device carries.");
	json_t *carried = family(list, "iwsock_device_carried", "counter", NULL, "Streams that it has carried.");
	json_t *messages = family(list, "iwsock_device_messages", "counter", NULL, "RDMAP messages that went by it."), *d;
	size_t i;

	json_array_foreach(devices, i, d) {
		const char *name = iwctl_str(d, "device", "?");

		sample(streams, "", "device", name, NULL, NULL, json_incref(json_object_get(d, "streams")));
		sample(carried, "_total", "device", name, NULL, NULL, json_incref(json_object_get(d, "carried")));
		sample(messages, "_total", "device", name, "operation", "send", json_incref(json_object_get(d, "tx_sends")));
		sample(messages, "_total", "device", name, "operation", "write", json_incref(json_object_get(d, "tx_writes")));
	}
}

static void add_reasons(json_t *list, const json_t *reasons)
{
	json_t *f = family(list, "iwsock_reasons", "counter", NULL, "Ends of connections by why they are plain TCP, or accelerated."), *r;
	size_t i;

	json_array_foreach(reasons, i, r) {
		const char *name = iwctl_str(r, "reason", "?");

		sample(f, "_total", "reason", name, "side", "client", json_incref(json_object_get(r, "as_client")));
		sample(f, "_total", "reason", name, "side", "server", json_incref(json_object_get(r, "as_server")));
	}
}

/* One for each that the daemon has; the last has no bound. */
static void add_buckets(json_t *f, const json_t *upto, void (*bound)(char le[32], size_t i))
{
	size_t n = json_array_size(upto), i;
	char le[32];
	json_t *v;

	json_array_foreach(upto, i, v) {
		bound(le, i);
		sample(f, "_bucket", "le", i + 1 < n ? le : "+Inf", NULL, NULL, json_incref(v));
	}
}

static void bound_of_time(char le[32], size_t i)	/* 2^i ms */
{
	snprintf(le, 32, "%.3f", (double)(1ull << i) / 1000);
}

static void bound_of_size(char le[32], size_t i)	/* 64 * 4^i octets */
{
	snprintf(le, 32, "%llu.0", 64ull << 2 * i);
}

static void add_times(json_t *list, const json_t *status)
{
	const json_t *upto = json_object_get(status, "upgrade_log2_ms");
	size_t n = json_array_size(upto);
	json_t *f;

	if (!n)
		return;
	f = family(list, "iwsock_upgrade_seconds", "histogram", "seconds", "From the proposal of an end until it was accelerated.");
	add_buckets(f, upto, bound_of_time);
	sample(f, "_count", NULL, NULL, NULL, NULL, json_incref(json_array_get(upto, n - 1)));
	sample(f, "_sum", NULL, NULL, NULL, NULL, json_real((double)iwctl_num(status, "upgrade_sum_ms") / 1000));
}

/* What all of them were together nobody has counted. */
static void add_sizes(json_t *list, const json_t *status)
{
	const json_t *upto = json_object_get(status, "tx_sizes_log4");

	if (json_array_size(upto))
		add_buckets(family(list, "iwsock_tx_message_bytes", "histogram", "bytes",
				   "RDMAP messages sent (Sends, Writes and Read Responses) by their payload."), upto, bound_of_size);
}

/* ---- text ---- */

static void print_escaped(FILE *to, const char *s)
{
	for (; *s; s++) {
		if (*s == '\n')
			fputs("\\n", to);
		else if (*s == '"' || *s == '\\')
			fprintf(to, "\\%c", *s);
		else
			putc(*s, to);
	}
}

static void print_labels(FILE *to, json_t *labels)
{
	const char *name, *next = "{";
	json_t *v;

	json_object_foreach(labels, name, v) {
		fprintf(to, "%s%s=\"", next, name);
		print_escaped(to, json_string_value(v));
		putc('"', to);
		next = ",";
	}
	if (json_object_size(labels))
		putc('}', to);
}

static void print_family(FILE *to, const json_t *f)
{
	const char *name = iwctl_str(f, "name", "");
	json_t *s;
	size_t i;

	fprintf(to, "# TYPE %s %s\n", name, iwctl_str(f, "type", ""));
	if (json_object_get(f, "unit"))
		fprintf(to, "# UNIT %s %s\n", name, iwctl_str(f, "unit", ""));
	fprintf(to, "# HELP %s %s\n", name, iwctl_str(f, "help", ""));
	json_array_foreach(json_object_get(f, "samples"), i, s) {
		const json_t *v = json_object_get(s, "value");

		fprintf(to, "%s%s", name, iwctl_str(s, "suffix", ""));
		print_labels(to, json_object_get(s, "labels"));
		if (json_is_real(v))
			fprintf(to, " %.3f\n", json_real_value(v));
		else
			fprintf(to, " %llu\n", (unsigned long long)json_integer_value(v));
	}
}

static void print_text(FILE *to, const json_t *list)
{
	const json_t *f;
	size_t i;

	json_array_foreach(list, i, f)
		print_family(to, f);
	fputs("# EOF\n", to);
}

/* ---- asked for ---- */

/* All families; IWCTL_OK and the caller owns *list. */
static int ask(json_t **list)
{
	json_t *status = NULL, *peers = NULL, *reasons = NULL, *devices = NULL;
	int code = iwctl_query("Status", &status);

	if (code == IWCTL_OK)
		code = iwctl_query("Peers", &peers);
	if (code == IWCTL_OK)
		code = iwctl_query("Reasons", &reasons);
	if (code == IWCTL_OK)
		code = iwctl_query("Devices", &devices);
	if (code != IWCTL_OK)
		goto out;
	*list = json_array();
	add_daemon(*list, status);
	add_numbers(*list, status);
	add_peers(*list, peers);
	add_reasons(*list, reasons);
	if (json_array_size(devices))
		add_devices(*list, devices);
	add_times(*list, status);
	add_sizes(*list, status);
out:
	json_decref(status);
	json_decref(peers);
	json_decref(reasons);
	json_decref(devices);
	return code;
}

/* What went wrong is told to who asks: for who started us all is well. */
static int serve(void)
{
	char why[1024], *text = NULL;
	json_t *list = NULL;
	size_t len = 0;
	bool head;
	unsigned int status = http_ask("/metrics", &head);
	FILE *to;

	if (!status)
		return IWCTL_OK;
	why[0] = 0;
	if (status == 200) {
		iwctl.patience_ms = PATIENCE_MS;
		iwctl_error_keep(why, sizeof(why));
		if (ask(&list) != IWCTL_OK)
			status = 503;
		iwctl_error_keep(NULL, 0);
	}
	to = list ? open_memstream(&text, &len) : NULL;
	if (to) {
		print_text(to, list);
		fclose(to);
	}
	if (text)
		http_answer(200, head, "application/openmetrics-text; version=1.0.0; charset=utf-8", text, len);
	else
		http_error(list ? 503 : status, head, why);
	free(text);
	json_decref(list);
	return IWCTL_OK;
}

static void help(FILE *f)
{
	fputs("usage: iwctl metrics [OPTION...]\n\n"
	      "  -H, --http         read an HTTP request from standard input and answer it: for iwarp-metrics.socket\n"
	      "  -j, --json, -r, --run-dir DIR, -s, --system: as iwctl --help has them\n"
	      "  -h, --help\n", f);
}

/* IWCTL_OK: go on. -1: nothing else was asked for. */
static int read_options(int argc, char **argv, bool *http)
{
	static const struct option options[] = { { "http", no_argument, NULL, 'H' }, { "help", no_argument, NULL, 'h' }, IWCTL_OPTIONS, { NULL, 0, NULL, 0 } };
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "Hh" IWCTL_LETTERS, options, NULL)) != -1) {
		if (c == 'H') {
			*http = true;
		} else if (!iwctl_option(c)) {
			help(c == 'h' ? stdout : stderr);
			return c == 'h' ? -1 : IWCTL_USAGE;
		}
	}
	if (optind < argc || (*http && iwctl.json)) {
		help(stderr);
		return IWCTL_USAGE;
	}
	return iwctl_options_fit();
}

int metrics_main(int argc, char **argv)
{
	bool http = false;
	json_t *list;
	int code = read_options(argc, argv, &http);

	if (code != IWCTL_OK)
		return code;
	if (http)
		return serve();
	code = ask(&list);
	if (code != IWCTL_OK)
		return code;
	if (iwctl.json)
		return iwctl_print_json(list);
	print_text(stdout, list);
	json_decref(list);
	return IWCTL_OK;
}
