// SPDX-License-Identifier: MIT
/*
 * Many TCP connections at once between two processes of one thread each, by epoll, measured:
 *	crowd serve ADDRESS PORT
 *	crowd rr|tx|memcached ADDRESS PORT OCTETS SECONDS WARM CONNECTIONS
 * rr prints requests and answers of OCTETS per second on all of them together, tx Gbit/s of writes of OCTETS, counted until the receiver has
 * said that it has everything; memcached, with such a server at the other end, gets per second of a value of OCTETS. All of them are warmed
 * up for WARM seconds first, rr by small requests and answers, the others by what is measured, and print nanoseconds of processor time per
 * message besides when BENCH_CPU names a cgroup's cpu.stat.
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "bench/net.h"

/* of requests at most 4096: what one process writes has to fit while the other one writes, too */
enum { EVENTS = 64, OCTETS_MAX = 1 << 16, REQUEST_MAX = 4096 };

static char buf[1 << 20];
static int ep;

static void files(void)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_NOFILE, &lim)) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
}

static void watch(int op, int fd, uint32_t events, void *p)
{
	struct epoll_event e = { .events = events, .data.ptr = p };

	if (epoll_ctl(ep, op, fd, &e) < 0)
		die("epoll_ctl");
}

/* Octets that the kernel has, at most n; 0: none now; -1: the end of the stream. */
static ssize_t take(int fd, void *p, size_t n)
{
	ssize_t r = read(fd, p, n);

	if (r < 0 && errno != EAGAIN && errno != EINTR)
		die("read");
	return r ? r < 0 ? 0 : r : -1;
}

/* ---- server ---- */

enum phase { ASK, WARM, ANSWER, COUNT };

struct peer { int fd; enum phase phase; uint32_t have; uint64_t total; struct ask ask; char msg[OCTETS_MAX]; };

static bool poured(const struct peer *p)
{
	return !strcmp(p->ask.mode, "tx");
}

static void peer_message(struct peer *p)
{
	enum phase next = poured(p) ? COUNT : ANSWER;

	p->have = 0;
	if (p->phase == ASK) {
		if (p->ask.size > OCTETS_MAX || !p->ask.size)
			exit(1);
		p->phase = p->ask.warm ? WARM : next;
		return;
	}
	if (p->phase != WARM || !poured(p) || p->msg[0])
		put(p->fd, p->msg, p->phase == WARM ? WARM_SIZE : p->ask.size);
	if (p->phase == WARM && p->msg[0])
		p->phase = next;
}

static void peer_read(struct peer *p)
{
	uint32_t want = p->phase == ASK ? sizeof(p->ask) : p->phase == WARM && !poured(p) ? WARM_SIZE : p->ask.size;
	ssize_t r = p->phase == COUNT ? take(p->fd, buf, sizeof(buf)) :
		    take(p->fd, (p->phase == ASK ? (char *)&p->ask : p->msg) + p->have, want - p->have);

	if (r < 0) {
		if (p->phase == COUNT)
			put(p->fd, &p->total, sizeof(p->total));
		close(p->fd);
		free(p);
		return;
	}
	p->total += p->phase == COUNT ? (uint64_t)r : 0;
	p->have += (uint32_t)r;
	if (p->phase != COUNT && p->have == want)
		peer_message(p);
}

static _Noreturn void serve(int l)
{
	struct epoll_event e[EVENTS];

	watch(EPOLL_CTL_ADD, l, EPOLLIN, NULL);
	for (;;)
		for (int i = 0, n = epoll_wait(ep, e, EVENTS, -1); i < n; i++) {
			struct peer *p = e[i].data.ptr;
			int one = 1, fd;

			if (p) {
				peer_read(p);
				continue;
			}
			fd = accept4(l, NULL, NULL, SOCK_NONBLOCK);
			if (fd < 0)
				continue;
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			p = calloc(1, sizeof(*p));
			if (!p)
				die("calloc");
			p->fd = fd;
			watch(EPOLL_CTL_ADD, fd, EPOLLIN, p);
		}
}

/* ---- client ---- */

struct conn { int fd; bool last; size_t have, put; uint64_t total, said; char answer[WARM_SIZE]; };

static struct conn *conns;
static int count;

/* Requests and answers on all of them for so many seconds, `least` for each at least, or just one on each when that is 0; their number, and when
 * it was over. */
static uint64_t talk(const void *ask, size_t asked, size_t answered, double seconds, uint64_t least, double *over)
{
	struct epoll_event e[EVENTS];
	uint64_t n = 0;
	int asleep = 0;
	bool last = !least;
	double end = now() + seconds;

	for (int i = 0; i < count; i++)
		put(conns[i].fd, ask, asked);
	while (asleep < count)
		for (int i = 0, k = epoll_wait(ep, e, EVENTS, -1); i < k; i++) {
			struct conn *c = e[i].data.ptr;
			ssize_t r = take(c->fd, buf, answered - c->have);

			if (r < 0)
				die("server");
			c->have += (size_t)r;
			if (c->have < answered)
				continue;
			c->have = 0;
			n += !last;
			if (!last && n >= least * (uint64_t)count && (*over = now()) >= end)
				last = true;
			if (last)
				asleep++;
			else
				put(c->fd, ask, asked);
		}
	return n;
}

/* It is written; false: the rest of it is to be, when there is room. */
static bool written(struct conn *c, const char *p, uint32_t size)
{
	ssize_t r = write(c->fd, p + c->put, size - c->put);

	if (r < 0 && errno != EAGAIN && errno != EINTR)
		die("write");
	c->put += r > 0 ? (size_t)r : 0;
	c->total += r > 0 ? (uint64_t)r : 0;
	if (c->put < size)
		return false;
	c->put = 0;
	return true;
}

/* Writes of size on all of them for so many seconds, until the receiver has said that it has everything; their number. */
static uint64_t pour(uint32_t size, double seconds)
{
	struct epoll_event e[EVENTS];
	int done = 0;
	uint64_t n = 0;
	double end = now() + seconds;

	for (int i = 0; i < count; i++)
		watch(EPOLL_CTL_MOD, conns[i].fd, EPOLLIN | EPOLLOUT, &conns[i]);
	while (done < count)
		for (int i = 0, k = epoll_wait(ep, e, EVENTS, -1); i < k; i++) {
			struct conn *c = e[i].data.ptr;
			ssize_t r;

			if (e[i].events & EPOLLOUT) {
				if (!written(c, buf, size))
					continue;
				n++;
				if (now() < end)
					continue;
				watch(EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
				shutdown(c->fd, SHUT_WR);
			} else if ((r = take(c->fd, (char *)&c->said + c->have, sizeof(c->said) - c->have)) < 0) {
				die("server");
			} else if ((c->have += (size_t)r) == sizeof(c->said)) {
				if (c->said != c->total) {
					fputs("octets were lost\n", stderr);
					exit(1);
				}
				epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
				done++;
			}
		}
	return n;
}

/* The same first; the last of each says so, and is answered. */
static void pour_warm(uint32_t size, double seconds)
{
	static char last[OCTETS_MAX] = { 1 };
	struct epoll_event e[EVENTS];
	int done = 0;
	double end = now() + seconds;

	for (int i = 0; i < count; i++)
		watch(EPOLL_CTL_MOD, conns[i].fd, EPOLLIN | EPOLLOUT, &conns[i]);
	while (done < count)
		for (int i = 0, k = epoll_wait(ep, e, EVENTS, -1); i < k; i++) {
			struct conn *c = e[i].data.ptr;
			ssize_t r;

			if (e[i].events & EPOLLOUT) {
				if (!written(c, c->last ? last : buf, size))
					continue;
				if (c->last)
					watch(EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
				c->last = c->last || now() >= end;
			} else if ((r = take(c->fd, c->answer + c->have, sizeof(c->answer) - c->have)) < 0) {
				die("server");
			} else if ((c->have += (size_t)r) == sizeof(c->answer)) {
				c->have = 0;
				c->total = 0;
				done++;
			}
		}
}

static void measure(const struct ask *a, double warm, const char *ask, size_t asked, size_t answered)
{
	char msg[WARM_SIZE] = { 0 };
	double before, start, over;
	uint64_t n;

	if (!strcmp(a->mode, "tx")) {
		pour_warm(a->size, warm);
	} else if (a->warm) {
		talk(msg, sizeof(msg), sizeof(msg), warm, 8, &over);
		msg[0] = 1;
		talk(msg, sizeof(msg), sizeof(msg), 0, 0, &over);
	} else {
		talk(ask, asked, answered, warm, 8, &over);
	}
	before = cpu();
	start = now();
	if (!strcmp(a->mode, "tx")) {
		n = pour(a->size, a->seconds);
		result((double)n * a->size * 8 / (now() - start) / 1e9, before, n);
	} else {
		n = talk(ask, asked, answered, a->seconds, 1, &over);
		result((double)n / (over - start), before, n);
	}
}

/* "get k" is answered by that value */
static size_t value_set(int fd, uint32_t size)
{
	char head[64];
	int n = snprintf(head, sizeof(head), "set k 0 0 %u\r\n", size);

	put(fd, head, (size_t)n);
	put(fd, buf, size);
	put(fd, "\r\n", 2);
	if (!get(fd, head, 8) || memcmp(head, "STORED\r\n", 8)) {
		fputs("memcached did not store it\n", stderr);
		exit(1);
	}
	return (size_t)snprintf(NULL, 0, "VALUE k 0 %u\r\n", size) + size + 7;	/* \r\nEND\r\n */
}

static int usage(void)
{
	fputs("usage: crowd serve ADDRESS PORT; crowd rr|tx|memcached ADDRESS PORT OCTETS SECONDS WARM CONNECTIONS\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static char request[REQUEST_MAX];
	struct ask a = { 0 };
	size_t answered = 0;
	bool cached;

	files();
	ep = epoll_create1(0);
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(listening(argv[2], argv[3]));
	cached = argc == 8 && !strcmp(argv[1], "memcached");
	if (argc != 8 || (!cached && strcmp(argv[1], "rr") && strcmp(argv[1], "tx")))
		return usage();
	strcpy(a.mode, cached ? "" : argv[1]);
	a.size = (uint32_t)atoi(argv[4]);
	a.seconds = atof(argv[5]);
	a.warm = !cached;
	count = atoi(argv[7]);
	if (!a.size || a.size > (strcmp(a.mode, "rr") ? OCTETS_MAX : REQUEST_MAX) || count < 1)
		return usage();
	conns = calloc((size_t)count, sizeof(*conns));
	if (!conns)
		die("calloc");
	for (int i = 0; i < count; i++) {
		struct conn *c = &conns[i];

		c->fd = connected(argv[2], argv[3]);
		if (!cached)
			put(c->fd, &a, sizeof(a));
		else if (!i)
			answered = value_set(c->fd, a.size);
		fcntl(c->fd, F_SETFL, O_NONBLOCK);
		watch(EPOLL_CTL_ADD, c->fd, EPOLLIN, c);
	}
	if (cached)
		measure(&a, atof(argv[6]), "get k\r\n", 7, answered);
	else
		measure(&a, atof(argv[6]), request, a.size, a.size);
	return 0;
}
