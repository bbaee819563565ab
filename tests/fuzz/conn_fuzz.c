// SPDX-License-Identifier: MIT
/*
 * libFuzzer: an RDMAP endpoint of the daemon, in either role, from the first octet of MPA on. The first octet of the input says
 * how it is set up and how the rest is cut; the rest is what the peer sends. What the endpoint sends is checked for its grammar.
 */
#include "engine.h"

#include "daemon/rnic/soft.h"
#include "proto/crc32c.h"
#include "proto/wire.h"

#define INITIATOR 1u
#define REJECT	2u
#define MARKERS	4u
#define NO_CRC	8u
#define PIECES	16u
#define FIN	32u
#define LATE	64u	/* the ULP decides late */
#define GLUED	128u	/* FPDUs do not wait for the other frame */

#define LEN	8192u

static struct {
	struct endpoint *c;
	struct rnic_mr *mr;
	uint8_t mode;
	bool requested, established, closed;
	unsigned int outstanding;	/* work requests: each completes once, before the end is told */
	uint8_t out[1 << 16];
	size_t nout;
} z;
static uint8_t memory[LEN];
static struct rnic_pd *pd;

static void decide(void)
{
	if (z.mode & REJECT)
		must(!endpoint_reject(z.c, (const uint8_t *)"no", 2));
	else
		must(!endpoint_accept(z.c, (const uint8_t *)"yes", 3));
}

static void on_request(void *ctx, const struct endpoint_said *f)
{
	must(!z.requested && !z.closed && !(z.mode & INITIATOR) && !soft_request(z.c)->reply && f->pd_len <= IW_MPA_PD_MAX);
	z.requested = true;
	if (!(z.mode & LATE))
		decide();
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	const struct iw_mpa_frame *f = z.mode & INITIATOR ? soft_reply(z.c) : soft_request(z.c);
	const struct iw_qp_param *p = soft_param(z.c);
	struct iw_wr wr = { .op = IW_WR_SEND, .flags = IW_WR_INLINE, .inl_len = 4, .inl = "fuzz" };

	must(!z.established && !z.closed && (z.requested || z.mode & INITIATOR));
	must(p->ird <= IW_QP_IRD && p->ord <= IW_QP_ORD);
	must(p->crc || (z.mode & NO_CRC && !f->crc));		/* MPA-4.4-02 */
	must(p->tx_markers == f->markers && p->rx_markers == !!(z.mode & MARKERS));
	z.established = true;
	must(!endpoint_post_send(z.c, &wr));
	z.outstanding++;
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	must(z.c && z.outstanding);
	z.outstanding--;
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	if (ev == ENDPOINT_EV_EOF)
		endpoint_close(z.c);
}

static void on_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	must(!z.outstanding);
	must(!z.closed && (!reject || (err == ECONNREFUSED && soft_reply(z.c)->reject)));
	z.closed = true;
	rnic_mr_dereg(z.mr);
	z.c = NULL;
}

static const struct endpoint_ulp ops = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .closed = on_closed,
};

static void setup(int fd)
{
	static const uint8_t hello[5] = "hello";

	must(!soft_create(fd, pd, &ops, NULL, &z.c));
	must(!rnic_mr_reg_stag(pd, soft_qp(z.c), memory, LEN, 0x1000, 63, 0x5a17c301, &z.mr));
	for (z.outstanding = 0; z.outstanding < 4; z.outstanding++) {
		uint64_t i = z.outstanding;

		must(!endpoint_post_recv(z.c, i, &(struct iw_sge){ .stag = 0x5a17c301, .to = 0x1000 + i * 64, .len = 64 }));
	}
	must(!(z.mode & INITIATOR ? endpoint_initiate(z.c, hello, sizeof(hello)) : endpoint_respond(z.c)));
}

/* Everything it has said so far; false at the end. */
static bool collect(int fd)
{
	for (;;) {
		ssize_t n = recv(fd, z.out + z.nout, sizeof(z.out) - z.nout, MSG_DONTWAIT);

		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		z.nout += (size_t)n;
		must(z.nout < sizeof(z.out));
	}
}

/* A Request first from an Initiator, a Reply first from a Responder; FPDUs behind it, the last of them perhaps a Terminate. */
static void grammar(void)
{
	struct iw_mpa_frame f;
	bool term = false, established = z.established;
	size_t p;
	int n;

	if (!z.nout)
		return;
	n = iw_mpa_decode(&f, z.out, z.nout, !(z.mode & INITIATOR));
	must(n > 0);
	must(z.mode & INITIATOR || z.requested || f.reject);
	if (z.mode & MARKERS)
		return;		/* the peer may have asked for them too; the queue pair's own tests look at those */
	for (p = (size_t)n; z.out[16] & 0x80 ? false : p + 4 <= z.nout;) {
		size_t ulpdu = iw_get16(z.out + p), end = p + (2 + ulpdu + 3) / 4 * 4 + 4;

		if (end > z.nout || (z.out[p + 2] & 3) != 1 || (z.out[p + 3] & 0xc0) != 0x40)
			break;	/* with Markers of the peer's wish, or cut by the end */
		must(!term);
		term = (z.out[p + 3] & 15) == IW_OP_TERMINATE;
		must(term || established);
		p = end;
	}
}

/* FPDUs behind the startup frame get CRCs that are right, or the first one would be the last. */
static void put_crcs(uint8_t *p, size_t n)
{
	while (n >= 2) {
		size_t wire = iw_mpa_fpdu_len(iw_get16(p));

		if (wire > n)
			return;
		iw_crc32c_put(p + wire - 4, iw_crc32c(0, p, wire - 4));
		p += wire;
		n -= wire;
	}
}

static bool pieces(int fd, const uint8_t *p, size_t n, size_t step)
{
	while (n) {
		size_t k = n < step ? n : step;

		if (send(fd, p, k, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			return false;
		p += k;
		n -= k;
		rounds(3);
		collect(fd);
	}
	return true;
}

static void play(int fd, const uint8_t *data, size_t n)
{
	static uint8_t p[4096];
	size_t frame = n < 20 ? n : 20u + iw_get16(data + 18);

	memcpy(p, data, n);
	if (frame > n || z.mode & GLUED)
		frame = n;
	else
		put_crcs(p + frame, n - frame);
	if (pieces(fd, p, frame, z.mode & PIECES ? 1 + frame / 3 : frame + 1))
		pieces(fd, p + frame, n - frame, z.mode & PIECES ? 1 + (n - frame) / 5 : n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned int sockets, runs;
	int v[2];

	if (!size || size > 4096)
		return 0;
	engine_once();
	conf_default(&conf);
	prm_strict = false;
	z.mode = data[0];
	z.requested = z.established = z.closed = false;
	z.nout = 0;
	conf.crc = !(z.mode & NO_CRC);
	conf.markers = z.mode & MARKERS;
	if (!pd)
		pd = rnic_pd_get(1);
	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, v));
	setup(v[1]);
	play(v[0], data + 1, size - 1);
	if (z.mode & LATE && z.requested && z.c && !z.established)
		decide();
	if (z.mode & FIN)
		shutdown(v[0], SHUT_WR);
	rounds(4);
	collect(v[0]);
	grammar();
	if (z.c) {
		rnic_mr_dereg(z.mr);
		endpoint_abort(z.c);
	}
	for (int i = 0; i < 50 && collect(v[0]); i++)
		rounds(2);
	close(v[0]);
	rounds(3);
	must(!rnic_mr_count());
	if (++runs % 256 == 0) {
		for (int i = 0; sockets && open_sockets() > sockets && i < 1000; i++)
			rounds(2);
		must(!sockets || open_sockets() <= sockets);	/* nothing is left behind */
		sockets = open_sockets();
	}
	return 0;
}
