/* SPDX-License-Identifier: MIT */
/* Wire structures and constants of MPA FPDUs, DDP and RDMAP (RFC 5044, 5041, 5040, 7306). Everything is big-endian except the CRC. */
#ifndef IW_PROTO_WIRE_H
#define IW_PROTO_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "be.h"

/* ---- MPA ---- */
#define IW_MPA_M	0x80u		/* octet 16 of a startup frame */
#define IW_MPA_C	0x40u
#define IW_MPA_R	0x20u
#define IW_MPA_S	0x10u
#define IW_MPA_CDATA	4u		/* octets of connection data (RFC 6581) */
#define IW_MPA_A	0x8000u		/* first word of it: peer-to-peer, RTR Send */
#define IW_MPA_B	0x4000u
#define IW_MPA_RTR_C	0x8000u		/* second word: RTR Write, RTR Read */
#define IW_MPA_D	0x4000u

#define IW_MPA_LEN	2u		/* ULPDU_Length */
#define IW_MPA_CRC	4u
#define IW_MARKER_IV	512u
#define IW_MARKER_LEN	4u
#define IW_MULPDU_MIN	128u
#define IW_MULPDU_MAX	64768u

static inline uint32_t iw_mpa_pad(uint32_t ulpdu)
{
	return -(IW_MPA_LEN + ulpdu) & 3;
}

/* ---- DDP ---- */
#define IW_DDP_T	0x80u
#define IW_DDP_L	0x40u
#define IW_DDP_DV	0x03u
#define IW_DDP_VERSION	1u
#define IW_RDMAP_RV	0xc0u
#define IW_RDMAP_VERSION 0x40u
#define IW_RDMAP_OP	0x0fu

enum iw_opcode {
	IW_OP_WRITE = 0,
	IW_OP_READ_REQ = 1,
	IW_OP_READ_RESP = 2,
	IW_OP_SEND = 3,
	IW_OP_SEND_INV = 4,
	IW_OP_SEND_SE = 5,
	IW_OP_SEND_SE_INV = 6,
	IW_OP_TERMINATE = 7,
	IW_OP_IMM = 8,
	IW_OP_IMM_SE = 9,
	IW_OP_ATOMIC_REQ = 10,
	IW_OP_ATOMIC_RESP = 11,
};

#define IW_QN_SEND	0u
#define IW_QN_READ	1u
#define IW_QN_TERM	2u
#define IW_QN_ATOMIC	3u

struct iw_ddp_tagged {
	uint8_t ctl, rdmap;
	uint32_t stag;
	uint64_t to;
} __attribute__((packed));

struct iw_ddp_untagged {
	uint8_t ctl, rdmap;
	uint32_t inv_stag;
	uint32_t qn, msn, mo;
} __attribute__((packed));

#define IW_DDP_TAGGED	14u
#define IW_DDP_UNTAGGED	18u
static_assert(sizeof(struct iw_ddp_tagged) == IW_DDP_TAGGED, "iw_ddp_tagged");
static_assert(offsetof(struct iw_ddp_tagged, stag) == 2 && offsetof(struct iw_ddp_tagged, to) == 6, "iw_ddp_tagged");
static_assert(sizeof(struct iw_ddp_untagged) == IW_DDP_UNTAGGED, "iw_ddp_untagged");
static_assert(offsetof(struct iw_ddp_untagged, inv_stag) == 2 && offsetof(struct iw_ddp_untagged, qn) == 6 &&
	      offsetof(struct iw_ddp_untagged, msn) == 10 && offsetof(struct iw_ddp_untagged, mo) == 14, "iw_ddp_untagged");

/* ---- RDMAP ---- */
struct iw_read_req {
	uint32_t sink_stag;
	uint64_t sink_to;
	uint32_t size;
	uint32_t src_stag;
	uint64_t src_to;
} __attribute__((packed));
static_assert(sizeof(struct iw_read_req) == 28, "iw_read_req");
static_assert(offsetof(struct iw_read_req, sink_to) == 4 && offsetof(struct iw_read_req, size) == 12 &&
	      offsetof(struct iw_read_req, src_stag) == 16 && offsetof(struct iw_read_req, src_to) == 20, "iw_read_req");

struct iw_atomic_req {
	uint32_t aop;		/* low four bits; the rest reserved */
	uint32_t rid;
	uint32_t stag;
	uint64_t to;
	uint64_t add_swap, add_swap_mask, compare, compare_mask;
} __attribute__((packed));
static_assert(sizeof(struct iw_atomic_req) == 52, "iw_atomic_req");
static_assert(offsetof(struct iw_atomic_req, stag) == 8 && offsetof(struct iw_atomic_req, to) == 12 &&
	      offsetof(struct iw_atomic_req, add_swap) == 20 && offsetof(struct iw_atomic_req, compare_mask) == 44, "iw_atomic_req");
#define IW_AOP_MASK	0x0fu
#define IW_AOP_FETCHADD	0u
#define IW_AOP_CMPSWAP	2u

struct iw_atomic_resp {
	uint32_t rid;
	uint64_t orig;
} __attribute__((packed));
static_assert(sizeof(struct iw_atomic_resp) == 12, "iw_atomic_resp");

#define IW_IMM_LEN	8u
#define IW_TERM_CTL	4u		/* Layer/EType, code, flags, reserved */
/* Layer, error type and code of a Terminate that MPA or the ULP, not the queue pair, has a reason for (RFC 5044 8, RFC 6581 9.3) */
#define IW_TERM_LLP		2u
#define IW_TERM_LLP_MPA		0u
#define IW_TERM_MPA_STARTUP	0x04u	/* invalid Request or Reply: never sent */
#define IW_TERM_MPA_LOCAL	0x05u	/* local catastrophic */
#define IW_TERM_MPA_IRD		0x06u	/* insufficient IRD resources */
#define IW_TERM_MPA_RTR		0x07u	/* no matching RTR option */
#define IW_TERM_M	0x80u		/* octet 2 of it */
#define IW_TERM_D	0x40u
#define IW_TERM_R	0x20u
#define IW_TERM_MAX	(IW_TERM_CTL + 2u + IW_DDP_UNTAGGED + 28u)
static_assert(IW_TERM_MAX == 52, "Terminate payload");

#endif
