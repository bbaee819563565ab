/* SPDX-License-Identifier: MIT */
/*
 * The seam above the queue pair: an endpoint is one end of an RDMAP stream, whoever moves its octets. Streams, the sessions between
 * daemons and the tools stand on this and on nothing below it.
 *
 * A provider makes endpoints: soft.h those on a TCP connection of ours. Another one may have completions of its own to poll, no Immediate Data,
 * registrations that are dear, a startup that somebody else does: what differs is said by its caps and needs, and nothing here knows of sockets or
 * MPA. What is particular to one is in its own header, for who creates such an endpoint and for nobody else.
 */
#ifndef IWARPD_ENDPOINT_H
#define IWARPD_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/wr.h"
#include "prm.h"

struct area;
struct rnic_pd;
struct endpoint;

/* ---- what comes from it: in the engine's thread, never from inside a call below ---- */

struct endpoint_said {		/* what the other end said of itself at the startup; gone when the callback returns */
	const uint8_t *pd;	/* private data */
	size_t pd_len;
	bool ranges;		/* it told how many Reads it answers (ird) and sends (ord) at once: */
	unsigned int ird, ord;
	bool p2p;		/* the Responder may send first, too */
};

#define ENDPOINT_FRAME_MAX	532u
struct endpoint_frame {		/* of endpoint_frame() */
	uint8_t pd[ENDPOINT_FRAME_MAX];
	size_t pd_len;
	bool reject;
};

enum endpoint_event {
	ENDPOINT_EV_FIRST = 1,	/* the other end has spoken: the Responder may send now. At the Initiator too */
	ENDPOINT_EV_TERM_SENT,	/* an error ends it, found here, */
	ENDPOINT_EV_TERM_RECEIVED,	/* or there: closed() follows, EPROTO */
	ENDPOINT_EV_EOF,	/* the other end has sent its last: close in the event, or it counts as lost (DDP-6.2.1-03) */
	ENDPOINT_EV_LOST,	/* the connection is lost: closed() follows */
};

struct endpoint_ulp {
	/* Responder: somebody wants to begin. Call endpoint_accept() or endpoint_reject(), now or later. */
	void (*request)(void *ctx, const struct endpoint_said *said);
	/* It is up. Depths are settled. */
	void (*established)(void *ctx, const struct endpoint_said *said);
	/* Each work request completes once (not successful IW_WR_QUIET ones); receives in the order of their messages. Posting is allowed. */
	void (*complete)(void *ctx, const struct iw_cqe *cqe);
	void (*event)(void *ctx, enum endpoint_event ev);
	/* The peer invalidated a registration: what was under this STag is out of its reach already. Told in its place among the completions. */
	void (*invalidated)(void *ctx, uint32_t stag);
	/* The connection's socket is closed before the endpoint is over: it has this number from now on, as endpoint_socket() would say; -1: none. Or NULL. */
	void (*moved)(void *ctx, int fd);
	/*
	 * It is over for the ULP; all its work requests have completed. err: 0 graceful, else positive errno (EPROTO after a Terminate in either
	 * direction, or a startup that nobody can understand; ECONNREFUSED rejected, then `reject` has why; ETIMEDOUT, ECONNRESET). Called once; the
	 * endpoint lingers (endpoint_abort() in here cuts that short) and frees itself, and may not be used any more when this returns.
	 */
	void (*closed)(void *ctx, int err, const struct endpoint_said *reject);
};

/* ---- what a provider can ---- */

#define ENDPOINT_IMM		1u	/* Immediate Data (RFC 7306), alone or behind a Write: IW_WR_IMM */
#define ENDPOINT_SENDINV	2u	/* Send with Invalidate */
#define ENDPOINT_EXPOSE		4u	/* parts of memory can be exposed for reading and taken back as often as one likes */
#define ENDPOINT_LARGE		8u	/* segments longer than the network's */
#define ENDPOINT_REST		16u	/* somebody else can work it for a while */
#define ENDPOINT_KEEPS		32u	/* what completed may have to be sent again: its octets stay as they are until the peer has used them */

struct endpoint_needs {
	struct prm_bill bill;	/* what one takes from its user's quotas, besides what its owner registers */
	size_t area;		/* octets of endpoint_attr.area */
};

struct endpoint_attr {
	struct rnic_pd *pd;	/* its protection domain, which says whose quotas count. It holds a reference */
	const struct endpoint_ulp *ulp;
	void *ctx;
	struct area *area;	/* where its state lies, zeroed, at area_off, a multiple of 4096. It holds a reference. NULL: memory of its own */
	size_t area_off;
	bool dialled;		/* this end made the connection */
	/*
	 * RNIC_PREPAID: needs.bill was taken already. RNIC_GOES_ON, with ENDPOINT_REST: its connection is up, the state in area is what another process
	 * left there, and it rests
	 */
	unsigned int flags;
};

/* ---- from its making to its end: by who makes it ---- */

/*
 * Start as Initiator with private data pd, 508 octets at most; as Responder: wait for a request (startup_timeout). 0 or -errno, then it is
 * as before. Post receives before.
 */
int endpoint_initiate(struct endpoint *ep, const void *pd, size_t pd_len);
int endpoint_respond(struct endpoint *ep);
int endpoint_accept(struct endpoint *ep, const void *pd, size_t pd_len);
int endpoint_reject(struct endpoint *ep, const void *pd, size_t pd_len);
/*
 * In the middle of a connection that carried something else so far (RFC 5044 7.1). Its maker, who reads and writes it until the startup is
 * certain, sends the request: its octets into out, their number or -errno. And received the answer, or a request: endpoint_frame() says of the
 * octets that came how many of them are one, 0 when it takes more to tell, -EPROTO when they are none. When they are, endpoint_go_on() hands them and
 * the connection over: 0 or -errno; request() or established() follows, or closed(). No startup_timeout: whoever keeps the other waiting is TCP's affair.
 */
int endpoint_request(struct endpoint *ep, const void *pd, size_t pd_len, uint8_t out[ENDPOINT_FRAME_MAX]);
int endpoint_frame(const struct endpoint *ep, const uint8_t *in, size_t len, bool answer, struct endpoint_frame *f);
int endpoint_go_on(struct endpoint *ep, const uint8_t *frame, size_t len);
/*
 * Is what it has to make before that there, or known not to come? False: not yet, and again() comes once, not from inside, unless the endpoint ends
 * before. It can be started all the same, without that.
 */
bool endpoint_ready(struct endpoint *ep, void (*again)(void *ctx));
bool endpoint_made(const struct endpoint *ep);	/* it has made that: worth keeping for a while */
/* ENDPOINT_*, as far as known: less than the provider's when the startup settled that. From request() and established() on. */
unsigned int endpoint_caps(const struct endpoint *ep);
/* Its octets go by this device, and not by the TCP connection that it was made from: that one says nothing of them. NULL: they go there. The name stays. */
const char *endpoint_device(const struct endpoint *ep);
/* May segments be longer than the network's? Both ends must have said that they like it. In established(). Without ENDPOINT_LARGE: nothing. */
void endpoint_large(struct endpoint *ep, bool on);
/* Reads that it answers, and that may be under way, as the two ends settled them. In established() or later. */
void endpoint_depths(const struct endpoint *ep, unsigned int *ird, unsigned int *ord);

/*
 * Somebody else is to go on with its connection and its state in the area: it receives no more, and sends what was made. still() comes when the
 * connection has taken all of that and nothing is under way, not from inside, and no callback follows; or never, when it ends or endpoint_resume()
 * comes first. What has come and was not delivered, and what is posted from then on, is in the state then. From the first time on, a reset says so to
 * the peer though others have the connection.
 * 0; -EAGAIN: its startup or its end is under way; -EOPNOTSUPP without ENDPOINT_REST.
 */
int endpoint_rest(struct endpoint *ep, void (*still)(void *ctx));
/* As endpoint_rest(), but at once: what the connection has not taken of what was made is in the state, too, and goes out when somebody resumes it. */
int endpoint_halt(struct endpoint *ep, void (*still)(void *ctx));
/* It goes on, with what its state says now. */
void endpoint_resume(struct endpoint *ep);
/* A duplicate of its connection's socket, for who asks that for options: resets are not said by the last close from now on. -1: none is to be had. */
int endpoint_socket(struct endpoint *ep);

/* Everything posted is sent, then the end is said, then that of the peer is waited for (close_timeout). closed() comes with 0. */
void endpoint_close(struct endpoint *ep);
/* Now, by a reset. No callback comes any more. */
void endpoint_abort(struct endpoint *ep);
/* No callback comes any more; it lingers (what was posted is sent, what comes is dropped) and frees itself. */
void endpoint_detach(struct endpoint *ep);
/* The ULP cannot go on: as endpoint_detach(), but the peer is told by a Terminate, "local catastrophic" (EMPA-9.3-01). */
void endpoint_terminate(struct endpoint *ep);
/* Gives one up that was never started; what it was made from is the maker's again, untouched. */
void endpoint_unmake(struct endpoint *ep);

/* ---- memory ---- */

/*
 * A registration of an endpoint's own: no other may use it from remote. Zero: none. It ends by endpoint_deregister(), at the latest with the
 * endpoint; its owner keeps it apart from what the peer may have invalidated (stag may name something else by then).
 */
struct endpoint_mr {
	uint32_t stag;		/* for work requests and for the peer, host order */
	uint64_t to;
	void *handle;		/* the provider's */
};
/*
 * [addr, addr + len), which stays the caller's and mapped until it was deregistered, from Tagged Offset `to` on: as wished, but a provider that
 * cannot choose sets mr->to otherwise. mr->stag: the STag it had before, or 0 for a new one; -EEXIST. access: IW_ACCESS_*, and RNIC_PREPAID. 0 or -errno; errors as of rnic_mr_reg().
 */
int endpoint_register(struct endpoint *ep, void *addr, size_t len, uint64_t to, unsigned int access, struct endpoint_mr *mr);
/* Final when it returns: nothing that the network does can touch the memory any more. Of a zero one: nothing. It is zero then. */
void endpoint_deregister(struct endpoint *ep, struct endpoint_mr *mr);

/* ---- work requests ---- */

/*
 * As iw_qp_post_send() and iw_qp_post_recv(), whose errors they give: copied; the memory it names is looked at when it goes out or is filled.
 * There is no doorbell to remember. Not from other threads.
 */
int endpoint_post_send(struct endpoint *ep, const struct iw_wr *wr);
int endpoint_post_recv(struct endpoint *ep, uint64_t wr_id, const struct iw_sge *sge);
unsigned int endpoint_send_room(const struct endpoint *ep);	/* so many sends can be posted now */

/* ---- for display ---- */

/* Messages and octets since the start, by RDMAP operation; 0 where the provider cannot tell. */
#define ENDPOINT_SIZES	9u
struct endpoint_stat {
	uint64_t tx_send, rx_send, tx_write, rx_write, tx_imm, rx_imm, tx_read, rx_read, tx_rresp, rx_rresp, tx_atomic, rx_atomic;
	uint64_t tx_write_octets, rx_write_octets, tx_read_octets, rx_read_octets;	/* payload; read: of Responses */
	uint64_t tx_fpdu, rx_fpdu, tx_octets, rx_octets;	/* segments, and octets with all headers */
	uint64_t rx_zero_tagged, rx_tiny;
	uint64_t tx_size[ENDPOINT_SIZES];	/* Sends, Writes and Read Responses: up to 64 octets, 256, 1 KiB and so on to 1 MiB; more */
};
void endpoint_stat(const struct endpoint *ep, struct endpoint_stat *s);
void endpoint_stat_add(struct endpoint_stat *sum, const struct endpoint_stat *s);

/* *n counts it until it is freed: it may linger. */
void endpoint_counted(struct endpoint *ep, unsigned int *n);
unsigned int endpoint_count(void);	/* those that are not freed yet */

/* ---- for providers ---- */

struct endpoint_ops {
	const char *name;
	unsigned int caps;	/* ENDPOINT_*: of all, or of one: */
	unsigned int (*caps_now)(const struct endpoint *ep);	/* or NULL */
	bool (*ready)(struct endpoint *ep, void (*again)(void *ctx));	/* or NULL: at once */
	bool (*made)(const struct endpoint *ep);	/* or NULL: nothing */
	const char *(*device)(const struct endpoint *ep);	/* or NULL: none */
	void (*needs)(struct endpoint_needs *n);
	int (*initiate)(struct endpoint *ep, const void *pd, size_t pd_len);
	int (*respond)(struct endpoint *ep);
	int (*accept)(struct endpoint *ep, const void *pd, size_t pd_len);
	int (*reject)(struct endpoint *ep, const void *pd, size_t pd_len);
	int (*request)(struct endpoint *ep, const void *pd, size_t pd_len, uint8_t out[ENDPOINT_FRAME_MAX]);
	int (*frame)(const struct endpoint *ep, const uint8_t *in, size_t len, bool answer, struct endpoint_frame *f);
	int (*go_on)(struct endpoint *ep, const uint8_t *frame, size_t len);
	void (*large)(struct endpoint *ep, bool on);	/* with ENDPOINT_LARGE */
	void (*depths)(const struct endpoint *ep, unsigned int *ird, unsigned int *ord);
	int (*rest)(struct endpoint *ep, bool halt, void (*still)(void *ctx));	/* both with ENDPOINT_REST */
	void (*resume)(struct endpoint *ep);
	int (*socket)(struct endpoint *ep);	/* or NULL */
	void (*close)(struct endpoint *ep);
	void (*abort)(struct endpoint *ep);
	void (*detach)(struct endpoint *ep);
	void (*terminate)(struct endpoint *ep);
	void (*unmake)(struct endpoint *ep);
	int (*reg)(struct endpoint *ep, void *addr, size_t len, uint64_t to, unsigned int access, struct endpoint_mr *mr);
	void (*dereg)(struct endpoint *ep, struct endpoint_mr *mr);
	int (*post_send)(struct endpoint *ep, const struct iw_wr *wr);
	int (*post_recv)(struct endpoint *ep, uint64_t wr_id, const struct iw_sge *sge);
	unsigned int (*send_room)(const struct endpoint *ep);
	void (*stat)(const struct endpoint *ep, struct endpoint_stat *s);
};

struct endpoint {		/* begins what the provider has of it */
	const struct endpoint_ops *ops;
	const struct endpoint_ulp *ulp;
	void *ctx;
	unsigned int *counter;	/* counts it, or NULL */
};
void endpoint_init(struct endpoint *ep, const struct endpoint_ops *ops, const struct endpoint_attr *a);	/* it is counted from here, */
void endpoint_freed(struct endpoint *ep);	/* to here */

#endif
