/* SPDX-License-Identifier: MIT */
/* What the files of connection management share: clients, requests, offers, claims, listeners, peers. */
#ifndef IWARPD_CM_PRIV_H
#define IWARPD_CM_PRIV_H

#include "../proto/ctlmsg.h"
#include "cm.h"
#include "cm_list.h"
#include "conf.h"
#include "engine.h"
#include "log.h"
#include "session.h"

#define CM_HASH 1024u

/* ---- clients (ctl.c) ---- */
struct client_priv {
	struct client *self;
	struct list node;		/* in clients */
	struct list reqs;		/* struct cm_req: wait for an answer */
	struct list offers;		/* struct offer, not yet committed */
	struct list listeners;
	struct list plain;
	struct list grants;
	unsigned int nreqs, nlisteners, nplain, ngrants;
	struct list fresh, intents;	/* cm_intent.c */
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
/* Answer (r->client may be gone) and end. req_stream closes what it grants before it says so. */
/* Of a CLAIM, before the first step that cannot be taken back. false: the library has given up waiting, the connection is plain TCP. */
bool req_promise(struct cm_req *r);
void req_ack(struct cm_req *r, enum iw_reason reason, uint64_t id);
void req_plain(struct cm_req *r, enum iw_reason reason);
void req_stream(struct cm_req *r, const struct stream_grant *g);
/* Send a reply now; fds stay the caller's. A client that does not take its replies is closed. */
void ctl_reply(struct client *c, void *msg, const int *fds, unsigned int nfds);

/* One checked message; fd (or -1) is the handler's to close. -EPROTO: close this client (why has been logged). */
int cm_message(struct client *c, const void *msg, int fd);
void cm_client_gone(struct client *c);

/* ---- sockets and addresses (cm_sock.c) ---- */
void addr_from_sockaddr(struct iw_addr *a, const struct sockaddr_storage *ss);
socklen_t addr_to_sockaddr(const struct iw_addr *a, struct sockaddr_storage *ss);
static inline bool addr_same(const struct iw_addr *a, const struct iw_addr *b)
{
	return a->port == b->port && !__builtin_memcmp(a->ip, b->ip, 16);
}
static inline bool ip_same(const uint8_t a[16], const uint8_t b[16])
{
	return !__builtin_memcmp(a, b, 16);
}
static inline bool tuple_same(const struct tuple *a, const struct tuple *b)
{
	return addr_same(&a->local, &b->local) && addr_same(&a->peer, &b->peer);
}
static inline struct tuple tuple_mirror(const struct tuple *t)
{
	return (struct tuple){ .local = t->peer, .peer = t->local };
}
uint32_t tuple_hash(const struct tuple *t);
bool ip_any(const uint8_t ip[16]);
bool ip_loopback(const uint8_t ip[16]);
const char *ip_text(const uint8_t ip[16]);			/* static buffers, four in turn */
const char *addr_text(const struct iw_addr *a);
const char *tuple_text(const struct tuple *t);
/* A TCP socket (IPv4 or IPv6, not MPTCP) of our network namespace? ACCELERATED, NOT_STREAM or NETNS. */
enum iw_reason sock_check(int fd);
int sock_state(int fd);						/* TCP_ESTABLISHED, ... or -errno */
bool sock_unused(int fd);					/* nothing received that was not read, nothing sent */
int sock_name(int fd, struct iw_addr *a, bool peer);
uint64_t sock_cookie(int fd);

/* ---- bookkeeping (cm_book.c) ---- */
void plain_record(struct client *c, uint64_t conn_id, const struct tuple *t, bool is_client, int fd, enum iw_reason reason);
void plain_closed(struct client *c, uint64_t conn_id);
void plain_client_gone(struct client *c);
void reason_add(enum iw_reason reason, bool is_client);
void grant_add(struct client *c, uint64_t stream_id, unsigned int end);
bool grant_has(struct client *c, uint64_t stream_id, unsigned int end);
void grants_stream_gone(uint64_t stream_id);
void grants_client_gone(struct client *c);
/* A claim for this tuple (as the client sees it) was answered no: the answer is final. */
void refused_add(const struct tuple *t, enum iw_reason reason);
enum iw_reason refused_find(const struct tuple *t);		/* ACCELERATED: not refused */
/* A server that did not claim. */
void shun_add(const struct iw_addr *dst, enum iw_reason reason);
void shun_del(const struct iw_addr *dst);
enum iw_reason shun_find(const struct iw_addr *dst);		/* ACCELERATED: not shunned */

/* ---- listeners (listeners.c) ---- */
enum iw_reason listener_add(struct client *c, int fd, uint64_t *cookie);
void listener_del(struct client *c, uint64_t cookie);
void listeners_client_gone(struct client *c);
bool listener_match(const struct iw_addr *dst);

/* ---- offers (cm_offer.c) ---- */
enum offer_state { OFFER_ASKING, OFFER_OFFERED, OFFER_HELD };
struct offer {
	struct list all, hash, node;	/* in all offers; by tuple; in client_priv.offers until committed */
	struct cm_req req;
	struct sess_ask ask;
	struct tuple t;
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
void offers_start(void);
int cm_offer(struct client *c, const struct iw_ctl_conn *m, int fd);	/* takes fd */
int cm_commit(struct client *c, const struct iw_ctl_id *m);
int cm_abandon(struct client *c, const struct iw_ctl_id *m);
void offers_client_gone(struct client *c);
struct offer *offer_find(const struct tuple *t);
/* HELD: the connection stays plain; the held octets go on as plain TCP. */
void offer_withdraw(struct offer *o, enum iw_reason reason);
/* HELD: start MPA as Initiator (the claim was confirmed). Frees o. */
void offer_claimed(struct offer *o);
/* Take out of the tables without touching the stream (it was handed to a local claim). Frees o. */
void offer_done(struct offer *o);
/* Every committed or uncommitted offer to this address (port 0: to any port; local_ip: from that address only). */
void offers_withdraw_to(const uint8_t ip[16], uint16_t port, const uint8_t *local_ip, enum iw_reason reason);
/* A listener of this host on port went away: HELD offers to this host that no listener matches any more. */
void offers_listener_gone(uint16_t port);

/* ---- claims (cm_claim.c) ---- */
/* One question "is this connection offered?" at the client's side, from a local server or another daemon. */
struct claim {
	struct list node;		/* in offer.claims or those of an intent */
	struct list hash;		/* by tuple, while it waits for intents */
	struct tuple t;			/* as the client sees it */
	struct timer timer;
	void (*fn)(struct claim *cl, struct offer *o, enum iw_reason reason);	/* o: HELD; NULL: no, with reason */
	pid_t pid;			/* the process that claims, 0: on another host */
	bool waiting;
};
/* Answer if it can be answered, else wait at the right place. */
void claim_look(struct claim *cl);
/* fn may be called before this returns. wait_ms bounds the wait. */
void claim_ask(struct claim *cl, unsigned int wait_ms);
void claim_cancel(struct claim *cl);
/* An offer changed: its claims look again. */
void claims_settle(struct offer *o, enum iw_reason reason);
/* An offer came: claims of its connection that wait for intents look again. */
void claims_offered(const struct tuple *t);
int cm_claim(struct client *c, const struct iw_ctl_conn *m, int fd);	/* takes fd */

/* ---- intents (cm_intent.c) ---- */
void intents_client_new(struct client *c);
void intents_client_gone(struct client *c);
void intents_client_moves(struct client *c);		/* it made an offer */
int cm_intent(struct client *c, const struct iw_ctl_id *m);
/*
 * Where a claim waits for the end of an open intent for dst, or NULL: there is none. except: the process that claims; while it waits for our
 * answer it cannot offer.
 */
struct list *intent_claims(const struct iw_addr *dst, pid_t except);
/*
 * A claim waited for them in vain. They count again when one more is raised there or the process offers something, so that a stopped or hostile
 * process delays an accept now and then, not all.
 */
void intents_set_aside(const struct iw_addr *dst, pid_t except);

int ctl_option(struct client *c, const struct iw_ctl_opt *m);	/* ctl_opt.c */

#endif
