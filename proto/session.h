/* SPDX-License-Identifier: MIT */
/*
 * Messages between two daemons: RDMAP Sends on QN 0 of a control session, big-endian, one message per Send.
 *
 * A session has a dialler and an acceptor. The dialler asks (HELLO, PROPOSE, HOLD, VOUCH, PING) and every question is answered
 * (ANSWER), some of them when the answer is known; the acceptor tells (GOODBYE) and every notice is acknowledged (ACK). Windows, so that
 * no Send ever finds the receive queue empty: questions <= bufs / 2, notices <= bufs / 4 of the receiver's posted buffers.
 *
 * Any program of a host can dial. What is asked about connections is answered only on sessions of which the daemon that we dialled at that
 * address has said that they are its own (VOUCH).
 */
#ifndef IW_PROTO_SESSION_H
#define IW_PROTO_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page.h"

#define IW_SM_VERSION	2
#define IW_SM_PD_LEN	20u		/* private data of MPA Request and Reply */
#define IW_SM_REJECT_LEN 12u		/* private data of a Reply with R=1 */
#define IW_SM_MAX	76u		/* octets of the longest message: an inline Send */
#define IW_SM_BUFS	128u		/* receive buffers that this implementation posts */
#define IW_SM_BUF_SIZE	256u		/* of each */

struct iw_sm_pd {
	uint8_t ver_lo, ver_hi;		/* Reply: both = the chosen one */
	uint16_t bufs;			/* QN 0 buffers posted, 16..1024 */
	uint16_t buf_size;		/* of each, >= IW_SM_MAX */
	uint64_t generation;		/* of the daemon, random */
};
void iw_sm_pd_encode(const struct iw_sm_pd *pd, uint8_t out[IW_SM_PD_LEN]);
/* 0, -EPROTO (not ours, or ranges), -EPROTONOSUPPORT (no common version). Unknown trailing octets are ignored. */
int iw_sm_pd_decode(struct iw_sm_pd *pd, const uint8_t *in, size_t len);
/* reason: enum iw_reason */
void iw_sm_reject_encode(unsigned int reason, uint8_t out[IW_SM_REJECT_LEN]);
int iw_sm_reject_decode(const uint8_t *in, size_t len);		/* the reason, or -EPROTO */

enum iw_sm_type {
	IW_SM_HELLO = 1,	/* dialler, first message: generation */
	IW_SM_PROPOSE = 2,	/* dialler: the connection a (local) - b (peer), as the dialler sees it, is proposed here; there, too? IW_SM_F_*.
				 * With a reason: it stays plain here, and nothing is asked */
	IW_SM_HOLD = 3,		/* dialler: it sends nothing from pos on; crc of the octets before. Yes (HELD): the same of the other end,
				 * which has read up to pos (docs/upgrade.md) */
	IW_SM_PING = 4,		/* dialler */
	IW_SM_VOUCH = 6,	/* dialler: is the control connection a (the acceptor's end) - b, which came to us from there, your own? */
	IW_SM_ANSWER = 16,	/* acceptor: seq of the question, yes or no with reason */
	IW_SM_GOODBYE = 32,	/* acceptor: its daemon was told to stop, FIN follows */
	IW_SM_ACK = 48,		/* dialler: seq of the notice */
};

/* PROPOSE, and a yes to it */
#define IW_SM_F_SWITCHED 1u	/* that end is relayed: an upgrade may begin */
#define IW_SM_F_CLIENT	2u	/* that end is the one that connected */

struct iw_sm {
	uint8_t type;		/* enum iw_sm_type */
	uint8_t yes;		/* ANSWER */
	uint8_t flags;		/* IW_SM_F_* */
	uint16_t reason;	/* ANSWER, PROPOSE: enum iw_reason, or one of another daemon; 0 with yes */
	uint32_t seq;
	uint64_t generation;	/* HELLO */
	struct iw_addr a, b;	/* ip and port only; family follows from the address, scope_id is 0 */
	uint64_t nonce;		/* HOLD: of the attempt, random */
	uint64_t pos;		/* HOLD, ANSWER: octets since the connection began */
	uint32_t crc;		/* HOLD, ANSWER: CRC32c of the last IW_SM_CRC octets before pos (all, if there are fewer); 0: not relayed here */
};
#define IW_SM_CRC	64u

/* Returns octets written (<= IW_SM_MAX), or -EINVAL. */
int iw_sm_encode(const struct iw_sm *m, uint8_t out[IW_SM_MAX]);
/*
 * Decode and validate one whole message: type known and allowed in this direction, exact length, reserved octets zero,
 * reason known, addresses unicast with a port. from_dialler: 1 when the acceptor received it. 0 or -EPROTO.
 */
int iw_sm_decode(struct iw_sm *m, const uint8_t *in, size_t len, bool from_dialler);
const char *iw_sm_name(unsigned int type);

#endif
