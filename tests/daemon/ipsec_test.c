/* SPDX-License-Identifier: MIT */
/* Which connections the kernel's IPsec policies cover (SEC-IPSEC-1): from answers of a kernel, recorded, cut and bent. No kernel is asked. */
#include "util.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>
#include <netinet/in.h>

#include "daemon/net/ipsec.h"
#include "daemon/stream/stream.h"
#include "ipsec_dump.h"

static struct ipsec_table table;
static uint8_t octets[16384];

static size_t unhex(const char *hex)
{
	size_t n = strlen(hex) / 2;

	assert_true(n <= sizeof(octets));
	for (size_t i = 0; i < n; i++) {
		unsigned int v;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
		octets[i] = (uint8_t)v;
	}
	return n;
}

static int setup_table(void **state)
{
	size_t last = sizeof(ipsec_dump) / sizeof(ipsec_dump[0]) - 1;

	for (size_t i = 0; i <= last; i++)
		assert_int_equal(ipsec_table_parse(&table, octets, unhex(ipsec_dump[i])), i < last);
	return 0;
}

static int teardown_table(void **state)
{
	ipsec_table_clear(&table);
	return 0;
}

static struct iw_addr addr(const char *ip, uint16_t port)
{
	struct iw_addr a = { .port = port, .family = AF_INET6 };

	if (inet_pton(AF_INET, ip, a.ip + 12) == 1) {
		a.ip[10] = a.ip[11] = 0xff;
		a.family = AF_INET;
	} else {
		assert_int_equal(inet_pton(AF_INET6, ip, a.ip), 1);
	}
	return a;
}

static bool covers(const char *local, uint16_t lport, const char *peer, uint16_t pport)
{
	return ipsec_table_covers(&table, &(struct iw_tuple){ .local = addr(local, lport), .peer = addr(peer, pport) });
}

static bool to(const char *peer)
{
	return covers("10.77.0.1", 40000, peer, 80);
}

/* ---- a table made by hand ---- */

static void empty(void **state)
{
	assert_false(to("10.77.0.2"));
}

static void policy(bool out, const char *src, unsigned int src_len, const char *dst, unsigned int dst_len, uint32_t priority, bool esp)
{
	struct iw_addr s = addr(src, 0), d = addr(dst, 0);
	struct ipsec_policy *p = realloc(table.policy, (table.n + 1) * sizeof(*p));

	assert_non_null(p);
	table.policy = p;
	p += table.n++;
	table.cap = table.n;
	*p = (struct ipsec_policy){
		.out = out, .v4 = s.family == AF_INET, .esp = esp, .src_len = (uint8_t)src_len, .dst_len = (uint8_t)dst_len, .priority = priority,
	};
	memcpy(p->src, s.ip + (p->v4 ? 12 : 0), p->v4 ? 4 : 16);
	memcpy(p->dst, d.ip + (p->v4 ? 12 : 0), p->v4 ? 4 : 16);
}

static void both(const char *local, unsigned int llen, const char *peer, unsigned int plen, uint32_t priority, bool esp)
{
	policy(true, local, llen, peer, plen, priority, esp);
	policy(false, peer, plen, local, llen, priority, esp);
}

static void prefixes(void **state)
{
	both("10.0.0.0", 9, "10.128.0.0", 9, 1, true);
	assert_true(covers("10.127.255.255", 1, "10.128.0.0", 1));
	assert_false(covers("10.128.0.0", 1, "10.128.0.0", 1));
	assert_false(covers("10.127.0.0", 1, "10.127.0.0", 1));
	both("fd00::", 8, "::", 0, 1, true);
	assert_true(covers("fd77::1", 1, "2001:db8::1", 1));
	assert_false(covers("fe77::1", 1, "2001:db8::1", 1));
	/* ::/0 is not for IPv4, though an IPv4 address is told apart by its form only */
	both("::", 0, "::", 0, 1, true);
	assert_false(covers("192.0.2.1", 1, "192.0.2.2", 1));
	both("0.0.0.0", 0, "0.0.0.0", 0, 1, true);
	assert_true(covers("192.0.2.1", 1, "192.0.2.2", 1));
}

static void both_directions(void **state)
{
	policy(true, "10.0.0.0", 8, "10.0.0.0", 8, 1, true);
	assert_false(covers("10.0.0.1", 1, "10.0.0.2", 1));
	policy(false, "10.0.0.3", 32, "10.0.0.0", 8, 1, true);
	assert_false(covers("10.0.0.1", 1, "10.0.0.2", 1));
	assert_true(covers("10.0.0.1", 1, "10.0.0.3", 1));
	assert_false(covers("10.0.0.3", 1, "10.0.0.1", 1));
}

static void the_first_by_priority(void **state)
{
	both("10.0.0.0", 8, "10.0.0.0", 8, 100, true);
	both("10.0.0.0", 8, "10.0.0.2", 32, 101, false);
	assert_true(covers("10.0.0.1", 1, "10.0.0.2", 1));
	both("10.0.0.0", 8, "10.0.0.3", 32, 99, false);
	assert_false(covers("10.0.0.1", 1, "10.0.0.3", 1));
	assert_true(covers("10.0.0.1", 1, "10.0.0.4", 1));
	/* the same priority: the kernel knows which is older, we do not */
	both("10.0.0.0", 8, "10.0.0.5", 32, 100, false);
	assert_false(covers("10.0.0.1", 1, "10.0.0.5", 1));
	/* one direction is enough to spoil it */
	policy(false, "10.0.0.6", 32, "0.0.0.0", 0, 0, false);
	assert_false(covers("10.0.0.1", 1, "10.0.0.6", 1));
}

static void priority_is_unsigned(void **state)
{
	both("10.0.0.0", 8, "10.0.0.0", 8, 0xffffffff, true);
	assert_true(covers("10.0.0.1", 1, "10.0.0.2", 1));
	both("10.0.0.0", 8, "10.0.0.0", 8, 0x80000000, false);
	assert_false(covers("10.0.0.1", 1, "10.0.0.2", 1));
	both("10.0.0.0", 8, "10.0.0.0", 8, 1, true);
	assert_true(covers("10.0.0.1", 1, "10.0.0.2", 1));
}

static void ports(void **state)
{
	both("10.0.0.0", 8, "10.0.0.0", 8, 1, true);
	for (size_t i = 0; i < 2; i++) {
		/* server 10.0.0.0/8 port 8192..8199, seen from the client */
		if (table.policy[i].out) {
			table.policy[i].dport = 8192;
			table.policy[i].dport_mask = 0xfff8;
		} else {
			table.policy[i].sport = 8192;
			table.policy[i].sport_mask = 0xfff8;
		}
	}
	assert_true(covers("10.0.0.1", 33333, "10.0.0.2", 8192));
	assert_true(covers("10.0.0.1", 33333, "10.0.0.2", 8199));
	assert_false(covers("10.0.0.1", 33333, "10.0.0.2", 8200));
	assert_false(covers("10.0.0.1", 33333, "10.0.0.2", 8191));
	assert_false(covers("10.0.0.1", 8192, "10.0.0.2", 33333));
	assert_true(covers("10.0.0.1", 0, "10.0.0.2", 8192));
	table.policy[0].proto = IPPROTO_UDP;
	assert_false(covers("10.0.0.1", 33333, "10.0.0.2", 8192));
	table.policy[0].proto = IPPROTO_TCP;
	assert_true(covers("10.0.0.1", 33333, "10.0.0.2", 8192));
}

/* A policy that holds for some sockets only protects nobody, and may take protection away. */
static void narrow(void **state)
{
	both("10.0.0.0", 8, "10.0.0.0", 8, 10, true);
	assert_true(covers("10.0.0.1", 1, "10.0.0.2", 1));
	table.policy[0].narrow = true;
	assert_false(covers("10.0.0.1", 1, "10.0.0.2", 1));
	table.policy[0].narrow = false;
	both("10.0.0.0", 8, "10.0.0.0", 8, 5, false);
	table.policy[2].narrow = table.policy[3].narrow = true;
	assert_false(covers("10.0.0.1", 1, "10.0.0.2", 1));
}

/* ---- what a kernel said ---- */

static void recorded(void **state)
{
	assert_int_equal(table.n, 22);	/* without the forwarded one and those of the socket */
	assert_true(to("10.77.0.2"));
	assert_true(covers("10.77.0.1", 33333, "10.77.0.2", 874));
	assert_true(covers("10.77.0.1", 874, "10.77.0.2", 33333));
	assert_true(covers("fd77::1", 33333, "fd77::2", 874));
	assert_false(covers("10.77.0.2", 33333, "10.77.0.1", 874));
	assert_false(covers("fd77::1", 33333, "fd77::3", 874));
	assert_false(covers("10.77.1.5", 33333, "10.77.2.5", 80));
	assert_false(to("192.0.2.1"));
}

static void recorded_exceptions(void **state)
{
	assert_false(covers("10.77.0.1", 33333, "10.77.0.2", 22));	/* let through as it is */
	assert_true(covers("10.77.0.1", 22, "10.77.0.2", 33333));	/* our port 22 is not theirs */
	assert_false(to("10.77.0.3"));		/* optional */
	assert_false(to("10.77.0.4"));		/* AH: nothing is encrypted */
	assert_false(to("10.77.0.5"));		/* a mark */
	assert_false(to("10.77.0.6"));		/* one way */
	assert_false(to("10.77.0.7"));		/* blocked */
	assert_true(to("10.77.0.8"));		/* compressed, then ESP */
	assert_false(to("10.77.0.9"));		/* an interface id */
	assert_false(to("10.77.0.10"));		/* UDP */
	assert_false(covers("10.77.9.1", 1, "10.77.9.2", 1));	/* an interface */
}

/* ---- answers that are bent ---- */

static int parse_again(const void *buf, size_t len)
{
	ipsec_table_clear(&table);
	return ipsec_table_parse(&table, buf, len);
}

/* Cut anywhere: whole messages, or an error; never more than there is (the copy ends where the memory does). */
static void cut_everywhere(void **state)
{
	size_t len = unhex(ipsec_dump[1]), whole = 0;
	int ret;

	for (size_t n = 0; n <= len; n++) {
		uint8_t *copy = malloc(n ? n : 1);
		uint32_t next;

		assert_non_null(copy);
		memcpy(copy, octets, n);
		ret = parse_again(copy, n);
		free(copy);
		assert_int_equal(ret, n == whole ? 1 : -EBADMSG);
		if (n == whole && n < len) {
			memcpy(&next, octets + n, sizeof(next));
			whole += NLMSG_ALIGN(next);
		}
	}
	assert_int_equal(whole, len);
}

static void wrong_lengths(void **state)
{
	size_t len = unhex(ipsec_dump[1]), attr = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct xfrm_userpolicy_info));
	struct nlmsghdr h;
	uint8_t keep[2];
	uint16_t bad;

	memcpy(&h, octets, sizeof(h));
	for (uint32_t v = 0; v < sizeof(h); v++) {
		memcpy(octets, &v, sizeof(v));
		assert_int_equal(parse_again(octets, len), -EBADMSG);
	}
	memcpy(octets, &(uint32_t){ UINT32_MAX }, 4);
	assert_int_equal(parse_again(octets, len), -EBADMSG);
	memcpy(octets, &h, sizeof(h));
	memcpy(keep, octets + attr, 2);
	for (unsigned int i = 0; i < 5; i++) {
		bad = (uint16_t[]){ 0, 1, 3, (uint16_t)(h.nlmsg_len - attr + 1), 65535 }[i];
		memcpy(octets + attr, &bad, 2);
		assert_int_equal(parse_again(octets, len), -EBADMSG);
	}
	memcpy(octets + attr, keep, 2);
	octets[NLMSG_HDRLEN + offsetof(struct xfrm_userpolicy_info, sel.prefixlen_d)] = 200;
	assert_int_equal(parse_again(octets, len), -EBADMSG);
}

static int message(uint16_t type, uint16_t flags, int32_t err)
{
	struct { struct nlmsghdr h; int32_t err; } m = { { sizeof(m), type, flags, 1, 1 }, err };

	return parse_again(&m, sizeof(m));
}

static void errors_of_the_kernel(void **state)
{
	assert_int_equal(message(NLMSG_ERROR, 0, -EPERM), -EPERM);
	assert_int_equal(message(NLMSG_ERROR, 0, 0), -EBADMSG);
	assert_int_equal(message(NLMSG_DONE, NLM_F_MULTI, 0), 0);
	assert_int_equal(message(NLMSG_DONE, NLM_F_MULTI, -ENOBUFS), -ENOBUFS);
	/* the database changed under the dump: policies may be missing */
	assert_int_equal(message(NLMSG_DONE, NLM_F_MULTI | NLM_F_DUMP_INTR, 0), -EINTR);
	unhex(ipsec_dump[0]);
	((struct nlmsghdr *)(void *)octets)->nlmsg_flags |= NLM_F_DUMP_INTR;
	assert_int_equal(parse_again(octets, ((struct nlmsghdr *)(void *)octets)->nlmsg_len), -EINTR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(empty, teardown_table),
		cmocka_unit_test_teardown(prefixes, teardown_table),
		cmocka_unit_test_teardown(both_directions, teardown_table),
		cmocka_unit_test_teardown(the_first_by_priority, teardown_table),
		cmocka_unit_test_teardown(priority_is_unsigned, teardown_table),
		cmocka_unit_test_teardown(ports, teardown_table),
		cmocka_unit_test_teardown(narrow, teardown_table),
		cmocka_unit_test_setup_teardown(recorded, setup_table, teardown_table),
		cmocka_unit_test_setup_teardown(recorded_exceptions, setup_table, teardown_table),
		cmocka_unit_test_teardown(cut_everywhere, teardown_table),
		cmocka_unit_test_teardown(wrong_lengths, teardown_table),
		cmocka_unit_test_teardown(errors_of_the_kernel, teardown_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
