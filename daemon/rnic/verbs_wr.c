// SPDX-License-Identifier: MIT
/* Work requests of the ring stream on a device's queue pair, and their completions: Sends and Writes. */
#include "verbs_priv.h"

#include <errno.h>
#include <string.h>

#define HELLO		UINT64_MAX
#define SENT		(UINT64_C(1) << 63)	/* wr_id of the device's: a send, with its place in v->sent; else a receive with the stream's */
#define POLL_MOST	256u			/* completions in one turn */

/* Own memory as the device names it. False: not in one of our ranges. */
static bool find(const struct verbs *v, const struct iw_sge *s, struct ibv_sge *out)
{
	for (unsigned int i = 0; i < VERBS_RANGES; i++) {
		const struct verbs_range *r = &v->range[i];

		if (r->mr && r->stag == s->stag && s->to >= r->to && s->len <= r->len && s->to - r->to <= r->len - s->len) {
			*out = (struct ibv_sge){ .addr = (uintptr_t)r->addr + (s->to - r->to), .length = s->len, .lkey = r->mr->lkey };
			return true;
		}
	}
	return false;
}

static int gather(struct verbs *v, const struct iw_wr *wr, struct ibv_sge *sge)
{
	int n = 0;

	if (wr->flags & IW_WR_INLINE && wr->inl_len) {
		uint8_t *slot = v->inl + v->head % VERBS_SEND * VERBS_INL;

		memcpy(slot, wr->inl, wr->inl_len);
		sge[n++] = (struct ibv_sge){ .addr = (uintptr_t)slot, .length = wr->inl_len, .lkey = v->inl_mr->lkey };
	}
	for (unsigned int i = 0; i < wr->nsge; i++)
		if (!find(v, &wr->sge[i], &sge[n++]))
			return -EINVAL;
	return n;
}

static void count(struct verbs *v, const struct iw_wr *wr, const struct ibv_sge *sge, int n)
{
	uint64_t len = 0;

	for (int i = 0; i < n; i++)
		len += sge[i].length;
	if (wr->op == IW_WR_WRITE) {
		v->stat.tx_write++;
		v->stat.tx_write_octets += len;
	} else {
		v->stat.tx_send++;
	}
}

static void remember(struct verbs *v, const struct iw_wr *wr)
{
	struct verbs_sent *s = &v->sent[v->head++ % VERBS_LOG];

	*s = (struct verbs_sent){
		.wr_id = wr->wr_id, .op = wr->op, .flags = wr->flags, .rstag = wr->rstag, .rto = wr->rto, .before = v->sends, .nsge = wr->nsge,
		.inl_len = wr->flags & IW_WR_INLINE ? wr->inl_len : 0,
	};
	memcpy(s->sge, wr->sge, wr->nsge * sizeof(wr->sge[0]));
	memcpy(s->inl, wr->inl, s->inl_len);
	v->sends += wr->op == IW_WR_SEND;
}

/* The queue pair takes no more. What was to go by it goes on T, when its loss was agreed on. */
static void broke(struct verbs *v)
{
	v->broken = true;
	verbs_kick(v);
}

int verbs_post_send(struct verbs *v, const struct iw_wr *wr)
{
	struct ibv_sge sge[IW_QP_SGE + 1];
	struct ibv_send_wr w = { .wr_id = SENT | v->head, .sg_list = sge, .opcode = wr->op == IW_WR_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_SEND }, *bad;
	int ret;

	if (v->state != VERBS_UP)
		return -ENOTCONN;
	if (v->head - v->tail == VERBS_SEND)
		return -EAGAIN;
	if (wr->op != IW_WR_WRITE && (wr->op != IW_WR_SEND || wr->flags & IW_WR_INVALIDATE))
		return -EINVAL;
	if (wr->nsge > sizeof(v->sent->sge) / sizeof(v->sent->sge[0]) || wr->inl_len > sizeof(v->sent->inl))
		return -EINVAL;
	ret = gather(v, wr, sge);
	if (ret < 0)
		return ret;
	w.num_sge = ret;
	w.send_flags = wr->flags & IW_WR_SE && wr->op == IW_WR_SEND ? IBV_SEND_SOLICITED : 0;
	if (wr->op == IW_WR_WRITE) {
		w.wr.rdma.remote_addr = v->peer.addr + (wr->rto - v->peer.to);
		w.wr.rdma.rkey = v->peer.rkey;
	}
	remember(v, wr);
	if (v->broken || ibv_post_send(v->id->qp, &w, &bad))
		broke(v);
	else
		count(v, wr, sge, w.num_sge);
	return 0;
}

static int post_recv(struct verbs *v, uint64_t wr_id, struct ibv_sge *sge)
{
	struct ibv_recv_wr w = { .wr_id = wr_id, .sg_list = sge, .num_sge = 1 }, *bad;

	return -ibv_post_recv(v->id->qp, &w, &bad);
}

int verbs_post_recv(struct verbs *v, uint64_t wr_id, const struct iw_sge *s)
{
	struct ibv_sge sge;

	if (!v->id || !v->id->qp)
		return -ENOTCONN;
	return find(v, s, &sge) ? post_recv(v, wr_id, &sge) : -EINVAL;
}

/* ---- the first messages: who is dialled may send when it has one, answers it, and is known to be there by that ---- */

#define HELLO_LEN	8u

static struct ibv_sge hello_sge(const struct verbs *v, unsigned int i)
{
	return (struct ibv_sge){ .addr = (uintptr_t)v->inl + VERBS_SEND * VERBS_INL + i * HELLO_LEN, .length = HELLO_LEN, .lkey = v->inl_mr->lkey };
}

int verbs_hello_recv(struct verbs *v)
{
	struct ibv_sge sge = hello_sge(v, 0);

	return post_recv(v, HELLO, &sge);
}

int verbs_hello(struct verbs *v)
{
	struct ibv_sge sge = hello_sge(v, 1);
	struct ibv_send_wr w = { .wr_id = HELLO, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	memset((void *)(uintptr_t)sge.addr, 0, HELLO_LEN);
	return -ibv_post_send(v->id->qp, &w, &bad);
}

/* ---- completions ---- */

void verbs_deliver(struct verbs *v, const struct iw_cqe *c)
{
	if (v->open && !v->over)
		v->ep.ulp->complete(v->ep.ctx, c);
}

void verbs_was_sent(struct verbs *v)
{
	const struct verbs_sent s = v->sent[v->tail % VERBS_LOG];
	struct iw_cqe c = { .wr_id = s.wr_id, .op = s.op };

	v->tail++;
	if (!(s.flags & IW_WR_QUIET))
		verbs_deliver(v, &c);
}

static void came(struct verbs *v, const struct ibv_wc *wc)
{
	struct iw_cqe c = { .wr_id = wc->wr_id, .op = IW_WR_RECV, .len = wc->byte_len, .se = 1 };

	v->stat.rx_send++;
	v->came++;
	verbs_deliver(v, &c);
}

static bool good(struct verbs *v, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return true;
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		log_info("device: %s, beside %s", verbs_lib.ibv_wc_status_str(wc->status), iw_tuple_text(&v->t));
	return false;
}

/* Nothing of the stream's is taken before it can be delivered. */
static bool may(const struct verbs *v)
{
	return v->cq && (v->open || v->state == VERBS_MADE);
}

void verbs_drain(struct verbs *v)
{
	struct ibv_wc wc;

	while (v->open && !v->over && v->cq && ibv_poll_cq(v->cq, 1, &wc) > 0 && wc.status == IBV_WC_SUCCESS) {
		if (wc.wr_id != HELLO && wc.wr_id & SENT)
			verbs_was_sent(v);
		else if (wc.wr_id != HELLO)
			came(v, &wc);
	}
}

static void hello(struct verbs *v, const struct ibv_wc *wc)
{
	if (!(wc->opcode & IBV_WC_RECV) || v->state != VERBS_MADE)
		return;
	if (v->dials || !verbs_hello(v))
		verbs_up(v);
	else
		verbs_failed(v);
}

void verbs_poll(struct verbs *v)
{
	struct ibv_wc wc;
	unsigned int n = 0;
	bool armed = false;

	v->poll = false;
	while (may(v) && n < POLL_MOST) {
		int ret = ibv_poll_cq(v->cq, 1, &wc);

		if (!ret && armed)
			return;
		if (!ret) {		/* and what came before it was */
			armed = !ibv_req_notify_cq(v->cq, 0);
			if (!armed)
				verbs_failed(v);	/* nothing would be told any more */
			continue;
		}
		n++;
		if (ret < 0 || !good(v, &wc))
			verbs_failed(v);
		else if (wc.wr_id == HELLO)
			hello(v, &wc);
		else if (wc.wr_id & SENT)
			verbs_was_sent(v);
		else
			came(v, &wc);
	}
	if (may(v)) {
		v->poll = true;
		verbs_kick(v);
	}
}
