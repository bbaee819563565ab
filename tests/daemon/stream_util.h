/* SPDX-License-Identifier: MIT */
/* Streams without connection management: two ends over one loopback connection, what their daemons say, and applications that are threads. */
#ifndef TEST_STREAM_UTIL_H
#define TEST_STREAM_UTIL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "util.h"

#include "daemon/rnic/rnic.h"
#include "daemon/stream/stream.h"
#include "daemon/stream/upgrade.h"

struct app {			/* one application's end */
	struct stream *st;
	struct stream_grant g;
	struct iw_page *page;
	int fd;			/* its carrier */
};

static struct app app[2];	/* 0 client, 1 server */
static int tcp[2];		/* the connection's ends while they are the test's */
static unsigned int fds;
static unsigned int ngone, nupgraded;

/* ---- the sessions between the two daemons: what one says reaches the other in a later round, when the test lets it ---- */

struct said {
	struct timer timer;
	int to;
	bool answer, yes;
	uint64_t nonce, pos;
	uint32_t crc;
};
static unsigned int nsaid;	/* under way */
static struct said said_last;	/* by a stream, whoever it was for */
static int said_wire = -1;	/* to the other daemon, when that is another process */
static int (*say_delay)(const struct said *s);	/* ms, -1: it is lost. NULL: none */
static int say_again = -1;	/* ms, the same for a second one of what is said next */

static void said_arrives(struct timer *t)
{
	struct said *s = (struct said *)t;
	struct stream *st = app[s->to].st;

	nsaid--;
	if (st && s->answer)
		stream_held(st, s->nonce, s->yes, s->pos, s->crc);
	else if (st)
		stream_their_hold(st, s->nonce, s->pos, s->crc);
	free(s);
}

static void say_in(const struct said *what, int ms)
{
	struct said *s = malloc(sizeof(*s));

	*s = *what;
	nsaid++;
	timer_start(&s->timer, (unsigned int)ms, said_arrives);
}

static void say_to_other(const struct stream *from, struct said what)
{
	int ms;

	what.to = app[0].st == from;
	said_last = what;
	if (said_wire >= 0)
		assert_int_equal(send(said_wire, &what, sizeof(what), MSG_NOSIGNAL), sizeof(what));
	ms = said_wire >= 0 ? -1 : say_delay ? say_delay(&what) : 0;
	if (ms >= 0)
		say_in(&what, ms);
	if (say_again >= 0)
		say_in(&what, say_again);
	say_again = -1;
}

static inline void said_listen(struct timer *t)
{
	struct said *s = malloc(sizeof(*s));

	if (recv(said_wire, s, sizeof(*s), MSG_DONTWAIT) == sizeof(*s)) {
		s->timer = (struct timer){ 0 };
		nsaid++;
		timer_start(&s->timer, 0, said_arrives);
	} else {
		free(s);
	}
	timer_start(t, 1, said_listen);
}

static void on_hold(struct stream *st, uint64_t nonce, uint64_t pos, uint32_t crc)
{
	say_to_other(st, (struct said){ .nonce = nonce, .pos = pos, .crc = crc });
}

static void on_held(struct stream *st, uint64_t nonce, bool yes, uint64_t pos, uint32_t crc)
{
	say_to_other(st, (struct said){ .answer = true, .nonce = nonce, .yes = yes, .pos = pos, .crc = crc });
}

static void on_upgraded(struct stream *st)
{
	nupgraded++;
}

static void on_gone(struct stream *st)
{
	ngone++;
	for (int i = 0; i < 2; i++) {
		if (app[i].st == st)
			app[i].st = NULL;
	}
}

static const struct stream_ops ops = { .hold = on_hold, .held = on_held, .upgraded = on_upgraded, .gone = on_gone };

static struct iw_addr addr_of(int fd, bool peer)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct iw_addr a = { 0 };
	struct sockaddr_in *s4 = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *s6 = (struct sockaddr_in6 *)&ss;

	assert_int_equal((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&ss, &len), 0);
	a.family = ss.ss_family;
	if (ss.ss_family == AF_INET) {
		a.ip[10] = a.ip[11] = 0xff;
		memcpy(a.ip + 12, &s4->sin_addr, 4);
		a.port = ntohs(s4->sin_port);
	} else {
		memcpy(a.ip, &s6->sin6_addr, 16);
		a.port = ntohs(s6->sin6_port);
	}
	return a;
}

static struct iw_tuple tuple_of(int fd)
{
	return (struct iw_tuple){ .local = addr_of(fd, false), .peer = addr_of(fd, true) };
}

static const struct stream_owner owner = { .pid = 4711, .uid = 1000, .fd = 5, .program = "test" };

static void take_grant(struct app *a)
{
	a->fd = a->g.carrier;
	a->page = mmap(NULL, a->g.size, PROT_READ | PROT_WRITE, MAP_SHARED, a->g.segment, 0);
	assert_ptr_not_equal(a->page, MAP_FAILED);
	close(a->g.segment);
}

static void grant(int i)
{
	struct iw_tuple t = tuple_of(tcp[i]);

	assert_int_equal(stream_grant(tcp[i], &t, &owner, !i, 0, &app[i].g, &app[i].st), 0);
	tcp[i] = -1;
	take_grant(&app[i]);
}

/* One end is relayed, the other a plain socket: tcp[1 - i]. */
static inline void relayed(int i)
{
	grant(i);
	assert_int_equal(stream_switched(app[i].st, 5), 0);
}

static inline bool running(void *arg)
{
	return app[0].st && app[1].st && stream_state(app[0].st) == STREAM_RUNNING && stream_state(app[1].st) == STREAM_RUNNING;
}

static void close_app(int i)
{
	if (app[i].fd >= 0)
		close(app[i].fd);
	app[i].fd = -1;
}

static inline void remote_pair(void);

static bool quiet(void *arg)
{
	return !stream_count() && !nsaid && open_fds() == fds && !rnic_mr_count();
}

static int setup(void **state)
{
	conf_default(&conf);
	memset(app, 0, sizeof(app));
	app[0].fd = app[1].fd = -1;
	ngone = nupgraded = 0;
	say_delay = NULL;
	upgrade_least_ms = 4;
	fds = open_fds();
	tcp_pair(tcp);
	return 0;
}

/* Nothing may be left: streams, descriptors, registrations. */
static int teardown(void **state)
{
	for (int i = 0; i < 2; i++) {
		close_app(i);
		if (tcp[i] >= 0)
			close(tcp[i]);
	}
	run_until(quiet, NULL);
	for (int i = 0; i < 2; i++) {
		if (app[i].page)
			munmap(app[i].page, app[i].g.size);
	}
	return 0;
}

/* Another connection instead of the two ends, of which nothing is left then. */
static inline void next_pair(void)
{
	close_app(0);
	close_app(1);
	run_until(quiet, NULL);
	for (int i = 0; i < 2; i++)
		munmap(app[i].page, app[i].g.size);
	tcp_pair(tcp);
	ngone = nupgraded = 0;
}

static int group_setup(void **state)
{
	log_init(0, 1);
	stream_ops = &ops;
	return engine_init();
}

static int group_teardown(void **state)
{
	engine_fini();
	return 0;
}

/* ---- applications ---- */

/* As the library reads a carrier: EOF counts only when the page says FIN. */
static inline ssize_t app_recv(const struct app *a, void *buf, size_t len, int flags)
{
	ssize_t n = recv(a->fd, buf, len, flags);
	const struct iw_page_end *e = &a->page->end[a->g.end];

	if (n > 0 || (n < 0 && errno != ECONNRESET))
		return n;
	if (!n && (atomic_load(&a->page->end[1].hand) == IW_HAND_TAKEN || atomic_load(&e->close_state) == IW_CLOSE_FIN))
		return 0;
	errno = atomic_load(&e->close_state) == IW_CLOSE_RESET ? (int)atomic_load(&e->close_errno) : ECONNRESET;
	return -1;
}

/* An application in a thread of its own: writes `out` octets of a pattern, reads `in` octets and checks them. */
struct job {
	pthread_t thread;
	const struct app *a;
	int fd;			/* instead of a carrier: a plain socket */
	uint64_t out, in;	/* octets; in == UINT64_MAX: until the end */
	uint32_t seed_out, seed_in;
	bool shut;		/* SHUT_WR after writing */
	unsigned int max;	/* octets per call */
	/* results */
	uint64_t got;
	int err;		/* 0: end of stream or all there */
	atomic_bool done;
};

static uint8_t octet_at(uint64_t pos, uint32_t seed)
{
	return (uint8_t)((pos * 0x9e3779b97f4a7c15ull + seed) >> 56);
}

static inline void *job_write(void *arg)
{
	struct job *j = arg;
	int fd = j->a ? j->a->fd : j->fd;
	uint8_t *buf = malloc(j->max);
	unsigned int r = j->seed_out;

	for (uint64_t pos = 0; pos < j->out;) {
		unsigned int n = j->max > 1 ? 1 + (unsigned int)rand_r(&r) % j->max : 1;
		ssize_t k;

		if (n > j->out - pos)
			n = (unsigned int)(j->out - pos);
		for (unsigned int i = 0; i < n; i++)
			buf[i] = octet_at(pos + i, j->seed_out);
		k = send(fd, buf, n, MSG_NOSIGNAL);
		if (k < 0) {
			j->err = errno;
			break;
		}
		pos += (uint64_t)k;
		j->got = pos;
	}
	if (j->shut && !j->err)
		shutdown(fd, SHUT_WR);
	free(buf);
	j->done = true;
	return NULL;
}

static inline void *job_read(void *arg)
{
	struct job *j = arg;
	uint8_t *buf = malloc(j->max);
	unsigned int r = j->seed_in;

	while (j->got < j->in) {
		unsigned int want = j->max > 1 ? 1 + (unsigned int)rand_r(&r) % j->max : 1;
		ssize_t k = j->a ? app_recv(j->a, buf, want, 0) : recv(j->fd, buf, want, 0);

		if (k < 0)
			j->err = errno;
		if (k <= 0)
			break;
		for (ssize_t i = 0; i < k; i++) {
			if (buf[i] != octet_at(j->got + (uint64_t)i, j->seed_in)) {
				j->err = EILSEQ;
				goto out;
			}
		}
		j->got += (uint64_t)k;
	}
out:
	free(buf);
	j->done = true;
	return NULL;
}

static inline void start(struct job *j, void *(*fn)(void *))
{
	if (!j->max)
		j->max = 65536;
	j->done = false;
	assert_int_equal(pthread_create(&j->thread, NULL, fn, j), 0);
}

static inline bool job_over(void *arg)
{
	return ((struct job *)arg)->done;
}

#define finish(j) do { run_until(job_over, j); pthread_join((j)->thread, NULL); } while (0)

static inline bool readable(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static inline bool hung_up(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg };

	return poll(&p, 1, 0) > 0;
}

/* Wait until something can be read, then read it: octets, 0 for the end, or -errno. */
static inline int next_octets(const struct app *a, void *buf, size_t len)
{
	ssize_t n;
	int fd = a->fd;

	run_until(readable, &fd);
	n = app_recv(a, buf, len, MSG_DONTWAIT);
	return n < 0 ? -errno : (int)n;
}

#define expect_octets(a, text) do { \
	char b_[64] = { 0 }; \
	assert_int_equal(next_octets(a, b_, sizeof(b_)), strlen(text)); \
	assert_string_equal(b_, text); \
} while (0)
#define expect_end(a, how) do { \
	char b_[64]; \
	assert_int_equal(next_octets(a, b_, sizeof(b_)), how); \
} while (0)
/* Octets into fd until everything behind it is full; then the application at `to` reads what it has, and nobody else moves. */
static inline void all_but_ours(int fd, int to)
{
	static char b[65536];

	for (int still = 0; still < 20; still++) {
		while (send(fd, b, sizeof(b), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
			still = 0;
		run_until(readable, &to);
		run_rounds(10);
	}
	while (recv(to, b, sizeof(b), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
}

/* Waits until there is something, and compares it. */
static inline void expect_text_at(int fd, const char *text, int line)
{
	char b[64] = { 0 };

	run_until(readable, &fd);
	if (recv(fd, b, sizeof(b), MSG_DONTWAIT) != (ssize_t)strlen(text) || strcmp(b, text))
		fail_msg("line %d: \"%s\" instead of \"%s\"", line, b, text);
}
#define expect_text(fd, text) expect_text_at(fd, text, __LINE__)
#define say(fd, text) assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text))

/* Another octet where the machine was too slow for an attempt: the next one begins with one. */
static inline bool running_or_more(void *arg)
{
	unsigned int *said = arg;

	if (running(NULL))
		return true;
	if (!(++said[1] % 512)) {
		say(app[0].fd, "!");
		said[0]++;
	}
	return false;
}

/* Relayed ends go up to RDMAP. An upgrade begins with an octet in hand: the first that arrives by it. */
static inline void upgrade_both(void)
{
	unsigned int said[2] = { 1, 0 }, n = 0;
	char b[64];

	for (int i = 0; i < 2; i++)
		stream_upgrade(app[i].st);
	run_rounds(2);
	say(app[0].fd, "!");
	run_until(running_or_more, said);
	while (n < said[0]) {
		int k = next_octets(&app[1], b, sizeof(b));

		assert_true(k > 0);
		n += (unsigned int)k;
	}
	assert_int_equal(nupgraded, 2);
}

static inline void remote_pair(void)
{
	relayed(0);
	relayed(1);
	upgrade_both();
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
