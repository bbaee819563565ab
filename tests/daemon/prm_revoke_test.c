/* SPDX-License-Identifier: MIT */
/*
 * Revocation is complete when it returns (SEC-R06, security.md R9): a peer floods Writes, Reads and Atomics; in the middle of it, between
 * any two octets, the STag is revoked and the memory unmapped, 10^4 times. Nothing changes any more, and nothing faults.
 */
#include "verbs_util.h"

#include <sys/mman.h>

#define ROUNDS	10000u
#define LEN	8192u
#define FLOOD	8u

enum how { DEREG, RIGHTS, MEMORY_GOES, QP_GOES, HOWS };

static struct rnic_pd *pd;
static unsigned int seed;

static struct victim {
	struct vqp a, b;
	struct rnic_cq *cq;
	struct rnic_mr *mr, *src;
	uint8_t *mem;
} v;
static uint8_t source[LEN], in[1 << 20];

static void take_away(enum how how)
{
	if (how == RIGHTS) {
		assert_int_equal(rnic_mr_set_access(v.mr, IW_ACCESS_LOCAL_READ), 0);
		mprotect(v.mem, LEN, PROT_NONE);
		return;
	}
	if (how == DEREG)
		rnic_mr_dereg(v.mr);
	else if (how == QP_GOES)
		rnic_qp_destroy(v.b.qp);	/* takes the STags of its scope along */
	if (how == MEMORY_GOES)
		prm_mem_destroy(v.mem);		/* with what is registered of it */
	else
		mprotect(v.mem, LEN, PROT_NONE);
	v.mr = NULL;
}

static void prepare(void)
{
	void *mem;

	assert_int_equal(prm_mem_create(rnic_pd_user(pd), LEN, &mem, NULL), 0);
	v.mem = mem;
	memset(v.mem, 0x11, LEN);
	v.cq = new_cq(pd, 2048);
	assert_int_equal(vqp_new(&v.a, pd, v.cq, v.cq, 0, 0), 0);
	assert_int_equal(vqp_new(&v.b, pd, v.cq, v.cq, 0, 0), 0);
	v.mr = new_mr(pd, v.b.qp, v.mem, LEN, IW_ACCESS_REMOTE_WRITE | IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_ATOMIC);
	v.src = new_mr(pd, v.a.qp, source, LEN, IW_ACCESS_LOCAL_READ | IW_ACCESS_READ_SINK);
	vqp_start(&v.a, true);
	vqp_start(&v.b, false);
}

static void flood(void)
{
	uint32_t stag = rnic_mr_stag(v.mr);

	for (unsigned int i = 0; i < FLOOD; i++) {
		struct iw_wr w = { .op = IW_WR_WRITE, .flags = IW_WR_QUIET, .nsge = 1, .rstag = stag, .sge = { sge_of(v.src, 0, LEN) } };
		struct iw_wr r = { .op = IW_WR_READ, .nsge = 1, .rstag = stag, .sge = { sge_of(v.src, 0, 64) } };
		struct iw_wr at = { .op = IW_WR_FETCHADD, .rstag = stag, .rto = 8, .add_swap = 1 };

		assert_int_equal(rnic_post_send(v.a.qp, &w), 0);
		assert_int_equal(rnic_post_send(v.a.qp, i % 2 ? &r : &at), 0);
	}
}

/* What a says reaches b up to an octet, whole FPDUs or not; then everything is taken away; then comes the rest. */
static void round_of(enum how how, size_t at)
{
	struct iw_qp *qa = rnic_qp_state(v.a.qp), *qb = rnic_qp_state(v.b.qp);
	size_t n = iw_qp_tx(qa, &rnic_qp_ops, v.a.qp, in, sizeof(in), 0), off, back;

	off = iw_qp_rx(qb, &rnic_qp_ops, v.b.qp, in, at % n);
	take_away(how);
	if (how == QP_GOES)
		return;
	assert_int_equal(iw_qp_rx(qb, &rnic_qp_ops, v.b.qp, in + off, n - off), n - off);
	/* Responses that were asked for before must not read what is gone either */
	while ((back = iw_qp_tx(qb, &rnic_qp_ops, v.b.qp, wire, sizeof(wire), 0)))
		iw_qp_tx_done(qb, &rnic_qp_ops, v.b.qp, back);
}

static void finish(enum how how)
{
	if (how == QP_GOES)
		v.b.qp = NULL;
	else
		assert_true(v.b.gone);		/* the flood went on, so it ended in a Terminate */
	if (how == MEMORY_GOES)
		v.mem = NULL;
	rnic_mr_dereg(v.mr);
	rnic_mr_dereg(v.src);
	rnic_qp_destroy(v.a.qp);
	rnic_qp_destroy(v.b.qp);
	assert_int_equal(rnic_cq_destroy(v.cq), 0);
	prm_mem_destroy(v.mem);
}

static void between_octets(void **state)
{
	for (unsigned int i = 0; i < ROUNDS; i++) {
		prepare();
		flood();
		round_of(i % HOWS, (size_t)rand_r(&seed));
		finish(i % HOWS);
	}
}

/* A Read Response that is half on its way when its source goes: the rest never leaves, and a Terminate says why. */
static void source_of_a_response(void **state)
{
	for (unsigned int i = 0; i < 1000; i++) {
		struct iw_wr r = { .op = IW_WR_READ, .nsge = 1 };
		struct iw_qp *qb;
		size_t n, sum = 0;

		prepare();
		qb = rnic_qp_state(v.b.qp);
		r.rstag = rnic_mr_stag(v.mr);
		r.sge[0] = sge_of(v.src, 0, LEN);
		assert_int_equal(rnic_post_send(v.a.qp, &r), 0);
		flow(&v.a, &v.b);
		n = iw_qp_tx(qb, &rnic_qp_ops, v.b.qp, wire, IW_FPDU_MAX_MARKERS, 1);	/* one FPDU */
		assert_true(n > 0 && n < LEN);
		take_away(i % 2 ? DEREG : MEMORY_GOES);
		while ((n = iw_qp_tx(qb, &rnic_qp_ops, v.b.qp, wire, sizeof(wire), 0))) {
			iw_qp_tx_done(qb, &rnic_qp_ops, v.b.qp, n);
			sum += n;
		}
		assert_true(v.b.gone);
		assert_true(sum < 100);		/* the Terminate only */
		finish(i % 2 ? DEREG : MEMORY_GOES);
	}
}

/* What was unmapped and mapped anew belongs to somebody else: not one octet of it changes. */
static void same_place_new_owner(void **state)
{
	for (unsigned int i = 0; i < 1000; i++) {
		uint8_t *place, *again;

		prepare();
		flood();
		place = v.mem;
		take_away(MEMORY_GOES);
		again = mmap(place, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		assert_ptr_equal(again, place);
		memset(again, 0x22, LEN);
		flow(&v.a, &v.b);
		for (unsigned int k = 0; k < LEN; k++)
			assert_int_equal(again[k], 0x22);
		munmap(again, LEN);
		finish(MEMORY_GOES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(between_octets), cmocka_unit_test(source_of_a_response), cmocka_unit_test(same_place_new_owner),
	};
	const char *s = getenv("IW_SEED");

	conf_default(&conf);
	prm_strict = false;
	log_init(LOG_EMERG, 1);
	seed = s ? (unsigned int)strtoul(s, NULL, 0) : (unsigned int)getpid();
	printf("# seed %u\n", seed);
	pd = rnic_pd_get(1000);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
