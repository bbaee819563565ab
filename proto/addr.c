// SPDX-License-Identifier: MIT
/* Addresses: the kernel's form of them, kinds of them, text. */
#include "addr.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>

bool iw_ip_any(const uint8_t ip[16])
{
	static const uint8_t any6[16], any4[16] = { [10] = 0xff, [11] = 0xff };

	return iw_ip_same(ip, any6) || iw_ip_same(ip, any4);
}

bool iw_ip_loopback(const uint8_t ip[16])
{
	static const uint8_t one[16] = { [15] = 1 };

	return iw_ip_same(ip, one) || (iw_ip_v4(ip) && ip[12] == 127);
}

bool iw_addr_from_sockaddr(struct iw_addr *a, const struct sockaddr *sa, socklen_t len)
{
	const struct sockaddr_in *in = (const void *)sa;
	const struct sockaddr_in6 *in6 = (const void *)sa;

	memset(a, 0, sizeof(*a));
	if (!sa || len < sizeof(sa->sa_family))
		return false;
	a->family = sa->sa_family;
	if (sa->sa_family == AF_INET && len >= sizeof(*in)) {
		iw_ip_from_v4(a->ip, &in->sin_addr);
		a->port = ntohs(in->sin_port);
		return true;
	}
	if (sa->sa_family == AF_INET6 && len >= offsetof(struct sockaddr_in6, sin6_scope_id)) {
		memcpy(a->ip, &in6->sin6_addr, 16);
		a->port = ntohs(in6->sin6_port);
		if (len >= sizeof(*in6) && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			a->scope_id = in6->sin6_scope_id;
		return true;
	}
	return false;
}

socklen_t iw_addr_to_sockaddr(const struct iw_addr *a, struct sockaddr_storage *ss)
{
	struct sockaddr_in *in = (void *)ss;
	struct sockaddr_in6 *in6 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (a->family == AF_INET) {
		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip + 12, 4);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(a->port);
	in6->sin6_scope_id = a->scope_id;
	memcpy(&in6->sin6_addr, a->ip, 16);
	return sizeof(*in6);
}

const char *iw_ip_text(const uint8_t ip[16])
{
	static char buf[4][INET6_ADDRSTRLEN];
	static unsigned int turn;
	char *s = buf[turn++ % 4];

	if (iw_ip_v4(ip))
		inet_ntop(AF_INET, ip + 12, s, sizeof(buf[0]));
	else
		inet_ntop(AF_INET6, ip, s, sizeof(buf[0]));
	return s;
}

const char *iw_addr_text(const struct iw_addr *a)
{
	static char buf[4][INET6_ADDRSTRLEN + 12];
	static unsigned int turn;
	char *s = buf[turn++ % 4];

	snprintf(s, sizeof(buf[0]), iw_ip_v4(a->ip) ? "%s:%u" : "[%s]:%u", iw_ip_text(a->ip), a->port);
	return s;
}

const char *iw_tuple_text(const struct iw_tuple *t)
{
	static char buf[2][2 * INET6_ADDRSTRLEN + 32];
	static unsigned int turn;
	char *s = buf[turn++ % 2];

	snprintf(s, sizeof(buf[0]), "%s - %s", iw_addr_text(&t->local), iw_addr_text(&t->peer));
	return s;
}
