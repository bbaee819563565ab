// SPDX-License-Identifier: MIT
/* iwctl why: explains each connection of a process, a descriptor or an address in sentences. */
#include "iwctl.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "addr.h"
#include "bus.h"
#include "out.h"
#include "proc.h"
#include "proto/reason.h"

struct wanted {
	bool process;
	unsigned int pid;
	int fd;			/* -1: any */
	uint16_t port;		/* 0: any */
	struct in6_addr ips[16];
	size_t nips;
};

static bool parse_process(const char *s, struct wanted *w)
{
	char *end;
	unsigned long v;

	if (*s < '0' || *s > '9')
		return false;
	v = strtoul(s, &end, 10);
	if (v == 0 || v > 4194304 || (*end && *end != '/'))
		return false;
	w->process = true;
	w->pid = (unsigned int)v;
	w->fd = -1;
	if (!*end)
		return true;
	if (end[1] < '0' || end[1] > '9')
		return false;
	v = strtoul(end + 1, &end, 10);
	w->fd = (int)v;
	return !*end && v <= 1 << 30;
}

static void to_v6(const struct sockaddr *sa, struct in6_addr *ip)
{
	if (sa->sa_family == AF_INET6) {
		*ip = ((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
		return;
	}
	memset(ip, 0, sizeof(*ip));
	ip->s6_addr[10] = ip->s6_addr[11] = 0xff;
	memcpy(ip->s6_addr + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
}

static size_t resolve(const char *host, int flags, struct in6_addr *ips, size_t max, int *error)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags }, *list;
	size_t n = 0;

	*error = getaddrinfo(host, NULL, &hints, &list);
	if (*error)
		return 0;
	for (struct addrinfo *ai = list; ai && n < max; ai = ai->ai_next)
		to_v6(ai->ai_addr, &ips[n++]);
	freeaddrinfo(list);
	return n;
}

static bool addr_matches(const struct wanted *w, const char *text)
{
	char host[IWCTL_HOST_MAX];
	struct in6_addr ip;
	uint16_t port;
	int error;

	if (!text || !iwctl_split_addr(text, host, &port) || (w->port && port != w->port))
		return false;
	if (!resolve(host, AI_NUMERICHOST, &ip, 1, &error))
		return false;
	for (size_t i = 0; i < w->nips; i++)
		if (!memcmp(&w->ips[i], &ip, sizeof(ip)))
			return true;
	return false;
}

static bool matches(const struct wanted *w, const json_t *s)
{
	if (w->process)
		return iwctl_num(s, "pid") == w->pid && (w->fd < 0 || json_integer_value(json_object_get(s, "fd")) == w->fd);
	return addr_matches(w, iwctl_str(s, "peer", NULL)) || addr_matches(w, iwctl_str(s, "local", NULL));
}

/* The text of a reason stands with the daemon, whose table may be newer than ours; of what is not in it, ours. */
static void add_texts(json_t *s, const json_t *reasons)
{
	unsigned int number = (unsigned int)iwctl_num(s, "reason_number");
	json_t *r;
	size_t i;

	json_object_set_new(s, "sentence", json_string(iw_reason_sentence(number)));
	json_object_set_new(s, "advice", json_string(iw_reason_advice(number)));
	json_array_foreach(reasons, i, r) {
		if (iwctl_num(r, "reason_number") != number)
			continue;
		json_object_set(s, "sentence", json_object_get(r, "sentence"));
		json_object_set(s, "advice", json_object_get(r, "advice"));
	}
}

static void explain_good(const json_t *s)
{
	char tx[16], rx[16];

	if (!strcmp(iwctl_str(s, "transport", ""), "local"))
		printf("  It joins two programs of this host directly; the daemon is not in the way of the data.\n");
	else if (!strcmp(iwctl_str(s, "transport", ""), "pending"))
		printf("  It was offered to the other host; what the program writes is held until the server takes it.\n");
	else
		printf("  It runs over iWARP on its own TCP connection: %s sent, %s received, as %llu/%llu Sends, %llu/%llu RDMA Writes,\n"
		       "  %llu/%llu Immediates and %llu/%llu RDMA Reads (sent/received).\n",
		       iwctl_bytes(iwctl_num(s, "tx_bytes"), tx), iwctl_bytes(iwctl_num(s, "rx_bytes"), rx),
		       (unsigned long long)iwctl_num(s, "tx_sends"), (unsigned long long)iwctl_num(s, "rx_sends"),
		       (unsigned long long)iwctl_num(s, "tx_writes"), (unsigned long long)iwctl_num(s, "rx_writes"),
		       (unsigned long long)iwctl_num(s, "tx_immediates"), (unsigned long long)iwctl_num(s, "rx_immediates"),
		       (unsigned long long)iwctl_num(s, "tx_reads"), (unsigned long long)iwctl_num(s, "rx_reads"));
}

static void explain(const json_t *s)
{
	const char *transport = iwctl_str(s, "transport", "?"), *advice = iwctl_str(s, "advice", "");
	bool plain = !strcmp(transport, "tcp");

	printf("%s %s -> %s  %s[%llu] fd %lld, %s: %s%s%s\n", !strcmp(iwctl_str(s, "side", ""), "client") ? "to  " : "from",
	       iwctl_str(s, "local", "-"), iwctl_str(s, "peer", "-"), iwctl_str(s, "program", "?"), (unsigned long long)iwctl_num(s, "pid"),
	       (long long)json_integer_value(json_object_get(s, "fd")), iwctl_str(s, "side", "?"), iwctl_colour(plain ? WARN : GOOD),
	       plain ? "plain TCP" : transport, iwctl_colour(PLAIN));
	if (!plain) {
		explain_good(s);
		return;
	}
	printf("  Reason %llu, %s: %s\n", (unsigned long long)iwctl_num(s, "reason_number"), iwctl_str(s, "reason", "?"),
	       iwctl_str(s, "sentence", ""));
	if (*advice)
		printf("  %s\n", advice);
}

static int parse(const char *arg, struct wanted *w)
{
	char host[IWCTL_HOST_MAX];
	int error;

	if (parse_process(arg, w))
		return IWCTL_OK;
	if (!iwctl_split_addr(arg, host, &w->port)) {
		iwctl_error("\"%s\" is neither PID, PID/FD, HOST nor HOST:PORT", arg);
		return IWCTL_USAGE;
	}
	w->nips = resolve(host, 0, w->ips, sizeof(w->ips) / sizeof(*w->ips), &error);
	if (w->nips)
		return IWCTL_OK;
	iwctl_error("%s: %s", host, gai_strerror(error));
	return IWCTL_NO;
}

static json_t *nothing(const struct wanted *w, const char *arg, uint64_t uptime_ms)
{
	char s[IWCTL_HOST_MAX + 128];

	if (w->process)
		return iwctl_proc_why(w->pid, w->fd, uptime_ms);
	snprintf(s, sizeof(s), "No program with the library has a connection with %.250s. 'iwctl check' tells whether one would be accelerated.",
		 arg);
	return json_pack("[s]", s);
}

int why_main(int argc, char **argv)
{
	struct wanted w = { 0 };
	json_t *list = NULL, *reasons = NULL, *status = NULL, *found, *notes, *s;
	size_t i, n;
	int code = parse(argv[1], &w);

	if (code == IWCTL_OK)
		code = iwctl_connections(&list);
	if (code == IWCTL_OK)
		code = iwctl_query("Reasons", &reasons);
	if (code == IWCTL_OK)
		code = iwctl_query("Status", &status);
	if (code != IWCTL_OK)
		goto out;
	found = json_array();
	json_array_foreach(list, i, s) {
		if (!matches(&w, s))
			continue;
		add_texts(s, reasons);
		json_array_append(found, s);
	}
	n = json_array_size(found);
	notes = n ? json_array() : nothing(&w, argv[1], iwctl_num(status, "uptime_ms"));
	if (iwctl.json) {
		code = iwctl_print_json(json_pack("{s:o, s:o}", "connections", found, "notes", notes));
	} else {
		json_array_foreach(found, i, s)
			explain(s);
		json_array_foreach(notes, i, s)
			printf("%s\n", json_string_value(s));
		json_decref(found);
		json_decref(notes);
	}
	if (code == IWCTL_OK && !n)
		code = IWCTL_NO;
out:
	json_decref(list);
	json_decref(reasons);
	json_decref(status);
	return code;
}
