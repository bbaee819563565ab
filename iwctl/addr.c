// SPDX-License-Identifier: MIT
/* Addresses as people write them. */
#include "addr.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "iwctl.h"
#include "out.h"

static bool parse_port(const char *s, uint16_t *port)
{
	char *end;
	unsigned long v;

	if (*s < '0' || *s > '9')
		return false;
	v = strtoul(s, &end, 10);
	if (*end || v < 1 || v > 65535)
		return false;
	*port = (uint16_t)v;
	return true;
}

bool iwctl_split_addr(const char *s, char host[IWCTL_HOST_MAX], uint16_t *port)
{
	const char *end, *rest;

	*port = 0;
	if (*s == '[') {
		end = strchr(++s, ']');
		if (!end)
			return false;
		rest = end + 1;
		if (*rest && *rest != ':')
			return false;
	} else {
		rest = strchr(s, ':');
		/* more than one colon without brackets is an IPv6 address without port */
		end = rest && strchr(rest + 1, ':') ? NULL : rest;
		if (!end)
			end = rest = s + strlen(s);
	}
	if (end == s || (size_t)(end - s) >= IWCTL_HOST_MAX)
		return false;
	memcpy(host, s, (size_t)(end - s));
	host[end - s] = 0;
	return !*rest || parse_port(rest + 1, port);
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

bool iwctl_place_matches(const struct iwctl_place *p, const char *text)
{
	char host[IWCTL_HOST_MAX];
	struct in6_addr ip;
	uint16_t port;
	int error;

	if (!text || !iwctl_split_addr(text, host, &port) || (p->port && port != p->port))
		return false;
	if (!resolve(host, AI_NUMERICHOST, &ip, 1, &error))
		return false;
	for (size_t i = 0; i < p->nips; i++)
		if (!memcmp(&p->ips[i], &ip, sizeof(ip)))
			return true;
	return false;
}

int iwctl_place_parse(const char *s, const char *what, struct iwctl_place *p)
{
	char host[IWCTL_HOST_MAX];
	int error;

	if (!iwctl_split_addr(s, host, &p->port)) {
		iwctl_error("\"%s\" is neither %s", s, what);
		return IWCTL_USAGE;
	}
	p->nips = resolve(host, 0, p->ips, sizeof(p->ips) / sizeof(*p->ips), &error);
	if (p->nips)
		return IWCTL_OK;
	iwctl_error("%s: %s", host, gai_strerror(error));
	return IWCTL_NO;
}
