// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: octets from a hostile peer into a queue pair. The first octet chooses the kind of endpoint and the
 * framing; CRCs are put right by the harness, so that the fuzzer reaches what lies behind them.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE tests/fuzz/fpdu_fuzz.c proto/{crc32c,mpa,qp,qp_rx,qp_tx,term}.c
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/crc32c.h"
#include "proto/mpa.h"
#include "proto/qp.h"
#include "proto/wire.h"

#define RAW	1u	/* the input is the stream itself, CRCs off */
#define MARKERS	2u
#define ASKER	4u	/* we are the Initiator; Reads and Atomics of ours are in flight */
#define OCTETS	8u	/* one at a time */
#define DRAIN	16u	/* send between the FPDUs */
#define READS	32u	/* a Read is the first we ask for, not an Atomic */
#define SPEAKER	64u	/* Sends, Writes and Immediate Data of ours too, with Markers, and an RTR Read of an Initiator */
#define CHECKED	128u	/* RAW only: CRCs on */

#define MEM	4096u
#define GUARD	64u
#define RECVS	4u
#define QUIET_ID 77u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(x) do { if (!(x)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); abort(); } } while (0)

static struct {
	struct iw_qp qp;
	uint8_t mem[4][MEM + 2 * GUARD] __attribute__((aligned(64)));
	unsigned int posted, completed, terms;
	uint64_t rx_pos, tx_pos;
	bool ended, quiet, alive[4];
} fz;

/* The registrations of vectors.txt, and our own: receive buffers, sink. */
static const struct {
	uint32_t stag;
	uint64_t to;
	unsigned int access, mem;
	enum iw_access_err scope;
} regs[] = {
	{ 0x5a17c301, 0x1000, IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE | IW_ACCESS_REMOTE_ATOMIC, 0, IW_ACC_OK },
	{ 0x77e0b902, 0, IW_ACCESS_REMOTE_READ | IW_ACCESS_LOCAL_READ, 1, IW_ACC_OK },
	{ 0x00000a02, 0, IW_ACCESS_LOCAL_WRITE, 2, IW_ACC_OK },
	{ 0x19f0c709, 0x2000, IW_ACCESS_READ_SINK, 3, IW_ACC_OK },
	{ 0x2b9c6e04, 0, ~0u, 1, IW_ACC_SCOPE },
};

static enum iw_access_err fz_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	must(len > 0);
	if (to > UINT64_MAX - len)
		return IW_ACC_WRAP;
	for (size_t i = 0; i < sizeof(regs) / sizeof(regs[0]); i++) {
		if (regs[i].stag != stag || (i < 4 && !fz.alive[i]))
			continue;
		if (regs[i].scope)
			return regs[i].scope;
		if (!(regs[i].access & right))
			return IW_ACC_RIGHTS;
		if (to < regs[i].to || to - regs[i].to > MEM || len > MEM - (to - regs[i].to))
			return IW_ACC_BOUNDS;
		*ptr = fz.mem[regs[i].mem] + GUARD + (to - regs[i].to);
		return IW_ACC_OK;
	}
	return IW_ACC_STAG;
}

static enum iw_access_err fz_invalidate(void *ctx, uint32_t stag)
{
	for (size_t i = 0; i < 2; i++)
		if (regs[i].stag == stag && fz.alive[i]) {
			fz.alive[i] = false;
			return IW_ACC_OK;
		}
	return IW_ACC_STAG;
}

static void fz_complete(void *ctx, const struct iw_cqe *cqe)
{
	fz.completed++;
	if (fz.quiet && cqe->op == IW_WR_SEND && cqe->status != IW_WC_OK && cqe->wr_id == QUIET_ID) {
		fz.posted++;
		fz.quiet = false;
	}
	must(fz.completed <= fz.posted);
	must(cqe->op != IW_WR_RECV || cqe->status != IW_WC_OK || cqe->len <= MEM / RECVS);
	must(!fz.ended || cqe->status != IW_WC_OK || cqe->op != IW_WR_RECV);	/* nothing is delivered after the end */
}

static void fz_event(void *ctx, enum iw_qp_event ev)
{
	if (ev == IW_QP_EV_FIRST_FPDU)
		return;
	must(!fz.ended);
	fz.ended = ev != IW_QP_EV_EOF;
}

static const struct iw_qp_ops ops = {
	.access = fz_access, .invalidate = fz_invalidate, .complete = fz_complete, .event = fz_event,
};

static void setup(uint8_t mode)
{
	struct iw_qp_param p = {
		.initiator = !!(mode & ASKER), .crc = !(mode & RAW) || mode & CHECKED, .rx_markers = !!(mode & MARKERS),
		.tx_markers = !!(mode & SPEAKER), .rtr = (mode & ASKER) && (mode & SPEAKER) ? 2 : 0,
		.mulpdu = mode & SPEAKER ? 128 : 1442, .ird = 3, .ord = 8, .recv_min = 8,
	};

	memset(&fz, 0, sizeof(fz));
	for (unsigned int i = 0; i < 4; i++) {
		fz.alive[i] = true;
		memset(fz.mem[i], 0xa5, GUARD);
		memset(fz.mem[i] + GUARD + MEM, 0x5a, GUARD);
	}
	iw_qp_init(&fz.qp);
	for (unsigned int i = 0; i < RECVS; i++) {
		must(!iw_qp_post_recv(&fz.qp, i, &(struct iw_sge){ .stag = 0x0a02, .to = i * MEM / RECVS, .len = MEM / RECVS }));
		fz.posted++;
	}
	must(!iw_qp_start(&fz.qp, &p));
}

/* One FPDU of ours: its octets. Markers never split the length field and the two control octets. */
static size_t said(const uint8_t *p)
{
	uint32_t marker = fz.qp.param.tx_markers && fz.tx_pos % IW_MARKER_IV == 0 ? IW_MARKER_LEN : 0;
	uint16_t ulpdu = iw_get16(p + marker);
	size_t n = fz.qp.param.tx_markers ? iw_mpa_fpdu_len_markers(fz.tx_pos, ulpdu) : iw_mpa_fpdu_len(ulpdu);

	must(!fz.terms);		/* nothing follows a Terminate */
	fz.terms += (p[marker + 3] & 15) == IW_OP_TERMINATE;
	fz.tx_pos += n;
	return n;
}

static void drain(void)
{
	static uint8_t out[IW_FPDU_MAX_MARKERS];
	size_t n, i;

	while ((n = iw_qp_tx(&fz.qp, &ops, NULL, out, sizeof(out), 0))) {
		for (i = 0; i < n; i += said(out + i))
			;
		must(i == n);
		iw_qp_tx_done(&fz.qp, &ops, NULL, n);
	}
}

static void post(const struct iw_wr *wr)
{
	must(!iw_qp_post_send(&fz.qp, wr));
	fz.posted++;
}

/* Reads and Atomics in turn; with READS the first two are those that fpdu.rresp.32 and fpdu.rresp.zero answer. */
static void ask(uint8_t mode)
{
	for (unsigned int i = 0; i < 6; i++) {
		bool read = mode & READS ? i != 3 : i % 3;
		struct iw_wr wr = { .wr_id = i, .op = read ? IW_WR_READ : IW_WR_FETCHADD, .rstag = 1, .nsge = read };

		if (read)
			wr.sge[0] = (struct iw_sge){ .stag = 0x19f0c709, .to = 0x2000 + i * 64, .len = mode & READS ? (i != 1) * 32 : i * 16 };
		post(&wr);
	}
}

static void speak(void)
{
	struct iw_wr send = {
		.op = IW_WR_SEND, .flags = IW_WR_INLINE | IW_WR_SE, .inl_len = 10, .nsge = 2,
		.sge = { { .stag = 0x77e0b902, .to = 8, .len = 300 }, { .stag = 0x77e0b902, .to = 3, .len = 1 } },
	};
	struct iw_wr write = { .op = IW_WR_WRITE, .nsge = 1, .rstag = 2, .rto = 7, .sge[0] = { .stag = 0x77e0b902, .len = 700 } };

	post(&send);
	post(&(struct iw_wr){ .op = IW_WR_IMM });
	post(&write);
	send.wr_id = QUIET_ID;
	send.flags = IW_WR_INVALIDATE | IW_WR_FENCE | IW_WR_QUIET;
	post(&send);
	fz.posted--;		/* no completion when it succeeds, one when it does not */
	fz.quiet = true;
}

/* Exact allocations: a sanitizer sees every octet looked at beyond what came. */
static size_t give(const uint8_t *p, size_t n)
{
	uint8_t *exact = malloc(n ? n : 1);
	size_t used;

	memcpy(exact, p, n);
	used = iw_qp_rx(&fz.qp, &ops, NULL, exact, n);
	must(used <= n);
	free(exact);
	return used;
}

static void feed(const uint8_t *p, size_t n, uint8_t mode)
{
	size_t from = 0;

	for (size_t to = mode & OCTETS ? 1 : n; to <= n; to++)
		from += give(p + from, to - from);
	iw_qp_rx_eof(&fz.qp, &ops, NULL, n - from);
}

/* A Marker where one is due: of this FPDU's length field at start, or before it. Returns its octets. */
static size_t marker(uint8_t *out, uint8_t mode, uint64_t start)
{
	if (!(mode & MARKERS) || fz.rx_pos % IW_MARKER_IV)
		return 0;
	iw_put32(out, (uint32_t)(fz.rx_pos - start));
	fz.rx_pos += IW_MARKER_LEN;
	return IW_MARKER_LEN;
}

/* A ULPDU becomes an FPDU with Markers, if they are asked for, and a good CRC. Everything is a multiple of four octets. */
static size_t frame(uint8_t *out, const uint8_t *u, uint16_t ulpdu, uint8_t mode)
{
	static uint8_t plain[IW_FPDU_MAX];
	size_t body = 2 + ulpdu + iw_mpa_pad(ulpdu), n = marker(out, mode, fz.rx_pos);
	uint64_t start = fz.rx_pos;

	iw_put16(plain, ulpdu);
	memcpy(plain + 2, u, ulpdu);
	memset(plain + 2 + ulpdu, 0, iw_mpa_pad(ulpdu));
	for (size_t i = 0; i < body; i += 4) {
		n += marker(out + n, mode, start);
		memcpy(out + n, plain + i, 4);
		n += 4;
		fz.rx_pos += 4;
	}
	n += marker(out + n, mode, start);
	iw_crc32c_put(out + n, iw_crc32c(0, out, n));
	fz.rx_pos += 4;
	return n + 4;
}

/* Records of a length octet pair and a ULPDU. */
static void feed_framed(const uint8_t *p, size_t n, uint8_t mode)
{
	static uint8_t in[IW_FPDU_MAX_MARKERS];

	while (n >= 2) {
		uint16_t ulpdu = iw_get16(p);
		size_t wire, from = 0;

		p += 2;
		n -= 2;
		if (ulpdu > n)
			ulpdu = (uint16_t)n;
		wire = frame(in, p, ulpdu, mode);
		p += ulpdu;
		n -= ulpdu;
		for (size_t to = mode & OCTETS ? 1 : wire; to <= wire; to++)
			from += give(in + from, to - from);
		must(from == wire);
		if (mode & DRAIN)
			drain();
	}
	iw_qp_rx_eof(&fz.qp, &ops, NULL, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t guard[2][GUARD];
	uint8_t mode;

	if (!size || size > 16384)
		return 0;
	mode = data[0];
	setup(mode);
	if (mode & ASKER)
		ask(mode);
	if (mode & SPEAKER)
		speak();
	drain();
	if (mode & RAW)
		feed(data + 1, size - 1, mode);
	else
		feed_framed(data + 1, size - 1, mode);
	drain();
	iw_qp_lost(&fz.qp, &ops, NULL, 104);
	must(fz.completed == fz.posted);		/* every work request completed exactly once */
	memset(guard[0], 0xa5, GUARD);
	memset(guard[1], 0x5a, GUARD);
	for (unsigned int i = 0; i < 4; i++)
		must(!memcmp(fz.mem[i], guard[0], GUARD) && !memcmp(fz.mem[i] + GUARD + MEM, guard[1], GUARD));
	return 0;
}
