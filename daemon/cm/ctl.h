/* SPDX-License-Identifier: MIT */
/* Clients, the programs that talk to us, and their requests. */
#ifndef IWARPD_CTL_H
#define IWARPD_CTL_H

#include "cm.h"
#include "daemon/base/list.h"
#include "daemon/stream/stream.h"
#include "proto/ctlmsg.h"

struct client_priv {
	struct client *self;
	struct list node;		/* in clients */
	struct list reqs;		/* struct cm_req: wait for an answer */
	struct list offers;		/* struct offer, not yet committed */
	struct list listeners;
	struct list plain;
	struct list grants;
	unsigned int nreqs, nlisteners, nplain, ngrants;
	struct list fresh, intents;	/* intent.c */
	bool set_aside;
};
extern struct list clients;
static inline struct client *client_of(struct list *node)
{
	return list_entry(node, struct client_priv, node)->self;
}
static inline struct client *client_of_fresh(struct list *node)
{
	return list_entry(node, struct client_priv, fresh)->self;
}

/* A request that waits for its answer. Lives in the object that works on it. */
struct cm_req {
	struct list node;		/* in client_priv.reqs */
	struct client *client;		/* NULL: the client is gone, the answer is dropped */
	uint32_t seq;
	uint16_t type;
};
/* -EDQUOT: too many at once. */
int req_begin(struct cm_req *r, struct client *c, const struct iw_ctl_hdr *h);
void req_end(struct cm_req *r);
/* Of a CLAIM, before the first step that cannot be taken back. false: the library has given up waiting, the connection is plain TCP. */
bool req_promise(struct cm_req *r);
/* Answer (r->client may be gone) and end. req_stream closes what it grants before it says so. */
void req_ack(struct cm_req *r, enum iw_reason reason, uint64_t id);
void req_plain(struct cm_req *r, enum iw_reason reason);
void req_stream(struct cm_req *r, const struct stream_grant *g);
/* Send a reply now; fds stay the caller's. A client that does not take its replies is closed. */
void ctl_reply(struct client *c, void *msg, const int *fds, unsigned int nfds);

#endif
