/* SPDX-License-Identifier: MIT */
/*
 * Messages between two daemons: RDMAP Sends on QN 0 of a control session, big-endian, one message per Send.
 *
 * A session has a dialler and an acceptor. The dialler asks (HELLO, LOOKUP, CLAIM, PING) and every question is answered
 * (ANSWER); the acceptor tells (LISTENER, CONFIRM) and every notice is acknowledged (ACK). Windows, so that no Send ever
 * finds the receive queue empty: questions <= bufs / 2, notices <= bufs / 4 of the receiver's posted buffers.
 *
 * A connection is agreed on in three steps. The server's daemon asks CLAIM on the session it dialled; the client's daemon
 * answers yes and goes on holding; the server's daemon, with everything ready for MPA, says CONFIRM on the session that
 * the client's daemon dialled. Each side thus acts only on what came through a session it dialled itself, and until
 * CONFIRM either side may still fall back to plain TCP.
 */
#ifndef IW_PROTO_SESSION_H
#define IW_PROTO_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page.h"

#define IW_SM_VERSION	1
#define IW_SM_PD_LEN	20u		/* private data of MPA Request and Reply */
#define IW_SM_REJECT_LEN 12u		/* private data of a Reply with R=1 */
#define IW_SM_MAX	60u		/* octets of the longest message: an inline Send */
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
	IW_SM_LOOKUP = 2,	/* dialler: is a listener registered at a? The acceptor tells of later changes */
	IW_SM_CLAIM = 3,	/* dialler: is the connection a (local) - b (peer), as the dialler sees it, offered? */
	IW_SM_PING = 4,		/* dialler */
	IW_SM_ANSWER = 16,	/* acceptor: seq of the question, yes or no with reason */
	IW_SM_LISTENER = 32,	/* acceptor: yes = a listener is registered at a, no = not any more; of its control port, with reason
				 * DAEMON_GONE: the acceptor's daemon was told to stop, FIN follows */
	IW_SM_CONFIRM = 33,	/* acceptor: connection a - b as the acceptor sees it: yes = start MPA, no = it stays plain, reason */
	IW_SM_ACK = 48,		/* dialler: seq of the notice */
};

struct iw_sm {
	uint8_t type;		/* enum iw_sm_type */
	uint8_t yes;		/* ANSWER, LISTENER, CONFIRM */
	uint16_t reason;	/* enum iw_reason, or one of a newer daemon; 0 with yes */
	uint32_t seq;
	uint64_t generation;	/* HELLO */
	struct iw_addr a, b;	/* ip and port only; family follows from the address, scope_id is 0 */
};

/* Returns octets written (<= IW_SM_MAX), or -EINVAL. */
int iw_sm_encode(const struct iw_sm *m, uint8_t out[IW_SM_MAX]);
/*
 * Decode and validate one whole message: type known and allowed in this direction, exact length, reserved octets zero,
 * reason known, addresses unicast with a port. from_dialler: 1 when the acceptor received it. 0 or -EPROTO.
 */
int iw_sm_decode(struct iw_sm *m, const uint8_t *in, size_t len, bool from_dialler);
const char *iw_sm_name(unsigned int type);

#endif
