/* SPDX-License-Identifier: MIT */
/* Two hosts, which are namespaces with a daemon each, and both ends of connections between them, for tests. */
#ifndef TESTS_HOSTS_UTIL_H
#define TESTS_HOSTS_UTIL_H

#include "cm_util.h"

#define CID	(0x700000111ull + nth)
#define SID	(0x800000212ull + nth)
#define CPORT	4874

/* Host 0 connects to host 1. What is done on a host is done in its namespace, with its daemon as d. */
static struct host {
	struct daemon d;
	int ns;
	struct lib lib;
	const char *ip;
} hosts[2] = { { .ip = "10.99.0.1" }, { .ip = "10.99.0.2" } };
static int here = -1;

static inline struct lib *at(int h)
{
	if (here != h) {
		if (here >= 0)
			hosts[here].d = d;
		d = hosts[h].d;
		here = h;
		assert_int_equal(setns(hosts[h].ns, CLONE_NEWNET), 0);
	}
	return &hosts[h].lib;
}

__attribute__((format(printf, 1, 2)))
static inline void run(const char *fmt, ...)
{
	char cmd[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd))
		fail_msg("%s", cmd);
}

static inline void host_new(int h)
{
	own_net();
	hosts[h].ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_true(hosts[h].ns >= 0);
	hosts[h].d = (struct daemon){ .port = CPORT, .option = "answer_timeout=200" };
}

static inline int group_setup(void **state)
{
	if (geteuid())
		return 0;
	host_new(1);
	host_new(0);
	here = 0;
	d = hosts[0].d;
	run("ip link add e0 type veth peer name e1 netns /proc/%d/fd/%d", (int)getpid(), hosts[1].ns);
	for (int h = 0; h < 2; h++) {
		at(h);
		run("ip addr add %s/24 dev e%d && ip link set e%d up", hosts[h].ip, h, h);
	}
	for (int h = 0; h < 2; h++) {
		at(h);
		daemon_start(NULL);
	}
	return 0;
}

static inline int group_teardown(void **state)
{
	if (geteuid())
		return 0;
	for (int h = 0; h < 2; h++) {
		at(h);
		daemon_stop(NULL);
	}
	return 0;
}

static unsigned int nth;	/* whose ends c and s are */
static int c, s;

/* From host 0 to host 1. */
static inline void connected(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int l;

	at(1);
	l = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, hosts[1].ip, &a.sin_addr);
	assert_int_equal(bind(l, (void *)&a, sizeof(a)) | listen(l, 8), 0);
	getsockname(l, (void *)&a, &len);
	at(0);
	c = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(c, (void *)&a, sizeof(a)), 0);
	s = accept(l, NULL, NULL);
	assert_true(s >= 0);
	close(l);
}

static inline int setup(void **state)
{
	if (geteuid())
		return 0;
	for (int h = 0; h < 2; h++)
		*at(h) = lib_new();
	connected();
	return 0;
}

static inline int teardown(void **state)
{
	if (geteuid())
		return 0;
	for (int h = 0; h < 2; h++)
		lib_free(at(h));
	if (c >= 0)
		close(c);
	if (s >= 0)
		close(s);
	return 0;
}

static inline void propose(int h)
{
	lib_propose(at(h), h ? s : c, h ? SID : CID, !h);
	lib_sync(at(h));
}

static inline void go(int h)
{
	lib_go(at(h), h ? SID : CID);
}

static inline bool may(int h)
{
	return lib_may(&hosts[h].lib, h ? SID : CID);
}

/* GO is taken back: the other end will not come. */
static inline void go_over(int h)
{
	for (uint64_t until = now_ms() + 20000; may(h); sched_yield())
		if (now_ms() > until)
			fail_msg("GO stands at host %d", h);
}

static inline struct answer switch_to(int h)
{
	struct answer a = lib_switch_to(at(h), h ? SID : CID, h ? s : c);

	*(h ? &s : &c) = -1;
	return a;
}

static inline void plain(int h, enum iw_reason reason)
{
	struct iw_ctl_conn m;

	iw_ctl_init(&m, IW_CTL_PLAIN, 0);
	m.conn_id = h ? SID : CID;
	m.reason = reason;
	lib_tell(at(h), &m, -1);
	lib_sync(at(h));
}

/* What the daemon of host h says why it does not switch, once it knows it. */
static inline void becomes(int h, enum iw_reason reason)
{
	for (uint64_t until = now_ms() + 20000;;) {
		struct answer a = lib_switch(at(h), h ? SID : CID, h ? s : c);

		assert_int_equal(a.m.result, 1);
		if (a.m.reason == reason)
			return;
		if (now_ms() > until)
			fail_msg("host %d: %s, not %s", h, iw_reason_name(a.m.reason), iw_reason_name(reason));
	}
}

/* Whether the daemon of that host shows a stream of which it says that. */
static inline bool shows(int h, const char *key, const char *what)
{
	const char *build = getenv("IW_BUILD");
	char cmd[400];

	at(h);
	snprintf(cmd, sizeof(cmd), "%s/iwctl --run-dir %s --json streams | tr -d ' \n' | grep -q '\"%s\":\"%s\"'", build ? build : "build/plain",
		 d.dir, key, what);
	return !system(cmd);
}

/* Both have GO. */
static inline void both_upgraded(struct answer *a, struct answer *b)
{
	int n = 0;

	*a = switch_to(1);
	both_ways(c, a->fds[0]);
	*b = switch_to(0);
	for (uint64_t until = now_ms() + 20000; n < 2; n = shows(0, "state", "running") + shows(1, "state", "running")) {
		for (int i = 0; i < 100; i++)
			both_ways(b->fds[0], a->fds[0]);
		assert_true(now_ms() < until);
	}
}

static inline void over_iwarp(struct answer *a, struct answer *b)
{
	propose(0);
	propose(1);
	go(0);
	go(1);
	both_upgraded(a, b);
}

static inline struct iw_page *page_of(const struct answer *a)
{
	void *p = mmap(NULL, IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a->fds[1], 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static inline void close_both(struct answer *a, struct answer *b)
{
	close(b->fds[0]);
	expect(a->fds[0], "");
	close(a->fds[0]);
	close(a->fds[1]);
	close(b->fds[1]);
}

#endif
