// SPDX-License-Identifier: MIT
/* iw_ctl_check(): every type with every wrong size, direction, number of fds and field; random octets never pass the limits. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "proto/ctlmsg.h"
#include "proto/reason.h"

static const struct {
	enum iw_ctl_type type;
	const char *name;
	size_t size;
	int from_library;
	unsigned int nfds;
} all[] = {
	{ IW_CTL_HELLO, "HELLO", sizeof(struct iw_ctl_hello), 1, 0 },
	{ IW_CTL_PROPOSE, "PROPOSE", sizeof(struct iw_ctl_propose), 1, 0 },
	{ IW_CTL_SWITCH, "SWITCH", sizeof(struct iw_ctl_id), 1, 1 },
	{ IW_CTL_SWITCHED, "SWITCHED", sizeof(struct iw_ctl_id), 1, 0 },
	{ IW_CTL_ABANDON, "ABANDON", sizeof(struct iw_ctl_id), 1, 0 },
	{ IW_CTL_BACK, "BACK", sizeof(struct iw_ctl_id), 1, 0 },
	{ IW_CTL_MAP, "MAP", sizeof(struct iw_ctl_id), 1, 0 },
	{ IW_CTL_UNMAP, "UNMAP", sizeof(struct iw_ctl_id), 1, 0 },
	{ IW_CTL_PLAIN, "PLAIN", sizeof(struct iw_ctl_conn), 1, 0 },
	{ IW_CTL_CLOSED, "CLOSED", sizeof(struct iw_ctl_id), 1, 0 },
	{ IW_CTL_OPEN, "OPEN", sizeof(struct iw_ctl_fdmsg), 1, 1 },
	{ IW_CTL_GETSOCKOPT, "GETSOCKOPT", sizeof(struct iw_ctl_opt), 1, 0 },
	{ IW_CTL_SETSOCKOPT, "SETSOCKOPT", sizeof(struct iw_ctl_opt), 1, 0 },
	{ IW_CTL_SYNC, "SYNC", sizeof(struct iw_ctl_hdr), 1, 0 },
	{ IW_CTL_BELL, "BELL", sizeof(struct iw_ctl_id), 1, 0 },
	{ IW_CTL_HELLO_ACK, "HELLO_ACK", sizeof(struct iw_ctl_hello_ack), 0, 2 },
	{ IW_CTL_ACK, "ACK", sizeof(struct iw_ctl_ack), 0, 0 },
	{ IW_CTL_STREAM, "STREAM", sizeof(struct iw_ctl_stream), 0, 2 },
	{ IW_CTL_OPT, "OPT", sizeof(struct iw_ctl_opt), 0, 0 },
	{ IW_CTL_TCP, "TCP", sizeof(struct iw_ctl_tcp), 0, 1 },
	{ IW_CTL_REST, "REST", sizeof(struct iw_ctl_fdmsg), 1, 1 },
	{ IW_CTL_DIRECT, "DIRECT", sizeof(struct iw_ctl_fdmsg), 1, 1 },
	{ IW_CTL_MAPPED, "MAPPED", sizeof(struct iw_ctl_mapped), 0, 2 },
};
#define N_ALL (sizeof(all) / sizeof(all[0]))

union msg {
	struct iw_ctl_hdr h;
	struct iw_ctl_hello hello;
	struct iw_ctl_hello_ack hello_ack;
	struct iw_ctl_propose propose;
	struct iw_ctl_conn conn;
	struct iw_ctl_id id;
	struct iw_ctl_ack ack;
	struct iw_ctl_stream stream;
	struct iw_ctl_tcp tcp;
	struct iw_ctl_mapped mapped;
	struct iw_ctl_opt opt;
	uint8_t octets[IW_CTL_MAX + 64];
};

static const struct iw_addr v4 = { .ip = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 }, .port = 80, .family = AF_INET };

/* A good message of each type. */
static void good(union msg *m, enum iw_ctl_type type)
{
	memset(m, 0xaa, sizeof(*m));
	iw_ctl_init(m, type, 42);
	if (type == IW_CTL_PROPOSE) {
		m->propose.conn_id = 1;
		m->propose.local = m->propose.peer = v4;
	}
	if (type == IW_CTL_PLAIN) {
		m->conn.conn_id = 1;
		m->conn.local = m->conn.peer = v4;
		m->conn.reason = IW_REASON_POLICY;
	}
	if (type == IW_CTL_STREAM) {
		m->stream.stream_id = 1;
		m->stream.size = 1 << 20;
		m->stream.local = m->stream.peer = v4;
	}
	if (type == IW_CTL_MAPPED) {
		m->mapped.stream_id = 1;
		m->mapped.size = 1 << 20;
	}
}

static int check(const union msg *m, unsigned int i)
{
	return iw_ctl_check(m, all[i].size, all[i].nfds, all[i].from_library);
}

static unsigned int index_of(enum iw_ctl_type type)
{
	unsigned int i = 0;

	while (all[i].type != type)
		i++;
	return i;
}

static void test_good(void **state)
{
	for (unsigned int i = 0; i < N_ALL; i++) {
		union msg m;

		good(&m, all[i].type);
		assert_int_equal(m.h.seq, 42);
		assert_int_equal(m.h.len, all[i].size);
		assert_int_equal(iw_ctl_size(all[i].type), all[i].size);
		assert_string_equal(iw_ctl_name(all[i].type), all[i].name);
		assert_int_equal(check(&m, i), 0);
	}
}

static void test_sizes(void **state)
{
	for (unsigned int i = 0; i < N_ALL; i++)
		for (size_t len = 0; len <= IW_CTL_MAX + 8; len++) {
			uint8_t *exact = malloc(len + 1);
			union msg m;

			good(&m, all[i].type);
			memcpy(exact, &m, len);
			assert_int_equal(iw_ctl_check(exact, len, all[i].nfds, all[i].from_library),
					 len == all[i].size ? 0 : -EPROTO);
			m.h.len = (uint32_t)len;	/* also when it says so itself */
			memcpy(exact, &m, len);
			assert_int_equal(iw_ctl_check(exact, len, all[i].nfds, all[i].from_library),
					 len == all[i].size ? 0 : -EPROTO);
			m.h.len = (uint32_t)all[i].size + 1;
			if (len == all[i].size)
				assert_int_equal(check(&m, i), -EPROTO);
			free(exact);
		}
}

static void test_fds(void **state)
{
	for (unsigned int i = 0; i < N_ALL; i++)
		for (unsigned int n = 0; n < 260; n++) {
			int ok = n == all[i].nfds || (all[i].type == IW_CTL_STREAM && n == 1);
			union msg m;

			good(&m, all[i].type);
			assert_int_equal(iw_ctl_check(&m, all[i].size, n, all[i].from_library), ok ? 0 : -EPROTO);
		}
}

static void test_header(void **state)
{
	for (unsigned int i = 0; i < N_ALL; i++) {
		union msg m;

		good(&m, all[i].type);
		assert_int_equal(iw_ctl_check(&m, all[i].size, all[i].nfds, !all[i].from_library), -EPROTO);
		m.h.magic ^= 1;
		assert_int_equal(check(&m, i), -EPROTO);
		good(&m, all[i].type);
		m.h.version++;
		assert_int_equal(check(&m, i), -EPROTONOSUPPORT);
	}
	for (unsigned int type = 0; type < 0x10000; type++) {
		union msg m;
		int known = 0;

		for (unsigned int i = 0; i < N_ALL; i++)
			known |= all[i].type == type;
		if (known)
			continue;
		assert_int_equal(iw_ctl_size(type), 0);
		assert_string_equal(iw_ctl_name(type), "unknown");
		good(&m, IW_CTL_HELLO);
		m.h.type = (uint16_t)type;
		assert_int_equal(iw_ctl_check(&m, sizeof(m.hello), 0, 1), -EPROTO);
		assert_int_equal(iw_ctl_check(&m, sizeof(m.hello), 0, 0), -EPROTO);
	}
}

#define expect(type, want, ...) do { \
	union msg m; \
	good(&m, type); \
	__VA_ARGS__; \
	assert_int_equal(check(&m, index_of(type)), want); \
	} while (0)

static void test_fields(void **state)
{
	expect(IW_CTL_HELLO, 0, memset(m.hello.program, 'x', 63));
	expect(IW_CTL_HELLO, -EPROTO, memset(m.hello.program, 'x', 64));
	expect(IW_CTL_PROPOSE, 0, m.propose.peer.family = AF_INET6);
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.peer.family = AF_UNIX);
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.local.family = AF_UNIX);
	expect(IW_CTL_PROPOSE, -EPROTO, memset(&m.propose.peer, 0, sizeof(v4)));
	expect(IW_CTL_PROPOSE, -EPROTO, memset(&m.propose.local, 0, sizeof(v4)));
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.peer.ip[11] = 0);
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.conn_id = 0);
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.local.port = 0);
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.peer.port = 0);
	expect(IW_CTL_PROPOSE, 0, m.propose.slot = IW_GO_SLOTS - 1);
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.slot = IW_GO_SLOTS);
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.slot = UINT32_MAX);
	expect(IW_CTL_PROPOSE, 0, m.propose.gain = IW_GAIN_NONE);
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.gain = IW_GAIN_NONE + 1);
	expect(IW_CTL_PROPOSE, 0, m.propose.flags = IW_CONN_CLIENT);
	expect(IW_CTL_PROPOSE, -EPROTO, m.propose.flags = IW_CONN_FOR_NOW);
	expect(IW_CTL_PLAIN, 0, m.conn.flags = 3);
	expect(IW_CTL_PLAIN, -EPROTO, m.conn.flags = 4);
	expect(IW_CTL_PLAIN, -EPROTO, m.conn.flags = 0x80000000);
	expect(IW_CTL_PLAIN, -EPROTO, m.conn.conn_id = 0);
	expect(IW_CTL_PLAIN, -EPROTO, m.conn.reason = IW_REASON_ACCELERATED);
	expect(IW_CTL_PLAIN, 0, m.conn.reason = IW_REASON_MAX);	/* of a newer iwsock */
	expect(IW_CTL_PLAIN, 0, m.conn.reason = IW_REASON_OTHER);
	expect(IW_CTL_PLAIN, -EPROTO, m.conn.reason = IW_REASON_OTHER + 1);
	expect(IW_CTL_PLAIN, -EPROTO, m.conn.reason = UINT32_MAX);
	expect(IW_CTL_PLAIN, -EPROTO, m.conn.peer.family = 77);
	expect(IW_CTL_PLAIN, -EPROTO, m.conn.local.family = 77);
	expect(IW_CTL_PLAIN, 0, memset(&m.conn.peer, 0, sizeof(v4)));
	expect(IW_CTL_ABANDON, 0, m.id.reason = IW_REASON_OTHER);
	expect(IW_CTL_ABANDON, -EPROTO, m.id.reason = IW_REASON_OTHER + 1);
	expect(IW_CTL_ACK, 0, m.ack.result = 1; m.ack.reason = IW_REASON_QUOTA);
	expect(IW_CTL_ACK, -EPROTO, m.ack.result = 2);
	expect(IW_CTL_ACK, -EPROTO, m.ack.result = -1);
	expect(IW_CTL_ACK, 0, m.ack.result = 1; m.ack.reason = IW_REASON_MAX);
	expect(IW_CTL_ACK, -EPROTO, m.ack.result = 1; m.ack.reason = IW_REASON_OTHER + 1);
	for (int k = 0; k < 3; k++) {
		enum iw_ctl_type t = (const enum iw_ctl_type[]){ IW_CTL_GETSOCKOPT, IW_CTL_SETSOCKOPT, IW_CTL_OPT }[k];

		expect(t, 0, m.opt.optlen = IW_CTL_OPTMAX; m.opt.end = 1);
		expect(t, -EPROTO, m.opt.optlen = IW_CTL_OPTMAX + 1);
		expect(t, -EPROTO, m.opt.optlen = 0xffffffff);
		expect(t, -EPROTO, m.opt.end = 2);
		expect(t, t == IW_CTL_OPT ? 0 : -EPROTO, m.opt.error = ENOPROTOOPT);
		expect(t, -EPROTO, m.opt.error = -1);
		expect(t, -EPROTO, m.opt.error = 4096);
	}
}

static void test_stream(void **state)
{
	expect(IW_CTL_STREAM, -EPROTO, m.stream.end = 2);
	expect(IW_CTL_STREAM, -EPROTO, m.stream.flags = 4);
	expect(IW_CTL_STREAM, 0, m.stream.flags = IW_PAGE_LOCAL; m.stream.end = 1);
	expect(IW_CTL_STREAM, 0, m.stream.flags = IW_PAGE_NEAR);
	expect(IW_CTL_STREAM, -EPROTO, m.stream.local.family = AF_UNIX);
	expect(IW_CTL_STREAM, -EPROTO, m.stream.peer.ip[10] = 0);
	expect(IW_CTL_STREAM, -EPROTO, m.stream.stream_id = 0);
	expect(IW_CTL_STREAM, -EPROTO, m.stream.size = IW_PAGE_SIZE - 1);
	expect(IW_CTL_STREAM, -EPROTO, m.stream.result = 2);
	expect(IW_CTL_STREAM, -EPROTO, m.stream.result = 1);	/* two fds with a refusal */
}

static void test_mapped(void **state)
{
	expect(IW_CTL_MAPPED, -EPROTO, m.mapped.stream_id = 0);
	expect(IW_CTL_MAPPED, -EPROTO, m.mapped.size = IW_PAGE_SIZE - 1);
	expect(IW_CTL_MAPPED, -EPROTO, m.mapped.result = 2);
	expect(IW_CTL_MAPPED, -EPROTO, m.mapped.result = 1);	/* two fds with a refusal */
}

/* A refusal brings no fds. */
static void test_refusals(void **state)
{
	union msg m;

	good(&m, IW_CTL_STREAM);
	m.stream.result = 1;
	m.stream.reason = IW_REASON_QUOTA;
	m.stream.stream_id = m.stream.size = 0;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.stream), 0, 0), 0);
	m.stream.reason = IW_REASON_MAX;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.stream), 0, 0), 0);
	m.stream.reason = IW_REASON_OTHER + 1;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.stream), 0, 0), -EPROTO);
	good(&m, IW_CTL_TCP);
	m.tcp.result = 1;
	m.tcp.reason = IW_REASON_BUSY;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.tcp), 0, 0), 0);
	assert_int_equal(iw_ctl_check(&m, sizeof(m.tcp), 1, 0), -EPROTO);
	m.tcp.reason = IW_REASON_OTHER + 1;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.tcp), 0, 0), -EPROTO);
	good(&m, IW_CTL_MAPPED);
	m.mapped.result = 1;
	m.mapped.reason = IW_REASON_BUSY;
	m.mapped.stream_id = m.mapped.size = 0;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.mapped), 0, 0), 0);
	assert_int_equal(iw_ctl_check(&m, sizeof(m.mapped), 2, 0), -EPROTO);
	m.mapped.reason = IW_REASON_OTHER + 1;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.mapped), 0, 0), -EPROTO);
	good(&m, IW_CTL_HELLO_ACK);
	m.hello_ack.result = IW_REASON_VERSION;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.hello_ack), 0, 0), 0);
	assert_int_equal(iw_ctl_check(&m, sizeof(m.hello_ack), 2, 0), -EPROTO);
	m.hello_ack.result = IW_REASON_MAX;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.hello_ack), 0, 0), 0);
	m.hello_ack.result = IW_REASON_OTHER + 1;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.hello_ack), 0, 0), -EPROTO);
	m.hello_ack.result = -1;
	assert_int_equal(iw_ctl_check(&m, sizeof(m.hello_ack), 0, 0), -EPROTO);
}

/* Whatever passes keeps the promises that its reader relies on. */
static void test_random(void **state)
{
	unsigned int seed = getenv("IW_SEED") ? (unsigned int)strtoul(getenv("IW_SEED"), NULL, 0) : (unsigned int)time(NULL);
	unsigned int passed = 0;

	printf("# ctlmsg_test: IW_SEED=%u\n", seed);
	for (int n = 0; n < 300000; n++) {
		unsigned int i = (unsigned int)rand_r(&seed) % N_ALL;
		union msg m;

		if (all[i].size == sizeof(m.h))
			continue;
		good(&m, all[i].type);
		for (int k = rand_r(&seed) % 4; k >= 0; k--)
			m.octets[sizeof(m.h) + (unsigned int)rand_r(&seed) % (all[i].size - sizeof(m.h))] = (uint8_t)rand_r(&seed);
		if (check(&m, i))
			continue;
		passed++;
		if (all[i].type == IW_CTL_HELLO)
			assert_true(strnlen(m.hello.program, 64) < 64);
		if (all[i].size == sizeof(struct iw_ctl_opt))
			assert_true(m.opt.optlen <= IW_CTL_OPTMAX && m.opt.end <= 1);
		if (all[i].type == IW_CTL_PROPOSE)
			assert_true(m.propose.conn_id && m.propose.slot < IW_GO_SLOTS);
		if (all[i].type == IW_CTL_PLAIN)
			assert_true(m.conn.reason && m.conn.reason <= IW_REASON_OTHER);
	}
	assert_true(passed > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_fds),
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
