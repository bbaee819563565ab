/* SPDX-License-Identifier: MIT */
/* Addresses as people write them. */
#ifndef IWCTL_ADDR_H
#define IWCTL_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define IWCTL_HOST_MAX 256
/* "host:port", "[v6]:port", "host"; port 0 when there is none. false: not of that form. */
bool iwctl_split_addr(const char *s, char host[IWCTL_HOST_MAX], uint16_t *port);

struct iwctl_place {		/* of connections */
	uint16_t port;		/* 0: any */
	struct in6_addr ips[16];
	size_t nips;
};
/* An address, or a name with all of its addresses. An exit code of iwctl.h; what is wrong is said. what: the forms that would have been right. */
int iwctl_place_parse(const char *s, const char *what, struct iwctl_place *p);
bool iwctl_place_matches(const struct iwctl_place *p, const char *addr);	/* as the daemon tells it; NULL: no */

#endif
