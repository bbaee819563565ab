/* SPDX-License-Identifier: MIT */
/* MPA startup (RFC 5044, RFC 6581): Request and Reply frames, and the small state machine that exchanges them. No I/O. */
#ifndef IW_PROTO_MPA_H
#define IW_PROTO_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IW_MPA_HDR	20u
#define IW_MPA_PD_MAX	512u
#define IW_MPA_FRAME_MAX (IW_MPA_HDR + IW_MPA_PD_MAX)
#define IW_MPA_NONEG	0x3fffu		/* "not negotiated here" */

/* A Request or Reply, decoded. pd is the ULP's private data (the 4 octets of connection data are not in it). */
struct iw_mpa_frame {
	uint8_t reply;			/* 0 Request, 1 Reply */
	uint8_t rev;			/* 1 or 2 */
	uint8_t markers, crc, reject, enhanced;	/* M C R S */
	uint8_t p2p, rtr_send, rtr_write, rtr_read;	/* A B C D */
	uint16_t ird, ord;		/* with enhanced */
	uint16_t pd_len;
	uint8_t pd[IW_MPA_PD_MAX];
};

/* Encode f into out (at least IW_MPA_FRAME_MAX octets). Returns octets, or -EINVAL (sizes, rev/enhanced mismatch). */
int iw_mpa_encode(const struct iw_mpa_frame *f, uint8_t *out);
/*
 * Decode a frame from the first `len` octets received. Returns octets consumed (> 0), 0 when more are needed,
 * -EPROTO when it can never become a valid frame of the wanted kind (close the connection, RFC 5044 7.1.1).
 * No octet beyond the frame is looked at; the caller decides whether trailing octets are an error.
 */
int iw_mpa_decode(struct iw_mpa_frame *f, const uint8_t *in, size_t len, bool want_reply);

/* MULPDU for an EMSS (RFC 5044 4.5), clamped to 128..64768. */
uint16_t iw_mpa_mulpdu(uint32_t emss, bool markers);
/* Octets on the wire of an FPDU with this ULPDU length: without Markers; with Markers, when it starts at stream position pos. */
uint32_t iw_mpa_fpdu_len(uint16_t ulpdu);
uint32_t iw_mpa_fpdu_len_markers(uint64_t pos, uint16_t ulpdu);

#endif
