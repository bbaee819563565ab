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
	struct list proposals;
	struct list plain;
	struct list grants;
	unsigned int nreqs, nproposals, nplain, ngrants;
};
extern struct list clients;
static inline struct client *client_of(struct list *node)
{
	return list_entry(node, struct client_priv, node)->self;
}

/* A request that waits for its answer. Lives in the object that works on it. */
struct cm_req {
	struct list node;		/* in client_priv.reqs */
	struct client *client;		/* NULL: the client is gone, the answer is dropped */
	uint32_t seq;
	void (*cancel)(struct cm_req *r);	/* the client is gone, and r is ended; may be NULL */
};
/* -EDQUOT: too many at once. */
int req_begin(struct cm_req *r, struct client *c, const struct iw_ctl_hdr *h);
void req_end(struct cm_req *r);
void req_move(struct cm_req *to, struct cm_req *from);
/* Answer (r->client may be gone) and end. req_stream closes what it grants before it says so. */
void req_ack(struct cm_req *r, enum iw_reason reason, uint64_t id);
void req_plain(struct cm_req *r, enum iw_reason reason, uint64_t takes);
void req_stream(struct cm_req *r, const struct stream_grant *g);
/* A pidfd of its process, which is the caller's; -errno. */
int ctl_pidfd(struct client *c);
/* Send a reply now; fds stay the caller's. A client that does not take its replies is closed. */
void ctl_reply(struct client *c, void *msg, const int *fds, unsigned int nfds);

#endif
