// SPDX-License-Identifier: MIT
/* Addresses as people write them. */
#include "addr.h"

#include <stdlib.h>
#include <string.h>

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
