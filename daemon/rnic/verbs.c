// SPDX-License-Identifier: MIT
/* The verbs endpoint at the seam: what goes to the device's queue pair, what to the soft endpoint on T, and how both come to one end. */
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "rnic.h"
#include "soft.h"
#include "verbs_priv.h"

#define WAIT_MS		2000u	/* who is dialled waits so long for that */
#define JUDGE_MS	100u	/* an end in order, of which the stream hears first what came before, is there by then */

static const struct endpoint_ops verbs_endpoint;

/* ---- the end ---- */

static void verbs_work(struct work *w);

void verbs_kick(struct verbs *v)
{
	work_queue(&v->work, verbs_work);
}

/* The other end may say that they have agreed on one of which nothing is here. */
static const char *name_of(const struct verbs *v)
{
	return v->device ? device_name(v->device) : "none";
}

/* It carries the stream, or did until now: T does not. */
static bool by_device(const struct verbs *v)
{
	return v->chosen && !v->on_t;
}

static const char *on_device(const struct endpoint *ep)
{
	const struct verbs *v = verbs_of(ep);

	return by_device(v) ? name_of(v) : NULL;
}

static void again(struct work *w)
{
	struct verbs *v = container_of(w, struct verbs, again_work);
	void (*fn)(void *ctx) = v->again;

	v->again = NULL;
	if (fn && !v->over)
		fn(v->ep.ctx);
}

static void judge(struct timer *t)
{
	struct verbs *v = container_of(t, struct verbs, timer);

	v->judged = true;
	verbs_kick(v);
}

static void settled(struct verbs *v, enum verbs_state state)
{
	v->state = state;
	list_del(&v->node);
	timer_stop(&v->timer);
	work_queue(&v->again_work, again);
}

void verbs_up(struct verbs *v)
{
	verbs_peer_unmark(v->t.peer.ip);
	settled(v, VERBS_UP);
}

bool verbs_waits(const struct verbs *v)
{
	return v->state == VERBS_NONE && !v->dials && !v->over;
}

static void closing_long(struct timer *t)
{
	struct verbs *v = container_of(t, struct verbs, timer);

	v->soft_err = ETIMEDOUT;
	judge(t);
}

/* T is waited for, which says where to go on, or that it ended, too. */
static void await(struct verbs *v)
{
	if (v->closing)
		timer_start(&v->timer, conf.close_timeout, closing_long);
	else
		timer_start(&v->timer, v->soft ? conf.startup_timeout : JUDGE_MS, judge);
}

/* What has come already is the stream's. */
void verbs_failed(struct verbs *v)
{
	bool up = v->state == VERBS_UP;

	if (v->state == VERBS_GONE)
		return;
	settled(v, VERBS_GONE);
	if (v->chosen && up)
		verbs_drain(v);
	verbs_dial_end(v);
	verbs_undo(v);
	if (v->chosen && !v->over)
		await(v);
	verbs_kick(v);
}

/* Nothing of the device is needed any more; not told to anybody. */
static void undo(struct verbs *v)
{
	v->state = VERBS_GONE;
	list_del(&v->node);
	timer_stop(&v->timer);
	verbs_dial_end(v);
	verbs_undo(v);
}

static void over(struct verbs *v)
{
	v->over = true;
	device_carries_no_more(&v->user);
	undo(v);
	if (v->soft)
		endpoint_abort(v->soft);
	v->soft = NULL;
	verbs_kick(v);
}

static void tell(struct verbs *v, int err)
{
	undo(v);
	v->over = true;
	v->ep.ulp->closed(v->ep.ctx, err, NULL);
	over(v);
}

static void verbs_free(struct verbs *v)
{
	work_cancel(&v->again_work);
	work_cancel(&v->work);
	if (v->dup >= 0)
		close(v->dup);
	endpoint_freed(&v->ep);
	free(v->sent);
	free(v);
}

/* Everything that was posted is with the other end: then it is said that nothing more comes, here and on T. */
static void close_on(struct verbs *v)
{
	if ((v->state == VERBS_UP && v->head != v->tail) || verbs_lost(v) || (v->on_t && v->next != v->head))
		return;
	if (v->state == VERBS_UP && !v->soft_closing)
		verbs_lib.rdma_disconnect(v->id);
	if (v->soft && !v->soft_closing)
		endpoint_close(v->soft);
	v->soft_closing = true;
}

static void look_at_end(struct verbs *v)
{
	if (v->closing)
		close_on(v);
	if (v->closing && v->soft_closing && !v->soft)
		tell(v, 0);
	else if (v->judged)
		tell(v, v->soft_err ? v->soft_err : ECONNRESET);
}

static void verbs_work(struct work *w)
{
	struct verbs *v = container_of(w, struct verbs, work);

	if (v->broken && !v->over)
		verbs_failed(v);
	if (v->poll)
		verbs_poll(v);
	verbs_turn_to_t(v);
	if (!v->over && v->chosen)
		look_at_end(v);
	if (v->over && !v->probe_op.busy)
		verbs_free(v);
}

static void verbs_close(struct endpoint *ep)
{
	struct verbs *v = verbs_of(ep);

	if (!v->chosen) {
		undo(v);
		endpoint_close(v->soft);
		return;
	}
	if (v->closing || v->over)
		return;
	v->closing = true;
	v->judged = false;
	timer_start(&v->timer, conf.close_timeout, closing_long);
	verbs_kick(v);
}

static void verbs_abort(struct endpoint *ep)
{
	over(verbs_of(ep));
}

static void verbs_terminate(struct endpoint *ep)
{
	struct verbs *v = verbs_of(ep);

	undo(v);
	if (v->soft)
		endpoint_terminate(v->soft);
	v->soft = NULL;
	over(v);
}

static void verbs_detach(struct endpoint *ep)
{
	struct verbs *v = verbs_of(ep);

	undo(v);
	if (v->soft)
		endpoint_detach(v->soft);
	v->soft = NULL;
	over(v);
}

static void verbs_unmake(struct endpoint *ep)
{
	struct verbs *v = verbs_of(ep);

	undo(v);
	endpoint_unmake(v->soft);
	v->soft = NULL;
	over(v);
}

/* ---- what the soft endpoint says ---- */

/* The other end's part, behind the ring stream's private data. */
static bool agreed(struct verbs *v, const struct endpoint_said *said)
{
	struct iw_beside b;

	if (said->pd_len < IW_BESIDE_LEN || iw_beside_decode(&b, said->pd + said->pd_len - IW_BESIDE_LEN, IW_BESIDE_LEN))
		return false;
	if (v->state == VERBS_MADE)
		verbs_poll(v);
	if (b.key != v->key)
		return false;
	if (v->state == VERBS_MADE && v->dials)		/* the answer is on its way */
		verbs_up(v);
	if (v->state != VERBS_UP)
		return false;
	v->peer = b;
	return true;
}

/* It goes on T. */
static void without(struct verbs *v)
{
	static const char *const here[] = {
		[VERBS_NONE] = "it was not dialled", [VERBS_DIALS] = "it is being dialled", [VERBS_MADE] = "it was dialled, and nothing came yet",
		[VERBS_UP] = "it is there", [VERBS_GONE] = "it is gone, or was never there",
	};

	log_debug("no device carries %s: here %s", iw_tuple_text(&v->t), here[v->state]);
	undo(v);
}

static void on_request(void *ctx, const struct endpoint_said *said)
{
	struct verbs *v = ctx;

	v->chosen = agreed(v, said);
	if (!v->chosen)
		without(v);
	v->ep.ulp->request(v->ep.ctx, said);
}

static void opened(struct verbs *v)
{
	log_debug("device %s carries %s", name_of(v), iw_tuple_text(&v->t));
	if (v->device)
		device_carries(v->device, &v->user, &v->stat);
	v->open = true;
	v->poll = true;
	if (v->state == VERBS_GONE)
		await(v);
	verbs_kick(v);
}

/* The Initiator believes the Reply: what it says of a connection that was lost meanwhile is the end of the stream. */
static void on_established(void *ctx, const struct endpoint_said *said)
{
	struct verbs *v = ctx;

	if (v->initiator) {
		struct iw_beside b;
		bool theirs = said->pd_len >= IW_BESIDE_LEN && !iw_beside_decode(&b, said->pd + said->pd_len - IW_BESIDE_LEN, IW_BESIDE_LEN);

		v->chosen = theirs;
		if (theirs && !agreed(v, said))
			undo(v);
	}
	if (v->initiator && !v->chosen)
		without(v);
	v->ep.ulp->established(v->ep.ctx, said);
	if (v->chosen && !v->over)
		opened(v);
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct verbs *v = ctx;

	if (v->chosen)
		verbs_complete_on_t(v, cqe);
	else
		v->ep.ulp->complete(v->ep.ctx, cqe);
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	struct verbs *v = ctx;

	if (by_device(v) && ev == ENDPOINT_EV_EOF) {
		v->eof = true;
		endpoint_close(v->soft);	/* in order, as far as T goes */
		verbs_kick(v);
	} else {
		v->ep.ulp->event(v->ep.ctx, ev);
		if (v->chosen)
			verbs_kick(v);
	}
}

static void on_invalidated(void *ctx, uint32_t stag)
{
	struct verbs *v = ctx;

	v->ep.ulp->invalidated(v->ep.ctx, stag);
}

/* T is over. What the other end sent by the device before is still to come, when it closed in order: until its end is there, too. */
static void on_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	struct verbs *v = ctx;

	if (!by_device(v)) {
		undo(v);
		v->ep.ulp->closed(v->ep.ctx, err, reject);
		v->soft = NULL;
		over(v);
		return;
	}
	v->dup = endpoint_socket(v->soft);
	v->soft = NULL;
	if (v->ep.ulp->moved)
		v->ep.ulp->moved(v->ep.ctx, v->dup);
	v->soft_gone = true;
	v->soft_err = err;
	if (!v->closing)
		timer_start(&v->timer, err || v->state == VERBS_GONE ? JUDGE_MS : conf.close_timeout, judge);
	v->poll = true;
	verbs_kick(v);
}

static const struct endpoint_ulp on_soft = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .invalidated = on_invalidated,
	.closed = on_closed,
};

/* ---- the startup ---- */

/* Nobody dials: it is not waited for any more, and until the startup it is welcome. */
static void waited(struct timer *t)
{
	struct verbs *v = container_of(t, struct verbs, timer);

	if (v->state == VERBS_NONE) {
		v->alone = true;
		verbs_peer_mark(v->t.peer.ip);
		work_queue(&v->again_work, again);
	} else {
		verbs_failed(v);
	}
}

/* It is being made: that may take its time, but is not waited for for good. */
void verbs_dialled(struct verbs *v)
{
	v->state = VERBS_MADE;
	timer_start(&v->timer, conf.startup_timeout, waited);
}

static bool verbs_ready(struct endpoint *ep, void (*fn)(void *ctx))
{
	struct verbs *v = verbs_of(ep);

	if (v->state == VERBS_UP || v->state == VERBS_GONE || (v->state == VERBS_NONE && v->alone))
		return true;
	v->again = fn;
	if (v->state == VERBS_NONE && v->dials)
		verbs_dial(v);
	else if (v->state == VERBS_NONE && !v->timer.due)
		timer_start(&v->timer, WAIT_MS, waited);
	return false;
}

static bool verbs_made(const struct endpoint *ep)
{
	return verbs_of(ep)->state == VERBS_UP;
}

/* What the stream says of itself, and what we do. */
static size_t with_ours(const struct verbs *v, const void *pd, size_t pd_len, uint8_t out[ENDPOINT_FRAME_MAX])
{
	struct iw_beside b = { .key = v->key };

	memcpy(out, pd, pd_len);
	if (v->state != VERBS_UP)
		return pd_len;
	for (unsigned int i = 0; i < VERBS_RANGES; i++) {
		const struct verbs_range *r = &v->range[i];

		if (r->mr && r->access & IW_ACCESS_REMOTE_WRITE) {
			b.to = r->to;
			b.addr = (uintptr_t)r->addr;
			b.rkey = r->mr->rkey;
		}
	}
	iw_beside_encode(&b, out + pd_len);
	return pd_len + IW_BESIDE_LEN;
}

static int verbs_initiate(struct endpoint *ep, const void *pd, size_t pd_len)
{
	return endpoint_initiate(verbs_of(ep)->soft, pd, pd_len);
}

static int verbs_respond(struct endpoint *ep)
{
	return endpoint_respond(verbs_of(ep)->soft);
}

static int verbs_accept(struct endpoint *ep, const void *pd, size_t pd_len)
{
	struct verbs *v = verbs_of(ep);
	uint8_t all[ENDPOINT_FRAME_MAX];

	if (pd_len > sizeof(all) - IW_BESIDE_LEN)
		return -EINVAL;
	return v->chosen ? endpoint_accept(v->soft, all, with_ours(v, pd, pd_len, all)) : endpoint_accept(v->soft, pd, pd_len);
}

static int verbs_reject(struct endpoint *ep, const void *pd, size_t pd_len)
{
	undo(verbs_of(ep));
	return endpoint_reject(verbs_of(ep)->soft, pd, pd_len);
}

static int verbs_request(struct endpoint *ep, const void *pd, size_t pd_len, uint8_t out[ENDPOINT_FRAME_MAX])
{
	struct verbs *v = verbs_of(ep);
	uint8_t all[ENDPOINT_FRAME_MAX];

	if (pd_len > sizeof(all) - IW_BESIDE_LEN)
		return -EINVAL;
	v->initiator = true;
	return endpoint_request(v->soft, all, with_ours(v, pd, pd_len, all), out);
}

static int verbs_frame(const struct endpoint *ep, const uint8_t *in, size_t len, bool answer, struct endpoint_frame *f)
{
	return endpoint_frame(verbs_of(ep)->soft, in, len, answer, f);
}

static int verbs_go_on(struct endpoint *ep, const uint8_t *frame, size_t len)
{
	return endpoint_go_on(verbs_of(ep)->soft, frame, len);
}

/* ---- while it runs ---- */

static unsigned int verbs_caps(const struct endpoint *ep)
{
	const struct verbs *v = verbs_of(ep);

	return v->chosen ? ENDPOINT_KEEPS : v->soft ? endpoint_caps(v->soft) : 0;
}

static void verbs_large(struct endpoint *ep, bool on)
{
	struct verbs *v = verbs_of(ep);

	if (v->soft)
		endpoint_large(v->soft, on);
}

/* No Reads by the device yet. */
static void verbs_depths(const struct endpoint *ep, unsigned int *ird, unsigned int *ord)
{
	const struct verbs *v = verbs_of(ep);

	*ird = *ord = 0;
	if (!v->chosen)
		endpoint_depths(v->soft, ird, ord);
}

static void on_still(void *ctx)
{
	struct verbs *v = ctx;

	v->still(v->ep.ctx);
}

static int verbs_rest(struct endpoint *ep, bool halt, void (*still)(void *ctx))
{
	struct verbs *v = verbs_of(ep);

	v->still = still;
	return halt ? endpoint_halt(v->soft, on_still) : endpoint_rest(v->soft, on_still);
}

static void verbs_resume(struct endpoint *ep)
{
	endpoint_resume(verbs_of(ep)->soft);
}

static int verbs_socket(struct endpoint *ep)
{
	struct verbs *v = verbs_of(ep);
	int fd = v->dup;

	if (v->soft)
		return endpoint_socket(v->soft);
	v->dup = -1;
	return fd;
}

/* ---- memory and work requests: both have them until it is settled which one is used ---- */

static int verbs_reg(struct endpoint *ep, void *addr, size_t len, uint64_t to, unsigned int access, struct endpoint_mr *mr)
{
	struct verbs *v = verbs_of(ep);
	int ret = endpoint_register(v->soft, addr, len, to, access, mr);

	for (unsigned int i = 0; !ret && i < VERBS_RANGES && v->state == VERBS_NONE; i++) {
		struct verbs_range *r = &v->range[i];

		if (r->len)
			continue;
		*r = (struct verbs_range){ .stag = mr->stag, .to = mr->to, .len = len, .addr = addr, .access = access };
		break;
	}
	return ret;
}

/* The device's end with the connection, of which nothing is left when somebody calls this. Those of the soft endpoint ended with that, if it is gone. */
static void verbs_dereg(struct endpoint *ep, struct endpoint_mr *mr)
{
	if (!verbs_of(ep)->soft_gone)
		soft_endpoint.dereg(NULL, mr);
}

static int verbs_send(struct endpoint *ep, const struct iw_wr *wr)
{
	struct verbs *v = verbs_of(ep);

	if (by_device(v))
		return verbs_post_send(v, wr);
	if (v->on_t && v->next != v->head)
		return -EAGAIN;
	return v->soft ? endpoint_post_send(v->soft, wr) : -ENOTCONN;
}

static int verbs_recv(struct endpoint *ep, uint64_t wr_id, const struct iw_sge *sge)
{
	struct verbs *v = verbs_of(ep);

	if (by_device(v)) {
		/* what the other end sends for it would find none; but this is within a completion */
		if (v->state == VERBS_UP && verbs_post_recv(v, wr_id, sge)) {
			v->broken = true;
			verbs_kick(v);
		}
		return 0;
	}
	if (v->on_t)
		return v->soft ? endpoint_post_recv(v->soft, wr_id, sge) : -ENOTCONN;
	if (v->state == VERBS_NONE && v->nrecv < VERBS_RECV) {
		v->recv[v->nrecv].wr_id = wr_id;
		v->recv[v->nrecv++].sge = *sge;
	}
	return endpoint_post_recv(v->soft, wr_id, sge);
}

static unsigned int verbs_send_room(const struct endpoint *ep)
{
	const struct verbs *v = verbs_of(ep);

	if (by_device(v))
		return v->state == VERBS_UP && !v->broken ? VERBS_SEND - (unsigned int)(v->head - v->tail) : 0;
	return v->soft && (!v->on_t || v->next == v->head) ? endpoint_send_room(v->soft) : 0;
}

static void verbs_stat(const struct endpoint *ep, struct endpoint_stat *s)
{
	const struct verbs *v = verbs_of(ep);
	struct endpoint_stat t;

	if (v->chosen || !v->soft)
		*s = v->stat;
	else
		endpoint_stat(v->soft, s);
	if (v->on_t && v->soft) {
		endpoint_stat(v->soft, &t);
		endpoint_stat_add(s, &t);
	}
}

static const struct endpoint_ops verbs_endpoint = {
	.name = "verbs", .caps_now = verbs_caps, .initiate = verbs_initiate, .respond = verbs_respond, .accept = verbs_accept, .reject = verbs_reject,
	.request = verbs_request, .frame = verbs_frame, .go_on = verbs_go_on, .ready = verbs_ready, .made = verbs_made, .device = on_device, .large = verbs_large, .depths = verbs_depths,
	.rest = verbs_rest, .resume = verbs_resume, .socket = verbs_socket, .close = verbs_close, .abort = verbs_abort, .detach = verbs_detach,
	.terminate = verbs_terminate, .unmake = verbs_unmake, .reg = verbs_reg, .dereg = verbs_dereg, .post_send = verbs_send,
	.post_recv = verbs_recv, .send_room = verbs_send_room, .stat = verbs_stat,
};

/* ---- making one ---- */

static bool names(int fd, struct iw_tuple *t)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (getsockname(fd, (void *)&ss, &len) || !iw_addr_from_sockaddr(&t->local, (void *)&ss, len))
		return false;
	len = sizeof(ss);
	return !getpeername(fd, (void *)&ss, &len) && iw_addr_from_sockaddr(&t->peer, (void *)&ss, len) && !t->local.scope_id;
}

int verbs_create(int fd, const struct endpoint_attr *a, struct endpoint **out)
{
	struct endpoint_attr soft = *a;
	struct verbs *v;
	struct iw_tuple t;
	int ret;

	if (conf.control_port == UINT16_MAX || !names(fd, &t) || (a->dialled && verbs_peer_soft(t.peer.ip)))
		return -ENODEV;
	ret = verbs_listen(&t.local);
	if (ret)
		return ret;
	v = calloc(1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->t = t;
	v->dials = a->dialled;
	v->alone = verbs_peer_soft(t.peer.ip);
	v->dup = v->probe = -1;
	list_init(&v->node);
	v->work.turn = v->again_work.turn = &rnic_pd_user(a->pd)->turn;
	soft.ulp = &on_soft;
	soft.ctx = v;
	ret = soft_create_attr(fd, &soft, &v->soft);
	if (ret) {
		free(v);
		return ret;
	}
	if (!v->dials)
		list_add_tail(verbs_waiting(), &v->node);
	endpoint_init(&v->ep, &verbs_endpoint, a);
	*out = &v->ep;
	return 0;
}
