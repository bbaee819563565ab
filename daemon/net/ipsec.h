/* SPDX-License-Identifier: MIT */
/* require_ipsec: does the kernel's IPsec policy database (XFRM SPD) ask for ESP on a connection, both ways (SEC-IPSEC-1)? */
#ifndef IWARPD_IPSEC_H
#define IWARPD_IPSEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/addr.h"
#include "proto/reason.h"

/* ---- ipsec.c: the database as we understand it; no I/O ---- */

struct ipsec_policy {
	bool out;			/* else in */
	bool v4;
	bool esp;			/* lets pass only what ESP protects */
	bool narrow;			/* has a mark, an interface or an interface id: we cannot tell whether it holds for a socket */
	uint8_t proto;			/* 0: any */
	uint8_t src_len, dst_len;
	uint8_t src[16], dst[16];	/* IPv4: the first four octets */
	uint16_t sport, sport_mask, dport, dport_mask;	/* host order */
	uint32_t priority;		/* the lowest one that matches decides */
};

struct ipsec_table {
	struct ipsec_policy *policy;
	size_t n, cap;
};

/*
 * Adds what a datagram of the answer to XFRM_MSG_GETPOLICY (dump) says. 1: more is to come; 0: that was the last; -errno: the
 * kernel's, -EINTR when the database changed meanwhile, -EBADMSG for what cannot be understood: the table is worth nothing then.
 */
int ipsec_table_parse(struct ipsec_table *t, const void *buf, size_t len);
void ipsec_table_clear(struct ipsec_table *t);
/*
 * Only ESP in both directions. Whatever is in doubt counts against it. A port 0 of t is one that is not known yet: only policies
 * without that port say something about it.
 */
bool ipsec_table_covers(const struct ipsec_table *t, const struct iw_tuple *c);

/* ---- ipsec_kernel.c: the kernel's database ---- */

enum ipsec_state { IPSEC_OFF, IPSEC_ON, IPSEC_UNREADABLE };

/* Says in the log when require_ipsec is set and the database cannot be read. */
void ipsec_start(void);
void ipsec_stop(void);
void ipsec_renew(void);			/* require_ipsec may have changed */
enum ipsec_state ipsec_state(void);
unsigned int ipsec_policies(void);	/* of both directions */
/* As the database stands now. ACCELERATED: not required, within this host, or covered. Otherwise NO_IPSEC. */
enum iw_reason ipsec_check(const struct iw_tuple *t);

#endif
