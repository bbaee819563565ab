/* SPDX-License-Identifier: MIT */
/* What a stream shows the network: STags of its own only, with the rights of their purpose, no longer than needed; nothing after a failed start. */
#include "stream_util.h"

#include "daemon/rnic/pd_priv.h"
#include "daemon/rnic/soft.h"
#include "daemon/stream/remote.h"
#include "daemon/stream/stream_priv.h"

struct seen {
	unsigned int unscoped, rings, readable, both;
	uint64_t readable_octets;
};

static void look_at(void *arg, const struct rnic_mr_info *i)
{
	struct seen *s = arg;
	unsigned int remote = i->access & (IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE | IW_ACCESS_REMOTE_ATOMIC);

	s->unscoped += !i->scoped || !i->stream_id;
	s->rings += remote == IW_ACCESS_REMOTE_WRITE && i->len == conf.ring_size;
	s->both += (remote & (remote - 1)) || remote & IW_ACCESS_REMOTE_ATOMIC || (remote == IW_ACCESS_REMOTE_WRITE && i->len != conf.ring_size);
	if (remote == IW_ACCESS_REMOTE_READ) {
		s->readable++;
		s->readable_octets += i->len;
	}
}

static struct seen look(void)
{
	struct seen s = { 0 };

	rnic_mr_foreach(look_at, &s);
	assert_int_equal(s.unscoped, 0);	/* DDP-8.2-04, SEC-U06, SEC-U10 */
	assert_int_equal(s.both, 0);		/* SEC-U04 */
	assert_int_equal(s.rings, 2);		/* one ring, one STag, one stream: SEC-U05 */
	return s;
}

static void only_its_rings(void **state)
{
	remote_pair();
	assert_int_equal(look().readable, 0);
	/* SEC-P03: both are of one user */
	assert_ptr_not_equal(app[0].st->pd, app[1].st->pd);
	assert_ptr_equal(rnic_pd_user(app[0].st->pd), rnic_pd_user(app[1].st->pd));
}

/* N2: a position tells nothing of an address and nothing of the next one, and stays far from 2^64. */
static void bases_are_random(void **state)
{
	const struct iw_rs_param *p[2];
	uint64_t ones = 0, zeros = 0, to[8];

	remote_pair();
	for (int i = 0; i < 2; i++) {
		p[i] = &app[i].st->remote->f->p;
		memcpy(to + 4 * i, (uint64_t[]){ p[i]->tx_to, p[i]->rx_to, p[i]->rd_to, p[i]->rq_to }, 4 * sizeof(to[0]));
	}
	for (int i = 0; i < 8; i++) {
		assert_true(to[i] < 1ull << 63);
		ones |= to[i];
		zeros |= ~to[i];
		for (int k = 0; k < i; k++)
			assert_true(to[i] >> 32 != to[k] >> 32);
	}
	/* of 51 bits, 8 times each: hardly one always the same */
	assert_true(__builtin_popcountll(ones & zeros & INT64_MAX) > 40);
}

#define BULK (4u << 20)

static bool offered(void *arg)
{
	return look().readable;
}

/* So, or nothing moves any more. */
static bool stands(void *arg)
{
	static unsigned int same;
	static uint64_t last;
	uint64_t pos = app[0].st->remote->f->rs.tx_pos;

	same = pos == last ? same + 1 : 0;
	last = pos;
	return offered(arg) || same >= 20;
}

/* SEC-U02, SEC-U03: a large send is readable while it is read: no more than it, and afterwards nothing. */
static void readable_while_needed(void **state)
{
	struct job w = { .a = &app[0], .out = BULK, .seed_out = 7, .shut = true, .max = 60000 };
	struct job r = { .a = &app[1], .seed_in = 7, .max = 1 << 16 };
	unsigned int refs;
	struct seen s;

	conf.ring_size = 64 << 10;
	conf.srcavail_min = 4 << 10;
	remote_pair();
	refs = app[0].st->pd->refs;
	start(&w, job_write);
	/* an offer is of what the peer's ring has no room for, which depends on how the pieces of the carrier's octets lie in it */
	while (run_until(stands, NULL), !offered(NULL)) {
		r.in += 60000;
		start(&r, job_read);
		finish(&r);
	}
	s = look();
	assert_true(s.readable_octets <= BULK);
	r.in = UINT64_MAX;
	start(&r, job_read);
	finish(&w);
	finish(&r);
	assert_int_equal(r.err, 0);
	assert_int_equal(r.got, BULK);
	s = (struct seen){ 0 };
	rnic_mr_foreach(look_at, &s);		/* the stream may be closing: only what is readable counts */
	assert_int_equal(s.readable, 0);
	assert_int_equal(app[0].st->pd->refs, refs);	/* nor does a handle stay for each that there was */
}

static bool reads(void *arg)
{
	const struct iw_rs *rs = app[1].st ? &app[1].st->remote->f->rs : NULL;

	return rs && rs->rd_head != rs->rd_tail;
}

static bool both_gone(void *arg)
{
	return ngone == 2;
}

/* Either end is reset while the reader's daemon's Reads are answered: for the other it is a reset like any, and no protocol error of a daemon's. */
static void reset_while_it_reads(void **state)
{
	int err = dup(2), log = memfd_create("log", MFD_CLOEXEC);
	static char text[1 << 16];

	conf.ring_size = 64 << 10;
	conf.srcavail_min = 4 << 10;
	dup2(log, 2);
	log_init(LOG_WARNING, 1);
	for (int i = 0; i < 20; i++) {
		struct job w = { .a = &app[0], .out = UINT64_MAX, .seed_out = 7, .max = BULK };
		struct job r = { .a = &app[1], .in = UINT64_MAX, .seed_in = 7, .max = 1 << 16 };

		if (i) {
			for (int k = 0; k < 2; k++)
				munmap(app[k].page, app[k].g.size);
			tcp_pair(tcp);
			ngone = nupgraded = 0;
		}
		remote_pair();
		start(&w, job_write);
		start(&r, job_read);
		run_until(reads, NULL);
		assert_int_equal(stream_close(app[i % 2].g.stream_id), 0);
		finish(&w);
		finish(&r);
		assert_true(w.err == EPIPE || w.err == ECONNRESET);	/* as a unix socket says it, with octets unread or without; what it was says the page */
		assert_int_equal(atomic_load(&app[0].page->end[0].close_errno), i % 2 ? ECONNRESET : ECONNABORTED);
		assert_int_equal(r.err, i % 2 ? ECONNABORTED : ECONNRESET);
		close_app(0);
		close_app(1);
		run_until(both_gone, NULL);
	}
	log_init(0, 1);
	dup2(err, 2);
	close(err);
	assert_true(pread(log, text, sizeof(text) - 1, 0) >= 0);
	close(log);
	if (text[0])
		fail_msg("%s", text);
}

static struct { uint8_t p[1024]; size_t n; bool eof; } heard;

static bool hear(void *arg)
{
	ssize_t n = recv(tcp[1], heard.p + heard.n, sizeof(heard.p) - heard.n, MSG_DONTWAIT);

	heard.n += n > 0 ? (size_t)n : 0;
	heard.eof |= !n;
	return heard.eof || heard.n >= *(size_t *)arg;
}

static bool held(void *arg)
{
	return said_last.nonce;
}

/* EMPA-9.3-01: the Reply is accepted but what it says of the ring is of no use: Terminate 2/0/05, and the application sees a reset. */
static void unusable(void)
{
	uint8_t reply[24 + IW_RS_PD_LEN] = "MPA ID Rep Frame\x50\x02\x00\x50\x80\x10\x80\x10";
	struct iw_rs_pd pd = { .ver_lo = IW_RS_VERSION, .ver_hi = IW_RS_VERSION };
	size_t request = 24 + IW_RS_PD_LEN, rest = SIZE_MAX;

	memset(&heard, 0, sizeof(heard));
	memset(&said_last, 0, sizeof(said_last));
	upgrade_least_ms = 10000;
	relayed(0);
	stream_upgrade(app[0].st);
	run_rounds(2);
	say(app[0].fd, "?");
	run_until(held, NULL);
	pd.nonce = said_last.nonce;
	iw_rs_pd_encode(&pd, reply + 24);
	stream_held(app[0].st, pd.nonce, true, 0, 0);
	run_until(hear, &request);
	assert_int_equal(heard.n, request);
	assert_int_equal(send(tcp[1], reply, sizeof(reply), MSG_NOSIGNAL), sizeof(reply));
	heard.n = 0;
	run_until(hear, &rest);
	assert_true(heard.eof && heard.n == 28);
}

static void unusable_reply(void **state)
{
	char c;

	unusable();
	assert_memory_equal(heard.p + 2, "\x41\x47", 2);
	assert_memory_equal(heard.p + 20, "\x20\x05\0\0", 4);
	assert_int_equal(app_recv(&app[0], &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(rnic_mr_count(), 0);
}

static bool all_given_back(void *arg)
{
	for (enum prm_kind k = 0; k < PRM_KINDS; k++)
		if (prm_total(k))
			return false;
	return true;
}

static bool stream_gone(void *arg)
{
	return !stream_count();
}

/* Of a stream that is over and whose application had its end for a moment longer nothing is kept (past.c). */
static bool one_stream_counts(void *arg)
{
	return prm_total(PRM_STREAMS) == 1;
}

/* The connection below waits for the peer's FIN when the stream is long forgotten: what it has is still its user's. */
static void lingering_counts(void **state)
{
	unusable();
	close_app(0);
	run_until(stream_gone, NULL);
	run_rounds(3);
	run_until(one_stream_counts, NULL);
	assert_int_equal(endpoint_count(), 1);
	assert_int_equal(prm_total(PRM_READS), SOFT_READS);
	assert_int_equal(prm_total(PRM_CQES), SOFT_CQES);
	assert_int_equal(prm_total(PRM_MEMORY), 0);
	close(tcp[1]);
	tcp[1] = -1;
	run_until(all_given_back, NULL);
	assert_int_equal(endpoint_count(), 0);
}

static bool carrier_full(void *arg)
{
	return app[0].st->remote->f->rs.rx_prod - app[0].st->remote->f->rs.rx_cons > conf.ring_size / 4;
}

static bool conn_gone(void *arg)
{
	return app[0].st && !app[0].st->remote->ep && !rnic_mr_find(*(uint32_t *)arg);
}

/*
 * A stream outlives its connection for as long as its application keeps the descriptor. Its STags are free by then, and may be somebody
 * else's by chance: what happens to the stream afterwards is not to touch them.
 */
static void stale_numbers_are_not_ours(void **state)
{
	static uint8_t mem[4096];
	struct rnic_pd *pd = rnic_pd_get(1001);
	struct job w = { .a = &app[1], .out = UINT64_MAX, .max = 4096 };
	struct iw_rs_param p;
	struct rnic_mr *mr[4];

	remote_pair();
	p = app[0].st->remote->f->p;
	start(&w, job_write);
	run_until(carrier_full, NULL);		/* there is more than the application has room for, and it reads nothing */
	shutdown(soft_fd(app[0].st->remote->ep), SHUT_RDWR);
	run_until(conn_gone, &p.rx_stag);
	finish(&w);
	{
		const uint32_t stag[4] = { p.tx_stag, p.rx_stag, p.rd_stag, p.rq_stag };

		for (int i = 0; i < 4; i++) {
			assert_null(rnic_mr_find(stag[i]));
			prm_strict = false;
			assert_int_equal(rnic_mr_reg_stag(pd, NULL, mem + i, 1, 0, IW_ACCESS_REMOTE_READ, stag[i], &mr[i]), 0);
			prm_strict = true;
		}
		assert_non_null(app[0].st);
		close_app(0);
		close_app(1);
		run_until(stream_gone, NULL);
		for (int i = 0; i < 4; i++) {
			assert_ptr_equal(rnic_mr_find(stag[i]), mr[i]);
			rnic_mr_dereg(mr[i]);
		}
	}
	rnic_pd_put(pd);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(only_its_rings), T(bases_are_random), T(readable_while_needed), T(reset_while_it_reads), T(unusable_reply), T(lingering_counts), T(stale_numbers_are_not_ours),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
