// SPDX-License-Identifier: MIT
/* What replies and signals hold in their dictionaries: addresses, reasons, names, identifiers. */
#include "out.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "proto/addr.h"
#include "proto/reason.h"

void put_ip(struct bus_out *o, const char *key, const uint8_t ip[16])
{
	put(o, key, "s", iw_ip_text(ip));
}

/* 192.0.2.1:80, [2001:db8::1]:80, [fe80::1%2]:80; an AF_INET6 socket with an IPv4 peer shows [::ffff:192.0.2.1]:80, as ss does. */
void put_addr(struct bus_out *o, const char *key, const struct iw_addr *a)
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

void put_reason(struct bus_out *o, unsigned int reason)
{
	put(o, "reason", "s", iw_reason_name(reason));
	put(o, "reason_number", "u", reason);
}

/* Text that came from a program: D-Bus wants UTF-8. */
void put_program(struct bus_out *o, const char *key, const char *program)
{
	char s[64];
	size_t i;

	for (i = 0; i < sizeof(s) - 1 && program && program[i]; i++)
		s[i] = program[i] >= ' ' && program[i] < 127 ? program[i] : '?';
	s[i] = 0;
	put(o, key, "s", s);
}

void put_id(struct bus_out *o, uint64_t id)
{
	char s[20];

	snprintf(s, sizeof(s), "%" PRIx64, id);
	put(o, "id", "s", s);
}
