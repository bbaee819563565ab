/* SPDX-License-Identifier: MIT */
/* Set-up of connections on one host: offers, claims, listeners, intents, and every way back to plain TCP. */
#include "cm_util.h"

struct world {
	struct lib server, client;
	int listener;
	uint16_t port;
};
static struct world w;

static int setup(void **state)
{
	w.server = lib_new();
	w.client = lib_new();
	w.listener = tcp_listen(&w.port);
	assert_int_equal(lib_listen(&w.server, w.listener).result, 0);
	return 0;
}

static int teardown(void **state)
{
	lib_free(&w.server);
	lib_free(&w.client);
	close(w.listener);
	return 0;
}

static void pair(int *c, int *s)
{
	*c = tcp_connect(w.port);
	*s = accept(w.listener, NULL, NULL);
	assert_true(*s >= 0);
}

static void expect(int fd, const char *text)
{
	char buf[100] = "";
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, 20000), 1);
	assert_int_equal(recv(fd, buf, sizeof(buf) - 1, 0), strlen(text));
	assert_string_equal(buf, text);
}

static void plain(struct answer a, enum iw_reason reason)
{
	assert_int_equal(a.m.result, 1);
	assert_string_equal(iw_reason_name(a.m.reason), iw_reason_name(reason));
}

/* Offered and committed; returns the carrier. */
static int held(int c)
{
	struct answer o = lib_conn(&w.client, IW_CTL_OFFER, c);

	assert_int_equal(o.m.result, 0);
	assert_int_equal(o.m.end, 0);
	lib_id(&w.client, IW_CTL_COMMIT, o.m.stream_id);
	close(c);
	close(o.fds[1]);
	return o.fds[0];
}

static void joined(void **state)
{
	struct answer k;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int c, s, carrier;

	pair(&c, &s);
	assert_int_equal(getsockname(c, (void *)&from, &len), 0);
	carrier = held(c);
	assert_int_equal(send(carrier, "ping", 4, 0), 4);
	k = lib_conn(&w.server, IW_CTL_CLAIM, s);
	close(s);
	assert_int_equal(k.m.result, 0);
	assert_int_equal(k.m.end, 1);
	assert_int_equal(k.m.flags, IW_PAGE_LOCAL | IW_PAGE_NEAR);
	assert_int_equal(k.m.local.port, w.port);
	assert_int_equal(k.m.peer.port, ntohs(from.sin_port));
	expect(k.fds[0], "ping");
	assert_int_equal(send(k.fds[0], "pong", 4, 0), 4);
	expect(carrier, "pong");
	close(carrier);
	expect(k.fds[0], "");
	answer_close(&k);
}

static void prepare(void **state)
{
	struct iw_addr a = loopback(w.port);
	struct iw_ctl_ack l = lib_listen(&w.server, w.listener);

	assert_int_equal(l.result, 0);
	assert_int_not_equal(l.id, 0);
	assert_int_equal(lib_prepare(&w.client, a).result, 0);
	lib_id(&w.server, IW_CTL_UNLISTEN, l.id);
	lib_prepare(&w.server, a);	/* a round trip: UNLISTEN was handled */
	assert_int_equal(lib_prepare(&w.client, a).reason, IW_REASON_LISTENER_NOT_REGISTERED);
	/* registering it twice is one registration */
	lib_listen(&w.server, w.listener);
	l = lib_listen(&w.server, w.listener);
	lib_id(&w.server, IW_CTL_UNLISTEN, l.id);
	lib_prepare(&w.server, a);
	assert_int_equal(lib_prepare(&w.client, a).result, 1);
}

static void listeners_of_the_dead(void **state)
{
	struct lib other = lib_new();
	uint16_t port;
	int fd = tcp_listen(&port);

	assert_int_equal(lib_listen(&other, fd).result, 0);
	assert_int_equal(lib_prepare(&w.client, loopback(port)).result, 0);
	lib_free(&other);
	/* the kernel still listens, but nobody would claim */
	for (uint64_t until = now_ms() + 20000; !lib_prepare(&w.client, loopback(port)).result; sched_yield())
		assert_true(now_ms() < until);
	assert_int_equal(lib_prepare(&w.client, loopback(port)).reason, IW_REASON_LISTENER_NOT_REGISTERED);
	close(fd);
}

static void answer_is_final(void **state)
{
	int c, s;

	pair(&c, &s);
	plain(lib_conn(&w.server, IW_CTL_CLAIM, s), IW_REASON_TUPLE_UNKNOWN);
	plain(lib_conn(&w.client, IW_CTL_OFFER, c), IW_REASON_TUPLE_UNKNOWN);
	assert_int_equal(send(c, "plain", 5, 0), 5);
	expect(s, "plain");
	close(c);
	close(s);
}

static void claim_waits_for_commit(void **state)
{
	struct answer o, k;
	struct pollfd p = { .fd = w.server.s, .events = POLLIN };
	int c, s;

	pair(&c, &s);
	o = lib_conn(&w.client, IW_CTL_OFFER, c);
	assert_int_equal(o.m.result, 0);
	lib_conn_tell(&w.server, IW_CTL_CLAIM, s);
	assert_int_equal(poll(&p, 1, 2), 0);
	lib_id(&w.client, IW_CTL_COMMIT, o.m.stream_id);
	k = lib_answer(&w.server);
	/* on a machine that sleeps between the two the wait may be over: then both ends must be plain */
	if (k.m.result)
		plain(k, IW_REASON_TIMEOUT);
	else
		assert_int_equal(k.m.stream_id, o.m.stream_id);
	close(c);
	close(s);
	answer_close(&o);
	answer_close(&k);
}

static void abandoned(void **state)
{
	struct answer o;
	int c, s;

	pair(&c, &s);
	o = lib_conn(&w.client, IW_CTL_OFFER, c);
	assert_int_equal(o.m.result, 0);
	lib_conn_tell(&w.server, IW_CTL_CLAIM, s);
	assert_true(daemon_holds(c));
	lib_id(&w.client, IW_CTL_ABANDON, o.m.stream_id);
	lib_sync(&w.client);
	assert_false(daemon_holds(c));
	answer_close(&o);
	assert_int_equal(lib_answer(&w.server).m.result, 1);
	/* the TCP connection is as it was */
	assert_int_equal(send(c, "still", 5, 0), 5);
	expect(s, "still");
	close(c);
	close(s);
}

static void client_dies_before_commit(void **state)
{
	struct lib other = lib_new();
	struct answer o;
	int c, s;

	pair(&c, &s);
	o = lib_conn(&other, IW_CTL_OFFER, c);
	assert_int_equal(o.m.result, 0);
	lib_conn_tell(&w.server, IW_CTL_CLAIM, s);
	lib_free(&other);
	assert_int_equal(lib_answer(&w.server).m.result, 1);
	assert_int_equal(send(s, "alive", 5, 0), 5);
	expect(c, "alive");
	answer_close(&o);
	close(c);
	close(s);
}

static void client_dies_after_commit(void **state)
{
	struct lib other = lib_new();
	struct answer o, k;
	int c, s;

	pair(&c, &s);
	o = lib_conn(&other, IW_CTL_OFFER, c);
	lib_id(&other, IW_CTL_COMMIT, o.m.stream_id);
	close(c);
	assert_int_equal(send(o.fds[0], "will", 4, 0), 4);
	lib_free(&other);
	answer_close(&o);
	lib_conn_tell(&w.server, IW_CTL_CLAIM, s);
	k = lib_answer(&w.server);
	assert_int_equal(k.m.result, 0);
	expect(k.fds[0], "will");
	expect(k.fds[0], "");
	answer_close(&k);
	close(s);
}

static uint32_t intent_bucket(void)
{
	struct iw_addr a = loopback(w.port);

	return iw_addr_hash(a.ip, a.port) % IW_INTENTS;
}

/* The clients of one process cannot wait for each other's intents, so the intent is raised by a child. */
static pid_t intent_raise(int *go)
{
	int p[2], ready[2];
	pid_t pid;
	char ch;

	assert_int_equal(pipe(p), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		struct lib l = lib_new();

		close(p[1]);
		l.proc->intent[intent_bucket()] = 1;
		if (write(ready[1], "", 1) != 1 || read(p[0], &ch, 1) != 0)
			_exit(1);
		_exit(0);
	}
	close(p[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &ch, 1), 1);
	close(ready[0]);
	*go = p[1];
	return pid;
}

static void intent_is_awaited(void **state)
{
	struct answer k;
	int c, s, go;
	pid_t pid = intent_raise(&go);
	uint64_t start;

	pair(&c, &s);
	start = now_ms();
	plain(lib_conn(&w.server, IW_CTL_CLAIM, s), IW_REASON_TIMEOUT);
	assert_true(now_ms() - start >= 190);
	close(c);
	close(s);
	/* nothing changed in that process: the next accept does not wait for it */
	pair(&c, &s);
	plain(lib_conn(&w.server, IW_CTL_CLAIM, s), IW_REASON_TUPLE_UNKNOWN);
	close(c);
	close(s);
	close(go);
	waitpid(pid, NULL, 0);

	/* an offer that comes while the claim waits is found */
	pid = intent_raise(&go);
	pair(&c, &s);
	lib_conn_tell(&w.server, IW_CTL_CLAIM, s);
	lib_conn_tell(&w.client, IW_CTL_OFFER, c);
	k = lib_answer(&w.client);
	if (!k.m.result) {
		lib_id(&w.client, IW_CTL_COMMIT, k.m.stream_id);
		answer_close(&k);
		k = lib_answer(&w.server);
		assert_true(!k.m.result || k.m.reason == IW_REASON_TIMEOUT);
		answer_close(&k);
	} else {
		plain(k, IW_REASON_TIMEOUT);
		assert_int_equal(lib_answer(&w.server).m.result, 1);
	}
	close(c);
	close(s);
	close(go);
	waitpid(pid, NULL, 0);
}

/* A library of another process that does as it is told: 'r' raises an intent and 'l' lowers it as the protocol has it, 'R' and 'L' silently. */
struct other { pid_t pid; int say, hear; };

static void other_raise(struct lib *l, unsigned int b, bool tell)
{
	struct iw_ctl_id m;
	struct iw_ctl_ack a;
	int none[2];

	atomic_fetch_add(&l->proc->intent[b], 1);
	if (!tell || atomic_load(&l->proc->watch[b]) & IW_WATCH_LISTED)
		return;
	iw_ctl_init(&m, IW_CTL_INTENT, 0);
	m.id = b;
	lib_tell(l, &m, -1);
	lib_reply(l, l->seq, &a, IW_CTL_ACK, none);
}

static void other_lower(struct lib *l, unsigned int b, bool tell)
{
	struct iw_ctl_id m;

	if (atomic_fetch_sub(&l->proc->intent[b], 1) != 1 || !tell)
		return;
	if (!(atomic_fetch_and(&l->proc->watch[b], (uint8_t)~IW_WATCH_END) & IW_WATCH_END))
		return;
	iw_ctl_init(&m, IW_CTL_INTENT_END, 0);
	m.id = b;
	lib_tell(l, &m, -1);
}

static void other_run(int in, int out)
{
	struct lib l = lib_new();
	char c;

	while (read(in, &c, 1) == 1) {
		unsigned int b = intent_bucket();

		if (c == 'r' || c == 'R')
			other_raise(&l, b, c == 'r');
		else if (c == 'l' || c == 'L')
			other_lower(&l, b, c == 'l');
		c = (char)('0' + atomic_load(&l.proc->watch[b]));
		if (write(out, &c, 1) != 1)
			break;
	}
	_exit(0);
}

static struct other other_new(void)
{
	int to[2], from[2];
	struct other o;

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	o.pid = fork();
	if (!o.pid) {
		close(to[1]);
		close(from[0]);
		other_run(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	o.say = to[1];
	o.hear = from[0];
	return o;
}

/* What the daemon has marked in its page afterwards. */
static unsigned int other_does(struct other *o, char c)
{
	assert_int_equal(write(o->say, &c, 1), 1);
	assert_int_equal(read(o->hear, &c, 1), 1);
	return (unsigned int)(c - '0');
}

static void other_free(struct other *o)
{
	close(o->say);
	close(o->hear);
	waitpid(o->pid, NULL, 0);
}

/* A claim on its way; the daemon has looked at it. */
static void claim_begun(int pair_fds[2])
{
	pair(&pair_fds[0], &pair_fds[1]);
	lib_conn_tell(&w.server, IW_CTL_CLAIM, pair_fds[1]);
	lib_sync(&w.client);
}

/* It was answered no: why. */
static enum iw_reason claim_end(int pair_fds[2])
{
	struct answer a = lib_answer(&w.server);

	plain(a, a.m.reason);
	close(pair_fds[0]);
	close(pair_fds[1]);
	return a.m.reason;
}

static void claim_ended(int pair_fds[2], enum iw_reason reason)
{
	assert_int_equal(claim_end(pair_fds), reason);
}

/* The end of an intent is told, and nothing else: nobody looks at the counters while a claim waits. */
static void intent_end_is_told(void **state)
{
	struct other o = other_new();
	int p[2];

	assert_int_equal(other_does(&o, 'r'), IW_WATCH_LISTED);	/* new processes need say nothing */
	claim_begun(p);
	while (!(other_does(&o, '?') & IW_WATCH_END))
		;
	assert_int_equal(other_does(&o, 'l') & IW_WATCH_END, 0);
	claim_ended(p, IW_REASON_TUPLE_UNKNOWN);

	other_does(&o, 'r');
	claim_begun(p);
	while (!(other_does(&o, '?') & IW_WATCH_END))
		;
	other_does(&o, 'L');
	claim_ended(p, IW_REASON_TIMEOUT);
	other_free(&o);

	/* the end of the process is one, too */
	o = other_new();
	other_does(&o, 'r');
	claim_begun(p);
	while (!(other_does(&o, '?') & IW_WATCH_END))
		;
	other_free(&o);
	claim_ended(p, IW_REASON_TUPLE_UNKNOWN);
}

/* A process without intents is not looked at for ever; when it raises one it says so, and is. */
static void idle_processes_are_not_looked_at(void **state)
{
	struct other o = other_new();
	unsigned int n = 0;
	int p[2];

	other_does(&o, 'r');
	other_does(&o, 'l');
	while (other_does(&o, '?') & IW_WATCH_LISTED) {
		assert_in_range(n++, 0, 20);
		claim_begun(p);
		claim_ended(p, IW_REASON_TUPLE_UNKNOWN);
	}
	other_does(&o, 'R');
	claim_begun(p);
	claim_ended(p, IW_REASON_TUPLE_UNKNOWN);
	other_does(&o, 'L');
	assert_int_equal(other_does(&o, 'r'), IW_WATCH_LISTED);
	claim_begun(p);
	claim_ended(p, IW_REASON_TIMEOUT);
	/* waited for in vain: not again, until it says that there is another */
	assert_int_equal(other_does(&o, '?') & IW_WATCH_LISTED, 0);
	claim_begun(p);
	claim_ended(p, IW_REASON_TUPLE_UNKNOWN);
	assert_int_equal(other_does(&o, 'r') & IW_WATCH_LISTED, IW_WATCH_LISTED);
	claim_begun(p);
	claim_ended(p, IW_REASON_TIMEOUT);
	/* nor for ever when it always says so, and neither for another process of its user; the others' connections go on being plain at once */
	do {
		assert_in_range(n++, 0, 40);
		other_does(&o, 'R');
		other_does(&o, 'r');
		claim_begun(p);
	} while (claim_end(p) == IW_REASON_TIMEOUT);
	other_free(&o);
	o = other_new();
	other_does(&o, 'r');
	claim_begun(p);
	claim_ended(p, IW_REASON_TUPLE_UNKNOWN);
	other_free(&o);
}

static void claim_never_comes(void **state)
{
	struct answer o;
	int c, s, other, carrier;

	pair(&c, &s);
	carrier = held(c);
	assert_int_equal(send(carrier, "held", 4, 0), 4);
	expect(s, "held");
	assert_int_equal(send(s, "back", 4, 0), 4);
	expect(carrier, "back");
	/* the next one does not try */
	pair(&c, &other);
	plain(lib_conn(&w.client, IW_CTL_OFFER, c), IW_REASON_UNCLAIMED);
	close(c);
	close(other);
	/* a claim after all: no, and nothing happens to the relay */
	plain(lib_conn(&w.server, IW_CTL_CLAIM, s), IW_REASON_TUPLE_UNKNOWN);
	shutdown(carrier, SHUT_WR);
	expect(s, "");
	close(carrier);
	close(s);
	/* the server is only slow: try again */
	pair(&c, &s);
	o = lib_conn(&w.client, IW_CTL_OFFER, c);
	assert_int_equal(o.m.result, 0);
	answer_close(&o);
	close(c);
	close(s);
}

static void server_speaks_without_claim(void **state)
{
	int c, s, carrier;

	pair(&c, &s);
	carrier = held(c);
	assert_int_equal(send(s, "220 hello", 9, 0), 9);
	expect(carrier, "220 hello");
	assert_int_equal(send(carrier, "EHLO", 4, 0), 4);
	expect(s, "EHLO");
	close(carrier);
	close(s);
}

static void listener_goes_away(void **state)
{
	struct iw_ctl_ack l = lib_listen(&w.server, w.listener);
	int c, s, carrier;

	pair(&c, &s);
	carrier = held(c);
	assert_int_equal(lib_prepare(&w.client, loopback(w.port)).result, 0);	/* COMMIT was handled */
	lib_id(&w.server, IW_CTL_UNLISTEN, l.id);
	assert_int_equal(send(carrier, "lossless", 8, 0), 8);
	expect(s, "lossless");
	close(carrier);
	close(s);
	pair(&c, &s);
	plain(lib_conn(&w.client, IW_CTL_OFFER, c), IW_REASON_LISTENER_NOT_REGISTERED);
	close(c);
	close(s);
}

static void offered_twice(void **state)
{
	struct answer o;
	int c, s;

	pair(&c, &s);
	o = lib_conn(&w.client, IW_CTL_OFFER, c);
	assert_int_equal(o.m.result, 0);
	plain(lib_conn(&w.client, IW_CTL_OFFER, c), IW_REASON_FD_SHARED);
	answer_close(&o);
	close(c);
	close(s);
}

static void not_a_stream(void **state)
{
	int un[2], udp = socket(AF_INET, SOCK_DGRAM, 0), fresh = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, un), 0);
	for (int type = IW_CTL_OFFER; type <= IW_CTL_CLAIM; type += IW_CTL_CLAIM - IW_CTL_OFFER) {
		plain(lib_conn(&w.client, type, un[0]), IW_REASON_NOT_STREAM);
		plain(lib_conn(&w.client, type, udp), IW_REASON_NOT_STREAM);
		plain(lib_conn(&w.client, type, w.client.peers_fd), IW_REASON_NOT_STREAM);
		plain(lib_conn(&w.client, type, fresh), IW_REASON_NOT_STREAM);
		plain(lib_conn(&w.client, type, w.listener), IW_REASON_NOT_STREAM);
	}
	assert_int_equal(lib_listen(&w.client, fresh).reason, IW_REASON_NOT_STREAM);
	assert_int_equal(lib_listen(&w.client, udp).reason, IW_REASON_NOT_STREAM);
	assert_int_equal(lib_listen(&w.client, un[0]).reason, IW_REASON_NOT_STREAM);
	close(un[0]);
	close(un[1]);
	close(udp);
	close(fresh);
}

static void other_namespace(void **state)
{
	int c, ready[2];
	struct lib *l = &w.client;
	char byte;

	if (geteuid())
		skip();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ready), 0);
	if (!fork()) {
		uint16_t port;
		char ch;

		close(ready[0]);
		own_net();
		tcp_listen(&port);
		c = tcp_connect(port);
		lib_conn_tell(l, IW_CTL_OFFER, c);
		if (write(ready[1], "", 1) != 1 || read(ready[1], &ch, 1) < 0)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	w.client.seq++;
	plain(lib_answer(&w.client), IW_REASON_NETNS);
	close(ready[0]);
	close(ready[1]);
	wait(NULL);
}

static int option(struct lib *l, bool set, uint64_t id, int level, int name, int value)
{
	struct iw_ctl_opt m, r;
	int fds[2];

	iw_ctl_init(&m, set ? IW_CTL_SETSOCKOPT : IW_CTL_GETSOCKOPT, 0);
	m.stream_id = id;
	m.level = level;
	m.optname = name;
	m.optlen = sizeof(value);
	memcpy(m.val, &value, sizeof(value));
	lib_tell(l, &m, -1);
	lib_reply(l, l->seq, &r, IW_CTL_OPT, fds);
	if (!r.error && !set)
		memcpy(&value, r.val, sizeof(value));
	return r.error ? -r.error : set ? 0 : value;
}

static void options(void **state)
{
	struct answer o;
	int c, s, keep;

	pair(&c, &s);
	o = lib_conn(&w.client, IW_CTL_OFFER, c);
	assert_int_equal(o.m.result, 0);
	assert_int_equal(option(&w.client, true, o.m.stream_id, IPPROTO_TCP, 1, 1), 0);
	assert_int_equal(option(&w.client, false, o.m.stream_id, IPPROTO_TCP, 1, 0), 1);
	assert_int_equal(option(&w.client, true, o.m.stream_id, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
	assert_int_equal(getsockopt(c, SOL_SOCKET, SO_KEEPALIVE, &keep, &(socklen_t){ sizeof(keep) }), 0);
	assert_int_equal(keep, 1);
	assert_int_equal(option(&w.client, true, o.m.stream_id, SOL_SOCKET, SO_MARK, 1), -EPERM);
	assert_int_equal(option(&w.client, true, o.m.stream_id, SOL_SOCKET, SO_PRIORITY, 7), -EPERM);
	assert_int_equal(option(&w.client, true, o.m.stream_id, SOL_SOCKET, SO_ATTACH_FILTER, 1), -ENOPROTOOPT);
	assert_int_equal(option(&w.client, true, o.m.stream_id, SOL_SOCKET, SO_RCVTIMEO, 1), -ENOPROTOOPT);
	assert_int_equal(option(&w.client, true, o.m.stream_id, IPPROTO_TCP, 31 /* TCP_ULP */, 1), -ENOPROTOOPT);
	/* a stream that another process was given */
	if (!fork()) {
		struct lib other = lib_new();
		int ret = option(&other, false, o.m.stream_id, IPPROTO_TCP, 1, 0);

		_exit(ret == -ENOTCONN ? 0 : 1);
	}
	wait(&c);
	assert_int_equal(c, 0);
	answer_close(&o);
	close(s);
}

static void plain_pages(void **state)
{
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, w.client.peers_fd, 0), MAP_FAILED);
	assert_int_equal(write(w.client.peers_fd, "x", 1), -1);
	assert_int_equal(ftruncate(w.client.peers_fd, 0), -1);
	assert_int_equal(fallocate(w.client.peers_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_int_equal(w.client.peers->magic, IW_PEERS_MAGIC);
	assert_int_equal(w.client.peers->dead, 0);
}

static void open_by_carrier(void **state)
{
	struct lib other = lib_new();
	struct iw_ctl_fdmsg m;
	struct answer o, r;
	int c, s, un[2];

	pair(&c, &s);
	o = lib_conn(&w.client, IW_CTL_OFFER, c);
	iw_ctl_init(&m, IW_CTL_OPEN, 0);
	lib_tell(&other, &m, o.fds[0]);
	r = lib_answer(&other);
	assert_int_equal(r.m.result, 0);
	assert_int_equal(r.m.stream_id, o.m.stream_id);
	assert_true(r.fds[0] >= 0 && r.fds[1] < 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, un), 0);
	lib_tell(&other, &m, un[0]);
	plain(lib_answer(&other), IW_REASON_NOT_STREAM);
	answer_close(&o);
	answer_close(&r);
	close(un[0]);
	close(un[1]);
	close(c);
	close(s);
	lib_free(&other);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(joined), T(prepare), T(listeners_of_the_dead), T(answer_is_final), T(claim_waits_for_commit), T(abandoned),
		T(client_dies_before_commit), T(client_dies_after_commit), T(intent_is_awaited), T(intent_end_is_told),
		T(idle_processes_are_not_looked_at), T(claim_never_comes),
		T(server_speaks_without_claim), T(listener_goes_away), T(offered_twice), T(not_a_stream), T(other_namespace),
		T(options), T(plain_pages), T(open_by_carrier),
	};

	own_net();
	d.option = "answer_timeout=200";	/* on a busy machine nothing that is not about it shall run into it */
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, daemon_start, daemon_stop);
}
