/* SPDX-License-Identifier: MIT */
/* Offers, the client's side of a set-up. */
#ifndef IWARPD_OFFER_H
#define IWARPD_OFFER_H

#include <errno.h>

#include "ctl.h"
#include "daemon/session/session.h"

enum offer_state { OFFER_ASKING, OFFER_OFFERED, OFFER_HELD };
struct offer {
	struct list all, hash, node;	/* in all offers; by tuple; in client_priv.offers until committed */
	struct cm_req req;
	struct sess_ask ask;
	struct iw_tuple t;
	enum offer_state state;
	struct client *client;		/* NULL once committed or gone */
	struct stream *st;
	struct list claims;		/* struct claim: wait for the end of OFFERED */
	struct timer timer;		/* claim_timeout since the first held octet */
	uint64_t conn_id;
	uint32_t uid;
	int tcp, fd;
	bool confirm_peer;		/* the destination is the library's word: compare when established */
	bool spoken_to;			/* octets from the server were there before the offer */
	bool promised;			/* a claim was answered yes, CONFIRM is awaited */
	enum iw_reason doomed;		/* not yet committed: withdraw at once when it is */
};
/* What stream_offer(), stream_claim() or stream_claim_local() failed for. */
static inline enum iw_reason no_stream_reason(int err)
{
	return err == -EDQUOT ? IW_REASON_QUOTA : IW_REASON_RESOURCES;
}
void no_stream_log(const struct stream_owner *o, const struct iw_tuple *t, int err);
void offers_start(void);
int cm_offer(struct client *c, const struct iw_ctl_conn *m, int fd);	/* takes fd */
int cm_commit(struct client *c, const struct iw_ctl_id *m);
int cm_abandon(struct client *c, const struct iw_ctl_id *m);
void offers_client_gone(struct client *c);
struct offer *offer_find(const struct iw_tuple *t);
/* HELD: the connection stays plain; the held octets go on as plain TCP. */
void offer_withdraw(struct offer *o, enum iw_reason reason);
/* HELD: start MPA as Initiator (the claim was confirmed). Frees o. */
void offer_claimed(struct offer *o);
/* Take out of the tables without touching the stream (it was handed to a local claim). Frees o. */
void offer_done(struct offer *o);
/* Every committed or uncommitted offer to this address (port 0: to any port) from that one. */
void offers_withdraw_to(const uint8_t ip[16], uint16_t port, const uint8_t local_ip[16], enum iw_reason reason);
/* A listener of this host on port went away: HELD offers to this host that no listener matches any more. */
void offers_listener_gone(uint16_t port);

#endif
