// SPDX-License-Identifier: MIT
/* iwctl upgrade and downgrade: what the daemon does with a connection that waits, may switch, is relayed, goes back or is joined. */
#include "cm_util.h"

#include <inttypes.h>

/* Their names for it. */
#define CID	0x500000007ull
#define SID	0x600000009ull

struct world {
	struct lib server, client;
	int c, s;		/* a connection */
};
static struct world w;

static int setup(void **state)
{
	uint16_t port;
	int listener = tcp_listen(&port);

	w.server = lib_new();
	w.client = lib_new();
	w.c = tcp_connect(port);
	w.s = accept(listener, NULL, NULL);
	close(listener);
	return w.s < 0;
}

static int teardown(void **state)
{
	lib_free(&w.server);
	lib_free(&w.client);
	close(w.c);
	if (w.s >= 0)
		close(w.s);
	return 0;
}

/* What iwctl prints, all in one line without blanks. */
static const char *iwctl(const char *args)
{
	const char *build = getenv("IW_BUILD");
	static char out[20000];
	char cmd[400];
	size_t n;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "%s/iwctl -r %s -j %s | tr -d ' \n'", build ? build : "build/plain", d.dir, args);
	f = popen(cmd, "r");
	assert_non_null(f);
	n = fread(out, 1, sizeof(out) - 1, f);
	out[n] = 0;
	pclose(f);
	return out;
}

static bool says(const char *out, const char *text)
{
	if (!strstr(out, text))
		print_message("# no %s in %s\n", text, out);
	return strstr(out, text);
}

/* The id that iwctl streams shows of one end. */
static const char *id_of(bool client)
{
	const char *s = iwctl("streams"), *side = client ? "\"side\":\"client\"" : "\"side\":\"server\"", *e = strstr(s, side), *i = NULL;
	static char id[20];

	assert_non_null(e);
	for (const char *p = strstr(s, "\"id\":\""); p && p < e; p = strstr(p + 1, "\"id\":\""))
		i = p + 6;
	assert_non_null(i);
	snprintf(id, sizeof(id), "%.*s", (int)strcspn(i, "\""), i);
	return id;
}

static const char *ask(const char *what, const char *id)
{
	char args[60];

	snprintf(args, sizeof(args), "%s %s", what, id);
	return iwctl(args);
}

static void no_go(void)
{
	lib_sync(&w.client);
	lib_sync(&w.server);
	assert_false(lib_may(&w.client, CID) || lib_may(&w.server, SID));
}

static void waits(void **state)
{
	char id[20];
	const char *s;

	lib_propose(&w.client, w.c, CID, true);
	lib_sync(&w.client);
	snprintf(id, sizeof(id), "%s", id_of(true));
	s = ask("downgrade", id);
	assert_true(says(s, "\"asked\":true") && says(s, "\"reason\":\"downgraded\"") && says(s, "\"state\":\"plain\""));
	assert_true(says(s, "\"proposed_calls\":32") && says(s, "\"proposed_octets\":1000"));
	assert_true(says(ask("downgrade", id), "\"asked\":false"));
	lib_propose(&w.server, w.s, SID, false);
	no_go();
	s = iwctl("streams");
	assert_true(says(s, "\"reason\":\"other-end\"") && says(s, "\"their_reason\":\"downgraded\""));
	s = ask("upgrade", id);
	assert_true(says(s, "\"asked\":true"));
	lib_go(&w.server, SID);
}

static void may_switch(void **state)
{
	struct answer a;
	char id[20];

	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&w.server, w.s, SID, false);
	lib_go(&w.server, SID);
	snprintf(id, sizeof(id), "%s", id_of(false));
	assert_true(says(ask("downgrade", id), "\"asked\":true"));
	no_go();
	a = lib_switch(&w.server, SID, w.s);
	assert_int_equal(a.m.result, 1);
	assert_string_equal(iw_reason_name(a.m.reason), "downgraded");
	assert_true(says(ask("upgrade", id), "\"asked\":true"));
	lib_go(&w.server, SID);
}

/* Each time that a switch comes to nothing it waits twice as long, a minute at the seventh: not when somebody asks. */
static void at_once(void **state)
{
	char id[20];

	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&w.server, w.s, SID, false);
	lib_sync(&w.server);
	snprintf(id, sizeof(id), "%s", id_of(false));
	for (int i = 0; i < 8; i++) {
		lib_go(&w.server, SID);
		lib_abandons(&w.server, SID, w.s);
		assert_true(says(ask("upgrade", id), "\"asked\":true"));
	}
}

static void relayed(void **state)
{
	struct iw_page *page;
	struct answer a;
	const char *s;
	char id[20];
	int tcp;

	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&w.server, w.s, SID, false);
	a = lib_switch_to(&w.server, SID, w.s);
	page = mmap(NULL, IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a.fds[1], 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	snprintf(id, sizeof(id), "%" PRIx64, a.m.stream_id);
	s = ask("downgrade", id);
	assert_true(says(s, "\"asked\":true") && says(s, "\"state\":\"relay\"") && says(s, "\"reason\":\"downgraded\""));
	assert_int_equal(atomic_load(&page->want) & IW_WANT_BACK, IW_WANT_BACK);
	tcp = lib_back(&w.server, a.m.stream_id);
	assert_true(tcp >= 0);
	w.s = tcp;
	answer_close(&a);
	munmap(page, IW_PAGE_SIZE);

	/* it is the same connection under another name of the program's */
	lib_propose(&w.server, w.s, SID + 1, false);
	lib_sync(&w.server);
	assert_false(lib_may(&w.server, SID + 1));
	s = ask("upgrade", id_of(false));
	assert_true(says(s, "\"asked\":true"));
	lib_go(&w.server, SID + 1);
}

static void upgraded_again_before_it_goes_back(void **state)
{
	struct iw_page *page;
	struct answer a;
	char id[20];

	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&w.server, w.s, SID, false);
	a = lib_switch_to(&w.server, SID, w.s);
	w.s = -1;
	page = mmap(NULL, IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a.fds[1], 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	snprintf(id, sizeof(id), "%" PRIx64, a.m.stream_id);
	assert_true(says(ask("downgrade", id), "\"asked\":true"));
	assert_true(says(ask("upgrade", id), "\"asked\":true"));
	assert_int_equal(atomic_load(&page->want) & IW_WANT_BACK, 0);
	lib_go(&w.client, CID);
	munmap(page, IW_PAGE_SIZE);
	answer_close(&a);
}

static void joined(void **state)
{
	struct answer a, b;
	const char *s;
	char id[20];

	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&w.server, w.s, SID, false);
	a = lib_switch_to(&w.server, SID, w.s);
	w.s = -1;
	b = lib_switch_to(&w.client, CID, w.c);
	w.c = -1;
	snprintf(id, sizeof(id), "%" PRIx64, a.m.stream_id);
	s = ask("upgrade", id);
	assert_true(says(s, "\"asked\":false") && says(s, "itisupgraded") && says(s, "\"transport\":\"local\"") &&
		    says(s, "\"since_upgrade_ms\":") && says(s, "\"proposed_calls\":32"));
	s = ask("downgrade", id);
	assert_true(says(s, "\"asked\":false") && says(s, "cannotbeundone"));
	answer_close(&a);
	answer_close(&b);
}

static void nobody(void **state)
{
	const char *s = ask("upgrade", "1 ffffffffffffffff");

	assert_true(says(s, "{\"id\":\"1\",\"asked\":false,\"why\":\"thereisnosuch"));
	assert_true(says(s, "{\"id\":\"ffffffffffffffff\",\"asked\":false,\"why\":\"thereisnosuch"));
	assert_string_equal(ask("upgrade", "0x1 2>/dev/null"), "");
	assert_string_equal(ask("downgrade", "2>/dev/null"), "");
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody), T(waits), T(may_switch), T(at_once), T(relayed), T(upgraded_again_before_it_goes_back), T(joined),
	};

	own_net();
	d.option = "answer_timeout=200";	/* on a busy machine nothing that is not about it shall run into it */
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, daemon_start, daemon_stop);
}
