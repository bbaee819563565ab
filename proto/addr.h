/* SPDX-License-Identifier: MIT */
/* Addresses of TCP connections: as they stand in messages and shared memory, as the kernel's, as text. */
#ifndef IW_PROTO_ADDR_H
#define IW_PROTO_ADDR_H

#include <assert.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* IPv4 is kept as IPv4-mapped IPv6 in `ip`. */
struct iw_addr {
	uint8_t ip[16];
	uint32_t scope_id;	/* host order, IPv6 link-local only */
	uint16_t port;		/* host order */
	uint16_t family;	/* AF_INET or AF_INET6 as the application's socket has it (v4-mapped stays AF_INET6) */
};
static_assert(sizeof(struct iw_addr) == 24, "iw_addr");

struct iw_tuple {		/* a connection as one end of it sees it */
	struct iw_addr local, peer;
};

static inline bool iw_ip_same(const uint8_t a[16], const uint8_t b[16])
{
	return !memcmp(a, b, 16);
}

/* IPv4-mapped? */
static inline bool iw_ip_v4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(ip, mapped, 12);
}

/* Do the first len bits agree? Of any addresses, IPv4-mapped or not. */
static inline bool iw_prefix_has(const uint8_t *prefix, unsigned int len, const uint8_t *ip)
{
	unsigned int full = len / 8, rest = len % 8;

	return !memcmp(prefix, ip, full) && (!rest || !((prefix[full] ^ ip[full]) & (uint8_t)(0xff << (8 - rest))));
}

/* From the four octets of an IPv4 address. */
static inline void iw_ip_from_v4(uint8_t ip[16], const void *v4)
{
	memset(ip, 0, 10);
	ip[10] = ip[11] = 0xff;
	memcpy(ip + 12, v4, 4);
}

/* Of an address whose socket is not known. */
static inline uint16_t iw_ip_family(const uint8_t ip[16])
{
	return iw_ip_v4(ip) ? AF_INET : AF_INET6;
}

static inline bool iw_addr_same(const struct iw_addr *a, const struct iw_addr *b)
{
	return a->port == b->port && iw_ip_same(a->ip, b->ip);
}

static inline bool iw_tuple_same(const struct iw_tuple *a, const struct iw_tuple *b)
{
	return iw_addr_same(&a->local, &b->local) && iw_addr_same(&a->peer, &b->peer);
}

static inline struct iw_tuple iw_tuple_mirror(const struct iw_tuple *t)
{
	return (struct iw_tuple){ .local = t->peer, .peer = t->local };
}

/* FNV-1a over the 16 address octets and, when port != 0, the port (host order, low octet first). */
static inline uint32_t iw_addr_hash(const uint8_t ip[16], uint16_t port)
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < 16; i++)
		h = (h ^ ip[i]) * 16777619u;
	if (port) {
		h = (h ^ (port & 0xff)) * 16777619u;
		h = (h ^ (port >> 8)) * 16777619u;
	}
	return h;
}

static inline uint32_t iw_tuple_hash(const struct iw_tuple *t)
{
	return iw_addr_hash(t->local.ip, t->local.port) * 31u + iw_addr_hash(t->peer.ip, t->peer.port);
}

bool iw_ip_any(const uint8_t ip[16]);		/* unspecified, IPv4 or IPv6 */
bool iw_ip_loopback(const uint8_t ip[16]);	/* 127.0.0.0/8 or ::1 */

/* false: neither IPv4 nor IPv6, or cut short; a has the family then, as far as there is one. */
bool iw_addr_from_sockaddr(struct iw_addr *a, const struct sockaddr *sa, socklen_t len);
/* By a->family; whatever is not AF_INET becomes AF_INET6. Returns the length. */
socklen_t iw_addr_to_sockaddr(const struct iw_addr *a, struct sockaddr_storage *ss);

/* Static buffers, four (tuples: two) in turn. */
const char *iw_ip_text(const uint8_t ip[16]);
const char *iw_addr_text(const struct iw_addr *a);
const char *iw_tuple_text(const struct iw_tuple *t);

#endif
