// SPDX-License-Identifier: MIT
/* Judges what is known of other hosts and of connections, and the way to a server. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus.h"
#include "iwctl.h"
#include "judge.h"
#include "out.h"
#include "proto/reason.h"
#include "verdict.h"

#define DIAL_MS 1000
#define LINES	10u	/* of hosts, or of reasons; the others are only counted */

static void hosts(json_t *list)
{
	char err[512];
	json_t *peers = NULL, *p;
	unsigned int good = 0, bad = 0;
	size_t i;

	iwctl_error_keep(err, sizeof(err));
	if (iwctl_query("Peers", &peers) != IWCTL_OK)
		peers = NULL;
	iwctl_error_keep(NULL, 0);
	json_array_foreach(peers, i, p) {
		unsigned int reason = (unsigned int)iwctl_num(p, "reason_number");

		if (!strcmp(iwctl_str(p, "state", ""), "iwarp"))
			good++;
		else if (!strcmp(iwctl_str(p, "state", ""), "plain") && bad++ < LINES)
			verdict(list, VERDICT_WARN, "other hosts", iw_reason_advice(reason), "%s: %s", iwctl_str(p, "address", "?"), iw_reason_sentence(reason));
	}
	if (bad > LINES)
		verdict(list, VERDICT_WARN, "other hosts", "iwctl peers", "and %u more", bad - LINES);
	if (good)
		verdict(list, VERDICT_OK, "other hosts", NULL, "%u with iwarpd", good);
	json_decref(peers);
}

void judge_known(json_t *list, bool (*match)(const json_t *connection, const void *arg), const void *arg)
{
	unsigned int counts[IW_REASON_MAX] = { 0 }, fast = 0;
	char err[512];
	json_t *all = NULL, *c;
	size_t i;

	if (!match)
		hosts(list);
	iwctl_error_keep(err, sizeof(err));
	if (iwctl_connections(&all) != IWCTL_OK)
		all = NULL;
	iwctl_error_keep(NULL, 0);
	json_array_foreach(all, i, c) {
		uint64_t reason = iwctl_num(c, "reason_number");

		if (match && !match(c, arg))
			continue;
		if (strcmp(iwctl_str(c, "transport", ""), "tcp"))
			fast++;
		else if (reason < IW_REASON_MAX)
			counts[reason]++;
	}
	json_decref(all);
	for (unsigned int r = 1; r < IW_REASON_MAX; r++)
		if (counts[r])
			verdict(list, r == IW_REASON_YOUNG || r == IW_REASON_MATCHED || r == IW_REASON_NO_GAIN ? VERDICT_OK : VERDICT_WARN, "connections",
				r == IW_REASON_YOUNG || r == IW_REASON_MATCHED || r == IW_REASON_NO_GAIN ? NULL : iw_reason_advice(r),
				"%u plain TCP: reason %u, %s: %s", counts[r], r, iw_reason_name(r), iw_reason_sentence(r));
	if (fast)
		verdict(list, VERDICT_OK, "connections", NULL, "%u accelerated", fast);
	else if (match)
		verdict(list, VERDICT_WARN, "connections", "One is when it has carried enough (upgrade_after in iwsock.conf) and the other end can: 'iwctl why'.", "none is accelerated");
}

/* 0, or -errno of the first address that answers at all. */
static int dial(const char *host, unsigned int port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *ai;
	char service[8];
	socklen_t len = sizeof(int);
	struct pollfd p;
	int err = 0, fd;

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &ai))
		return -EINVAL;
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0 && errno != EINPROGRESS)) {
		err = errno;
	} else {
		p = (struct pollfd){ .fd = fd, .events = POLLOUT };
		if (poll(&p, 1, DIAL_MS) == 0)
			err = ETIMEDOUT;
		else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
			err = errno;
	}
	if (fd >= 0)
		close(fd);
	freeaddrinfo(ai);
	return -err;
}

/* What a connection attempt to the control port says of daemon and firewall there. */
static void try_port(json_t *list, const char *host, unsigned int port)
{
	int err = dial(host, port);
	char advice[160];

	snprintf(advice, sizeof(advice), "Open %u/tcp there and on the way, in both directions: a firewall drops it, or the host is down.", port);
	if (!err)
		verdict(list, VERDICT_OK, "firewall", NULL, "port %u of %s accepts from here", port, host);
	else if (err == -ECONNREFUSED)
		verdict(list, VERDICT_BAD, "firewall", "Run iwarpd there ('systemctl status iwarpd'); if it runs, a firewall there rejects, or control_port differs.", "port %u of %s refuses", port, host);
	else if (err == -ETIMEDOUT)
		verdict(list, VERDICT_BAD, "firewall", advice, "port %u of %s: no answer within %u ms", port, host, DIAL_MS);
	else if (err == -EHOSTUNREACH || err == -ENETUNREACH || err == -EACCES || err == -EPERM)
		verdict(list, VERDICT_BAD, "firewall", "A firewall rejects it, here or there, or there is no way: 'ip route get', 'nft list ruleset'.", "port %u of %s: %s", port, host, strerror(-err));
	else
		verdict(list, VERDICT_BAD, "firewall", advice, "port %u of %s: %s", port, host, strerror(-err));
}

bool judge_elsewhere(const json_t *status)
{
	char path[64], theirs[64] = "", ours[64] = "";

	snprintf(path, sizeof(path), "/proc/%llu/ns/net", (unsigned long long)iwctl_num(status, "pid"));
	return readlink(path, theirs, sizeof(theirs) - 1) > 0 && readlink("/proc/self/ns/net", ours, sizeof(ours) - 1) > 0 && strcmp(ours, theirs);
}

void judge_way(json_t *list, const char *host, unsigned short port, const json_t *status)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG }, *ai;
	char numeric[NI_MAXHOST] = "", err[512], *text = NULL, *save = NULL, *line, *last = NULL;
	int r = getaddrinfo(host, NULL, &hints, &ai);
	bool ok = false;

	if (r == 0) {
		r = getnameinfo(ai->ai_addr, ai->ai_addrlen, numeric, sizeof(numeric), NULL, 0, NI_NUMERICHOST);
		freeaddrinfo(ai);
	}
	if (r) {
		verdict(list, VERDICT_BAD, "name", "Give a name that resolves, or an address.", "%s: %s", host, gai_strerror(r));
		return;
	}
	if (!status) {
		try_port(list, numeric, judge_port(NULL));
		return;
	}
	iwctl_error_keep(err, sizeof(err));
	r = iwctl_probe(numeric, port, &ok, &text);
	iwctl_error_keep(NULL, 0);
	if (r != IWCTL_OK) {
		verdict(list, VERDICT_BAD, "way", "iwctl check says more.", "%s", err);
		return;
	}
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (last)
			verdict(list, VERDICT_OK, "way", NULL, "%s", last);
		last = line;
	}
	verdict(list, ok ? VERDICT_OK : VERDICT_BAD, "way", ok ? NULL : "See the lines before it, and 'iwctl reasons'.", "%s", last ? last : "?");
	free(text);
	if (!ok && !judge_elsewhere(status))
		try_port(list, numeric, judge_port(status));
}
