/* SPDX-License-Identifier: MIT */
/*
 * A device made up for tests, as libibverbs.so.1 and librdmacm.so.1 have one, in the place of both: an iWARP RNIC like Linux' siw, its wire a TCP
 * connection between two of its kind. Exactly what iwarpd calls is there. MADE_UP_DEVICE names a directory:
 *
 *	name	what the device is called; without this file there is none
 *	card	when it is there: no siw, dialling does not wait in the call
 *	told	one line, what goes wrong from when it is written:
 *		fail CALL K ERRNO	the Kth call of it
 *		event THIS THAT STATUS	the next event THIS of rdma_cm is THAT, and the connection is none
 *		status K STATUS		the Kth completion, and the queue pair is in error
 *		sever			the next connection is lost for this end as soon as it was heard on; its wire stays
 *		mute, foreign		who dials gets no answer; is rejected, by somebody who says nothing
 *		gone			the device is taken away; something else, and it is there again
 *	held	what there is of each kind now
 *	log	what was done of "told"; "misuse:" and what no program may do
 */
#ifndef TESTS_LIB_VERBS_MADE_UP_H
#define TESTS_LIB_VERBS_MADE_UP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#undef ibv_reg_mr

#define MOST_SGE	6	/* as siw */

/* Everything here is under one lock, which may be taken again; the wire (wire.c) works beside the program, and under it, too. */
extern pthread_mutex_t lock;

/* ---- told.c: what the test says, and what it hears ---- */
enum held { QP, MR, PD, CQ, CHANNEL, ID, CONTEXT, HELD };
bool told_device(char name[static IBV_SYSFS_NAME_MAX]);
bool told_card(void);
bool told(const char *word);
bool told_fail(const char *call);			/* errno is set */
bool told_event(int *type, int *status);
bool told_status(enum ibv_wc_status *status);
bool told_once(const char *word);			/* it is so, and not again before it is told anew */
int told_watch(void);					/* readable when there is something new */
void hold(enum held what, int n);
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- a queue and its file, which is readable as long as there is something ---- */
struct event {
	TAILQ_ENTRY(event) node;
	struct rdma_cm_event cm;
	uint8_t pd[256];
	struct ibv_async_event async;
	struct ibv_cq *cq;
	struct id *id;
};
struct events {
	int fd;
	TAILQ_HEAD(, event) all;
};
int events_init(struct events *q);
void events_fini(struct events *q);
void events_put(struct events *q, struct event *e);
struct event *events_get(struct events *q);		/* waits, or NULL with EAGAIN when its file does not wait; without the lock */
void events_drop(struct events *q, bool (*of)(const struct event *e, const void *what), const void *what);

/* ---- objects.c ---- */
struct context {
	struct ibv_context ibv;
	struct ibv_device dev;
	struct events async;
	bool gone;
	TAILQ_ENTRY(context) node;
};

struct channel {
	struct ibv_comp_channel ibv;
	struct events events;
};

struct cq {
	struct ibv_cq ibv;
	struct ibv_wc *wc;
	unsigned int head, tail;
	unsigned int users, unacked;
	bool armed;
};

struct pd {
	struct ibv_pd ibv;
	unsigned int users;
};

struct mr {
	struct ibv_mr ibv;
	int access;
	TAILQ_ENTRY(mr) node;
};

struct wqe {
	struct ibv_sge sge[MOST_SGE];
	int nsge;
	uint64_t wr_id, raddr;
	uint32_t rkey;
	enum ibv_wr_opcode op;
	bool solicited;
};

struct queue {
	struct wqe *wqe;
	unsigned int size, head, tail;
};

struct qp {
	struct ibv_qp ibv;
	struct id *id;
	struct queue sq, rq;
	unsigned int max_sge;
};

struct context *context_get(void);			/* NULL: no device */
void context_gone(void);
bool context_is_gone(const struct ibv_context *ctx);
void contexts_fini(void);
int qp_new(struct id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void qp_free(struct qp *qp);
void qp_error(struct qp *qp);				/* what was posted is flushed */
void complete(struct qp *qp, struct queue *q, enum ibv_wc_status status, uint32_t len);
struct mr *mr_of(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len, int access);
void async(struct ibv_context *ctx, enum ibv_event_type type, struct ibv_qp *qp);

/* ---- cm.c: connections ---- */
enum id_state { IDLE, LISTENS, CONNECTS, DIALS, CAME, ASKED, UP, ENDED, CLOSES };

struct frame {						/* of the wire, before what it carries; both ends are of one machine */
	uint8_t kind, solicited;
	uint32_t len, rkey;
	uint64_t raddr;
};
enum { REQUEST = 1, REPLY, REJECT, SEND, WRITE, TERMINATE };

struct id {
	struct rdma_cm_id ibv;
	TAILQ_ENTRY(id) node;
	uint64_t number;
	enum id_state state;
	int fd;
	bool ours, passive;				/* nobody knows it yet; it was dialled */
	bool heard, severed;
	unsigned int unacked;
	struct id *listener;

	struct frame in, out;
	size_t in_len, body, body_len;			/* octets that are there: of the frame, and of what it carries */
	uint8_t *place;
	uint8_t pd[256];
	size_t out_len, sent;				/* of all of a message, 0: none; and of that, with its frame */
	bool blocked;
};
TAILQ_HEAD(ids, id);
extern struct ids ids;

struct id *id_new(struct rdma_event_channel *channel, void *context);
void id_free(struct id *id);
void id_event(struct id *id, int type, int status, const void *pd, size_t len);
void ids_gone(const struct ibv_context *ctx);

/* ---- wire.c ---- */
int wire_start(void);
void wire_stop(void);
void wire_watch(struct id *id, bool out);
void wire_kick(void);					/* something was posted */
int wire_send(struct id *id, int kind, const void *pd, size_t len);
void wire_lost(struct id *id, int err);
void wire_end(struct id *id);				/* nobody is told */
void wire_close(struct id *id);
int wire_connected(struct id *id);			/* TCP is: it is said who dials */

static inline struct id *id_of(struct rdma_cm_id *id)
{
	return (struct id *)id;
}

static inline struct qp *qp_of(const struct id *id)
{
	return (struct qp *)id->ibv.qp;
}

#endif
