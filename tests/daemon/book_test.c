/* SPDX-License-Identifier: MIT */
/* What is remembered for programs is bounded for each user, however many programs he runs, and all given back. */
#include "util.h"

#include "daemon/cm/book.h"

#define CLIENTS	40u
#define EACH	4000u

static struct client all[CLIENTS];
static struct client_priv priv[CLIENTS];

static void client_init(unsigned int i, uint32_t uid)
{
	struct client_priv *p = &priv[i];

	memset(p, 0, sizeof(*p));
	all[i] = (struct client){ .pid = (pid_t)i + 1, .uid = uid, .priv = p };
	p->self = &all[i];
	list_init(&p->reqs);
	list_init(&p->proposals);
	list_init(&p->plain);
	list_init(&p->grants);
	list_add_tail(&clients, &p->node);
}

static unsigned int seen;

static void see(void *arg, const struct plain_info *i)
{
	seen += i->client->uid == *(uint32_t *)arg;
}

static unsigned int plains(uint32_t uid)
{
	seen = 0;
	plain_foreach(see, &uid);
	return seen;
}

static void one_user_many_programs(void **state)
{
	const struct iw_tuple t = { 0 };

	for (unsigned int i = 0; i < CLIENTS; i++)
		client_init(i, i == CLIENTS - 1 ? 1001 : 1000);
	for (unsigned int i = 0; i < CLIENTS - 1; i++)
		for (unsigned int k = 0; k < EACH; k++)
			plain_record(&all[i], k + 1, &t, true, 3, IW_REASON_POLICY);
	for (unsigned int k = 0; k < 1000; k++)
		grant_add(&all[0], k + 1, 0);
	assert_in_range(plains(1000), 1, PRM_RECORDS);
	assert_int_equal(prm_user_get(1000)->records, PRM_RECORDS);
	/* another user notices nothing */
	plain_record(&all[CLIENTS - 1], 1, &t, true, 3, IW_REASON_POLICY);
	assert_int_equal(plains(1001), 1);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		plain_client_gone(&all[i]);
		grants_client_gone(&all[i]);
	}
	assert_int_equal(prm_user_get(1000)->records, 0);
	assert_int_equal(prm_user_get(1001)->records, 0);
	plain_record(&all[0], 1, &t, true, 3, IW_REASON_POLICY);
	grant_add(&all[0], 7, 1);
	assert_int_equal(plains(1000), 1);
	assert_true(grant_has(&all[0], 7, 1));
	plain_closed(&all[0], 1);
	grants_stream_gone(7);
	assert_int_equal(prm_user_get(1000)->records, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(one_user_many_programs) };

	conf_default(&conf);
	log_init(0, 1);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
