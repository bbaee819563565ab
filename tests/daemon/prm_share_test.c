/* SPDX-License-Identifier: MIT */
/* Users share the engine by time: one with a hundred busy streams does not starve one with a single one (SEC-P06). */
#include "verbs_util.h"

#include <time.h>

#include "daemon/rnic/soft.h"

/* ---- classes of work ---- */

#define NFLOOD 200u

struct item { struct work w; unsigned int *count, us; };

static struct work_class flood_turn, quiet_turn;
static struct item flooders[NFLOOD], quiet;
static unsigned int nflood, nquiet, ncontended;
static struct timer end;

static void spin(unsigned int us)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	do
		clock_gettime(CLOCK_MONOTONIC, &b);
	while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < (long)us);
}

static void item_run(struct work *w)
{
	struct item *i = container_of(w, struct item, w);

	spin(i->us);
	++*i->count;
	ncontended += engine_contended();
	work_queue(w, item_run);
}

static void stop(struct timer *t)
{
	engine_stop();
}

static void item_start(struct item *i, struct work_class *turn, unsigned int *count, unsigned int us)
{
	*i = (struct item){ .w = { .turn = turn }, .count = count, .us = us };
	work_queue(&i->w, item_run);
}

static void run_ms(unsigned int ms)
{
	timer_start(&end, ms, stop);
	engine_run();
}

static void time_is_shared(void **state)
{
	bool shared = false;

	work_class_init(&flood_turn);
	work_class_init(&quiet_turn);
	for (unsigned int i = 0; i < NFLOOD; i++)
		item_start(&flooders[i], &flood_turn, &nflood, 50);
	item_start(&quiet, &quiet_turn, &nquiet, 50);
	/* a while in which one of them stood still with the machine tells nothing: another one does */
	for (unsigned int i = 0; i < 10 && !shared; i++) {
		nflood = nquiet = ncontended = 0;
		run_ms(500);
		printf("# %u of the flood, %u of the other\n", nflood, nquiet);
		/* without turns it would be 1 of 201; with them it is one of two or three */
		shared = nquiet * 4 > nflood;
		/* seen while they run: when we ourselves had no CPU for a while, it is over */
		shared &= ncontended * 2 > nflood + nquiet;
	}
	assert_true(shared);
	work_cancel(&quiet.w);
	run_ms(100);
	assert_false(engine_contended());
	nflood = 0;
	for (unsigned int i = 0; i < 100 && nflood <= 100; i++)
		run_ms(100);
	assert_true(nflood > 100);	/* alone, it has all */
	for (unsigned int i = 0; i < NFLOOD; i++)
		work_cancel(&flooders[i].w);
}

static unsigned int order[8], norder;

static void note(struct work *w)
{
	order[norder++] = *container_of(w, struct item, w)->count;
	if (norder == 6)
		engine_stop();
}

/* Within a class first come, first served; the daemon's own work before all. */
static void order_is_kept(void **state)
{
	static unsigned int id[6] = { 0, 1, 2, 3, 4, 5 };
	struct item it[6];

	norder = 0;
	for (unsigned int i = 0; i < 6; i++) {
		it[i] = (struct item){ .count = &id[i], .w.turn = i < 2 ? NULL : i % 2 ? &quiet_turn : &flood_turn };
	}
	for (unsigned int i = 6; i-- > 0;)
		work_queue(&it[i].w, note);
	work_cancel(&it[3].w);
	work_queue(&it[3].w, note);	/* now behind 5, where it was, or before: behind what its class has */
	engine_run();
	assert_int_equal(order[0], 1);
	assert_int_equal(order[1], 0);
	for (unsigned int i = 0, last[2] = { 9, 9 }; i < 6; i++) {
		if (order[i] < 2)
			continue;
		assert_true(order[i] < last[order[i] % 2]);
		last[order[i] % 2] = order[i];
	}
}

/* ---- streams ---- */

#define CHUNK	65536u
#define STREAMS	32u

struct end { struct endpoint *c; struct rnic_mr *mr; unsigned int user; uint64_t *octets; bool up, closed; };
struct pipe { struct end tx, rx; };

static uint8_t data[CHUNK], sink[CHUNK];
static uint32_t rkey[2];

static void on_request(void *ctx, const struct endpoint_said *said)
{
	assert_int_equal(endpoint_accept(((struct end *)ctx)->c, NULL, 0), 0);
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	((struct end *)ctx)->up = true;
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct end *e = ctx;
	struct iw_wr wr = { .op = IW_WR_WRITE, .nsge = 1, .rstag = rkey[e->user] };

	if (cqe->status != IW_WC_OK)
		return;
	*e->octets += CHUNK;
	wr.sge[0] = sge_of(e->mr, 0, CHUNK);
	endpoint_post_send(e->c, &wr);
}

static void on_closed(void *ctx, int err, const struct endpoint_said *said)
{
	((struct end *)ctx)->closed = true;
}

static const struct endpoint_ulp ops = { .request = on_request, .established = on_established, .complete = on_complete, .closed = on_closed };

static bool pipe_up(void *arg)
{
	struct pipe *p = arg;

	return p->tx.up && p->rx.up;
}

static void pipe_open(struct pipe *p, struct rnic_pd *pd, uint64_t *octets, unsigned int user)
{
	int tcp[2];

	*p = (struct pipe){ .tx = { .user = user, .octets = octets } };
	tcp_pair(tcp);
	assert_int_equal(soft_create(tcp[0], pd, &ops, &p->tx, &p->tx.c), 0);
	assert_int_equal(soft_create(tcp[1], pd, &ops, &p->rx, &p->rx.c), 0);
	p->tx.mr = new_mr(pd, NULL, data, CHUNK, IW_ACCESS_LOCAL_READ);
	endpoint_respond(p->rx.c);
	endpoint_initiate(p->tx.c, NULL, 0);
	run_until(pipe_up, p);
	endpoint_large(p->tx.c, true);
	for (unsigned int i = 0; i < 8; i++) {
		struct iw_wr wr = { .op = IW_WR_WRITE, .nsge = 1, .rstag = rkey[user], .sge = { sge_of(p->tx.mr, 0, CHUNK) } };

		assert_int_equal(endpoint_post_send(p->tx.c, &wr), 0);
	}
}

static bool no_conns(void *arg)
{
	return !endpoint_count();
}

static void floods_of_streams(void **state)
{
	struct rnic_pd *pd = rnic_pd_get(1000), *other = rnic_pd_get(1001);
	static uint8_t sink2[CHUNK];
	struct rnic_mr *mr = new_mr(pd, NULL, sink, CHUNK, IW_ACCESS_REMOTE_WRITE);
	struct rnic_mr *mr2 = new_mr(other, NULL, sink2, CHUNK, IW_ACCESS_REMOTE_WRITE);
	uint64_t alone, octets[2] = { 0 };
	static struct pipe flood[STREAMS];
	struct pipe good;
	bool fair = false;

	rkey[0] = rnic_mr_stag(mr);
	rkey[1] = rnic_mr_stag(mr2);
	pipe_open(&good, other, &octets[1], 1);
	run_ms(300);
	octets[1] = 0;
	run_ms(500);
	alone = octets[1];
	for (unsigned int i = 0; i < STREAMS; i++)
		pipe_open(&flood[i], pd, &octets[0], 0);
	run_ms(300);
	for (unsigned int i = 0; i < 5 && !fair; i++) {
		octets[0] = octets[1] = 0;
		run_ms(1000);
		printf("# alone %.1f Gb/s, beside %u streams of another user %.1f, all of those %.1f\n", (double)alone * 16e-9, STREAMS,
		       (double)octets[1] * 8e-9, (double)octets[0] * 8e-9);
		/* fair would be one half; without turns it is one of 33 */
		fair = octets[1] * 4 > octets[0];
	}
	assert_true(fair);
	for (unsigned int i = 0; i < STREAMS; i++) {
		endpoint_abort(flood[i].tx.c);
		endpoint_abort(flood[i].rx.c);
		rnic_mr_dereg(flood[i].tx.mr);
	}
	endpoint_abort(good.tx.c);
	endpoint_abort(good.rx.c);
	rnic_mr_dereg(good.tx.mr);
	run_until(no_conns, NULL);
	rnic_mr_dereg(mr);
	rnic_mr_dereg(mr2);
	rnic_pd_put(pd);
	rnic_pd_put(other);
	assert_int_equal(prm_total(PRM_CQES) + prm_total(PRM_READS) + prm_total(PRM_STAGS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_is_shared), cmocka_unit_test(order_is_kept), cmocka_unit_test(floods_of_streams),
	};

	conf_default(&conf);
	prm_strict = false;
	log_init(LOG_CRIT, 1);
	if (engine_init())
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
