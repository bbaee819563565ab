// SPDX-License-Identifier: MIT
/*
 * A queue pair that does what tests/differential.t tells it: rounds of commands on stdin, what the queue pair said on stdout.
 * Both are a length (4 octets) and so many octets; everything is little-endian, the commands are listed at run().
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/qp.h"
#include "tests/lib/commands.h"

#define ARENA_MAX	(1u << 20)
#define AREAS		32u

struct area {
	uint32_t stag, len, off;
	uint64_t to;
	unsigned int access;
	enum { OURS, OTHER_DOMAIN, SHARED } kind;
};

static struct {
	struct iw_qp qp;
	uint8_t arena[ARENA_MAX] __attribute__((aligned(64)));
	struct area area[AREAS];
	unsigned int nareas;
	struct { uint64_t to; uint32_t stag; } recv[IW_QP_RQ];	/* by wr_id */
	uint8_t *in;			/* received and not consumed */
	size_t nin;
	size_t unacked;
	uint8_t tx[IW_FPDU_MAX_MARKERS];
} s;

static struct {
	uint8_t *p;
	size_t n, cap;
} out;

/* ---- octets of the report ---- */
static void put(const void *p, size_t n)
{
	if (out.n + n > out.cap) {
		out.cap = (out.n + n) * 2;
		out.p = realloc(out.p, out.cap);
		if (!out.p)
			die("no memory");
	}
	memcpy(out.p + out.n, p, n);
	out.n += n;
}

static void put_int(uint64_t v, unsigned int octets)
{
	while (octets--) {
		put(&(uint8_t){ (uint8_t)v }, 1);
		v >>= 8;
	}
}

/* ---- what the queue pair asks and says ---- */
static struct area *find(uint32_t stag)
{
	for (unsigned int i = 0; i < s.nareas; i++)
		if (s.area[i].stag == stag)
			return &s.area[i];
	return NULL;
}

static enum iw_access_err on_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	const struct area *a = find(stag);

	if (to > UINT64_MAX - len)
		return IW_ACC_WRAP;
	if (!a)
		return IW_ACC_STAG;
	if (a->kind == OTHER_DOMAIN)
		return IW_ACC_SCOPE;
	if (!(a->access & right))
		return IW_ACC_RIGHTS;
	if (to < a->to || to - a->to > a->len || len > a->len - (to - a->to))
		return IW_ACC_BOUNDS;
	*ptr = s.arena + a->off + (to - a->to);
	return IW_ACC_OK;
}

static enum iw_access_err on_invalidate(void *ctx, uint32_t stag)
{
	struct area *a = find(stag);

	if (!a)
		return IW_ACC_STAG;
	if (a->kind != OURS)
		return IW_ACC_SCOPE;
	*a = s.area[--s.nareas];
	return IW_ACC_OK;
}

static void on_complete(void *ctx, const struct iw_cqe *c)
{
	bool data = c->op == IW_WR_RECV && c->status == IW_WC_OK && !c->has_imm;
	void *p = NULL;

	put("C", 1);
	put_int(c->wr_id, 8);
	put_int(c->op, 1);
	put_int(c->status, 1);
	put_int(c->se, 1);
	put_int(c->has_imm, 1);
	put_int(c->has_inv, 1);
	put_int(c->len, 4);
	put_int(c->inv_stag, 4);
	put(c->imm, 8);
	put_int(c->orig, 8);
	put_int(data ? c->len : 0, 4);
	if (!data || !c->len)
		return;
	if (on_access(ctx, s.recv[c->wr_id].stag, s.recv[c->wr_id].to, c->len, IW_ACCESS_LOCAL_WRITE, &p) != IW_ACC_OK)
		die("a receive that does not fit its buffer");
	put(p, c->len);
}

static void on_event(void *ctx, enum iw_qp_event ev)
{
	put("V", 1);
	put_int(ev, 1);
}

static const struct iw_qp_ops ops = {
	.access = on_access, .invalidate = on_invalidate, .complete = on_complete, .event = on_event,
};

/* ---- commands ---- */
static void new_qp(void)
{
	uint32_t len = (uint32_t)take_int(4);

	if (len > ARENA_MAX)
		die("arena");
	memcpy(s.arena, take(len), len);
	free(s.in);
	s.in = NULL;
	s.nin = s.unacked = 0;
	s.nareas = 0;
	iw_qp_init(&s.qp);
}

static void start(void)
{
	struct iw_qp_param p = { .recv_min = 8 };

	p.initiator = (uint8_t)take_int(1);
	p.crc = (uint8_t)take_int(1);
	p.tx_markers = (uint8_t)take_int(1);
	p.rx_markers = (uint8_t)take_int(1);
	p.rtr = (uint8_t)take_int(1);
	p.mulpdu = (uint16_t)take_int(2);
	p.ird = (uint16_t)take_int(2);
	p.ord = (uint16_t)take_int(2);
	for (unsigned int i = 0; i < IW_QN_COUNT; i++)
		s.qp.tx_msn[i] = (uint32_t)take_int(4);
	for (unsigned int i = 0; i < IW_QN_COUNT; i++)
		s.qp.rx_msn[i] = (uint32_t)take_int(4);
	if (iw_qp_start(&s.qp, &p))
		die("parameters");
}

static void reg(void)
{
	struct area *a = &s.area[s.nareas++];

	if (s.nareas > AREAS)
		die("areas");
	a->stag = (uint32_t)take_int(4);
	a->to = take_int(8);
	a->len = (uint32_t)take_int(4);
	a->off = (uint32_t)take_int(4);
	a->access = (unsigned int)take_int(1);
	a->kind = take_int(1);
	if (a->off > ARENA_MAX || a->len > ARENA_MAX - a->off)
		die("area outside of the arena");
}

static struct iw_sge take_sge(void)
{
	struct iw_sge g;

	g.stag = (uint32_t)take_int(4);
	g.to = take_int(8);
	g.len = (uint32_t)take_int(4);
	return g;
}

static void post_recv(void)
{
	uint64_t id = take_int(8);
	struct iw_sge g = take_sge();

	if (id >= IW_QP_RQ)
		die("receive id");
	s.recv[id].stag = g.stag;
	s.recv[id].to = g.to;
	put("r", 1);
	put_int((uint32_t)iw_qp_post_recv(&s.qp, id, &g), 4);
}

static void post_send(void)
{
	struct iw_wr wr = { .wr_id = take_int(8) };

	wr.op = (uint8_t)take_int(1);
	wr.flags = (uint8_t)take_int(1);
	wr.nsge = (uint8_t)take_int(1);
	wr.inl_len = (uint8_t)take_int(1);
	wr.inv_stag = (uint32_t)take_int(4);
	wr.rstag = (uint32_t)take_int(4);
	wr.rto = take_int(8);
	memcpy(wr.imm, take(8), 8);
	wr.add_swap = take_int(8);
	wr.add_swap_mask = take_int(8);
	wr.compare = take_int(8);
	wr.compare_mask = take_int(8);
	for (unsigned int i = 0; i < wr.nsge && i < IW_QP_SGE; i++)
		wr.sge[i] = take_sge();
	memcpy(wr.inl, take(wr.inl_len), wr.inl_len);
	put("p", 1);
	put_int((uint32_t)iw_qp_post_send(&s.qp, &wr), 4);
}

static void transmit(size_t budget)
{
	size_t n = iw_qp_tx(&s.qp, &ops, NULL, s.tx, sizeof(s.tx), budget);

	s.unacked += n;
	put("T", 1);
	put_int(n, 4);
	put(s.tx, n);
}

static void acknowledge(size_t n)
{
	if (n > s.unacked)
		n = s.unacked;
	s.unacked -= n;
	iw_qp_tx_done(&s.qp, &ops, NULL, n);
}

/* In an exact allocation: a sanitizer sees any look beyond what came. */
static void receive(size_t n)
{
	uint8_t *exact = malloc(s.nin + n ? s.nin + n : 1);
	size_t used;

	if (!exact)
		die("no memory");
	if (s.nin)
		memcpy(exact, s.in, s.nin);
	memcpy(exact + s.nin, take(n), n);
	n += s.nin;
	/* Markers are taken out in place, but never of what is not consumed */
	used = iw_qp_rx(&s.qp, &ops, NULL, exact, n);
	if (used > n)
		die("consumed more than there was");
	free(s.in);
	s.nin = n - used;
	s.in = malloc(s.nin ? s.nin : 1);
	if (!s.in)
		die("no memory");
	memcpy(s.in, exact + used, s.nin);
	free(exact);
}

static void report(size_t len)
{
	const struct iw_term *t = &s.qp.term;

	if (len > ARENA_MAX)
		die("arena");
	put("D", 1);
	put_int(s.qp.state, 1);
	put_int(t->layer, 1);
	put_int(t->etype, 1);
	put_int(t->code, 1);
	put_int(s.nin, 4);
	put_int(s.nareas, 1);
	put_int(len, 4);
	put(s.arena, len);
}

static void run(void)
{
	while (cmd < cmd_end)
		switch (take_int(1)) {
		case 'N':	/* new: arena */
			new_qp();
			break;
		case 'G':	/* register */
			reg();
			break;
		case 'S':	/* start */
			start();
			break;
		case 'B':	/* post a receive buffer */
			post_recv();
			break;
		case 'P':	/* post a work request */
			post_send();
			break;
		case 'M':	/* MULPDU */
			iw_qp_set_mulpdu(&s.qp, (uint16_t)take_int(2));
			break;
		case 'T':	/* transmit: budget */
			transmit(take_int(4));
			break;
		case 'A':	/* the LLP accepted so many */
			acknowledge(take_int(4));
			break;
		case 'R':	/* octets received */
			receive(take_int(4));
			break;
		case 'E':	/* FIN */
			iw_qp_rx_eof(&s.qp, &ops, NULL, s.nin);
			break;
		case 'D':	/* report, with so much of the arena */
			report(take_int(4));
			break;
		default:
			die("unknown command");
		}
}

int main(void)
{
	static uint8_t *round;
	uint8_t len[4];

	while (fread(len, 1, 4, stdin) == 4) {
		size_t n = (size_t)len[0] | (size_t)len[1] << 8 | (size_t)len[2] << 16 | (size_t)len[3] << 24;

		round = realloc(round, n ? n : 1);
		if (!round || fread(round, 1, n, stdin) != n)
			die("round cut short");
		cmd = round;
		cmd_end = round + n;
		out.n = 0;
		put_int(0, 4);
		run();
		for (unsigned int i = 0; i < 4; i++)
			out.p[i] = (uint8_t)((out.n - 4) >> (8 * i));
		fwrite(out.p, 1, out.n, stdout);
		fflush(stdout);
	}
	free(round);
	free(out.p);
	free(s.in);
	return 0;
}
