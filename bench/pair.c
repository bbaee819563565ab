// SPDX-License-Identifier: MIT
/*
 * TCP connections between two processes, measured:
 *	pair serve ADDRESS PORT
 *	pair rr|tx|rx|gap ADDRESS PORT OCTETS SECONDS
 *	pair slices ADDRESS PORT OCTETS SECONDS CALLS
 *	pair greet ADDRESS PORT
 *	pair connect ADDRESS PORT SECONDS
 * rr prints microseconds per request and answer of OCTETS each, gap those of the longest one; tx and rx print Gbit/s of writes of OCTETS,
 * to and from the server, counted until the receiver has said that it has everything. slices does as tx, but to 2 s after the call of
 * number CALLS, which must come within SECONDS, and prints Gbit/s of each 100 ms of its calls, from 1 s before that one on. connect, with
 * greet at the other end, prints microseconds per connection: connect, an octet there and one back, close.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct ask { char mode[8]; uint32_t size; double seconds; };

static char buf[1 << 22];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void put(int fd, const void *p, size_t n)
{
	const char *s = p;
	ssize_t r;

	for (; n; s += r, n -= (size_t)r) {
		r = write(fd, s, n);
		if (r < 0 && errno == EINTR)
			r = 0;
		if (r < 0)
			die("write");
	}
}

/* Exactly n octets; false at the end of the stream. */
static int get(int fd, void *p, size_t n)
{
	char *s = p;
	ssize_t r;

	for (; n; s += r, n -= (size_t)r) {
		r = read(fd, s, n);
		if (r == 0)
			return 0;
		if (r < 0 && errno == EINTR)
			r = 0;
		if (r < 0)
			die("read");
	}
	return 1;
}

static uint64_t pour(int fd, uint32_t size, double seconds)
{
	double end = now() + seconds;
	uint64_t n = 0;

	while (now() < end)
		for (int i = 0; i < 16; i++, n += size)
			put(fd, buf, size);
	shutdown(fd, SHUT_WR);
	return n;
}

static uint64_t drain(int fd)
{
	uint64_t n = 0;
	ssize_t r;

	while ((r = read(fd, buf, 1 << 20)) > 0)
		n += (uint64_t)r;
	if (r < 0)
		die("read");
	return n;
}

static void answer(int fd)
{
	struct ask a;
	uint64_t n;

	if (!get(fd, &a, sizeof(a)) || a.size > sizeof(buf) || a.mode[sizeof(a.mode) - 1])
		exit(1);
	if (!strcmp(a.mode, "rr")) {
		while (get(fd, buf, a.size))
			put(fd, buf, a.size);
	} else if (!strcmp(a.mode, "tx")) {
		n = drain(fd);
		put(fd, &n, sizeof(n));
	} else {
		pour(fd, a.size, a.seconds);
		drain(fd);
	}
	exit(0);
}

static int sock(const char *host, const char *port, struct sockaddr_in *a)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	if (fd < 0 || inet_pton(AF_INET, host, &a->sin_addr) != 1)
		die(host);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return fd;
}

static int listening(const char *host, const char *port)
{
	struct sockaddr_in a;
	int l = sock(host, port, &a);

	if (bind(l, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(l, 1024) < 0)
		die(port);
	return l;
}

static _Noreturn void serve(int l)
{
	int one = 1, fd;

	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		fd = accept(l, NULL, NULL);
		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (fork() == 0) {
			close(l);
			answer(fd);
		}
		close(fd);
	}
}

/* One after the other, as they come. */
static _Noreturn void greet(int l)
{
	ssize_t n;
	int fd;

	for (;;) {
		fd = accept(l, NULL, NULL);
		if (fd < 0)
			continue;
		while ((n = read(fd, buf, sizeof(buf))) > 0)
			put(fd, buf, (uint32_t)n);
		close(fd);
	}
}

static int connected(const char *host, const char *port)
{
	struct sockaddr_in a;
	int one = 1, fd = sock(host, port, &a);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect");
	return fd;
}

static void ask_once(int fd, uint32_t size)
{
	put(fd, buf, size);
	if (!get(fd, buf, size))
		die("server");
}

/* Connections with so many requests and answers each: us for one. */
static double connects(const char *host, const char *port, double seconds, uint32_t size, int rounds)
{
	double start = now(), t;
	uint64_t n = 0;
	int fd;

	do {
		fd = connected(host, port);
		for (int i = 0; i < rounds; i++)
			ask_once(fd, size);
		close(fd);
		n++;
		t = now();
	} while (t < start + seconds);
	return (t - start) * 1e6 / (double)n;
}

static double rr(int fd, const struct ask *a)
{
	double start = now(), t;
	uint64_t n = 0;

	do {
		for (int i = 0; i < 16; i++, n++)
			ask_once(fd, a->size);
		t = now();
	} while (t < start + a->seconds);
	return (t - start) * 1e6 / (double)n;
}

/* Not the first ones, for which the server makes a process. */
static double gap(int fd, const struct ask *a)
{
	double start, last, t, longest = 0;

	for (int i = 0; i < 8; i++)
		ask_once(fd, a->size);
	for (start = last = now(); last < start + a->seconds; last = t) {
		ask_once(fd, a->size);
		t = now();
		longest = t - last > longest ? t - last : longest;
	}
	return longest * 1e6;
}

static void check(int fd, uint64_t n)
{
	uint64_t got;

	if (!get(fd, &got, sizeof(got)) || got != n)
		die("octets were lost");
}

#define SLICE	0.1
#define BEFORE	10
#define SLICES	30

static void slices(int fd, const struct ask *a, uint64_t calls)
{
	uint64_t have = 0, room = 1 << 22, count[SLICES] = { 0 };
	double *at = malloc(room * sizeof(*at)), end = now() + a->seconds;

	if (!at)
		die("malloc");
	do {
		put(fd, buf, a->size);
		at[have++] = now();
	} while (have < room && at[have - 1] < (have > calls ? at[calls] + (SLICES - BEFORE) * SLICE : end));
	shutdown(fd, SHUT_WR);
	check(fd, have * a->size);
	if (have <= calls) {
		fputs("it did not come to so many calls\n", stderr);
		exit(1);
	}
	for (uint64_t i = 0; i < have; i++) {
		double k = (at[i] - at[calls]) / SLICE + BEFORE;

		if (k >= 0 && k < SLICES)
			count[(int)k]++;
	}
	for (int i = 0; i < SLICES; i++)
		printf("%.4f%c", (double)count[i] * a->size * 8 / SLICE / 1e9, i < SLICES - 1 ? ' ' : '\n');
}

static double tx(int fd, const struct ask *a)
{
	double start = now();
	uint64_t n = pour(fd, a->size, a->seconds);

	check(fd, n);
	return (double)n * 8 / (now() - start) / 1e9;
}

static double rx(int fd, const struct ask *a)
{
	double start = now();
	uint64_t n = drain(fd);

	shutdown(fd, SHUT_WR);
	return (double)n * 8 / (now() - start) / 1e9;
}

static const struct {
	const char *name, *answer;	/* the server does as for that one */
	double (*run)(int fd, const struct ask *a);
} modes[] = { { "rr", "rr", rr }, { "gap", "rr", gap }, { "tx", "tx", tx }, { "rx", "rx", rx }, { "slices", "tx", NULL } };

static int usage(void)
{
	fputs("usage: pair serve|greet ADDRESS PORT; pair connect ADDRESS PORT SECONDS [OCTETS ROUNDS]; pair rr|tx|rx|gap ADDRESS PORT OCTETS SECONDS; "
	      "pair slices ADDRESS PORT OCTETS SECONDS CALLS\n", stderr);
	return 2;
}

static int measure(int argc, char **argv)
{
	struct ask a = { .size = (uint32_t)atoi(argv[4]), .seconds = atof(argv[5]) };
	unsigned int i = 0, n = sizeof(modes) / sizeof(modes[0]);
	int fd;

	while (i < n && strcmp(argv[1], modes[i].name))
		i++;
	if (i == n || !a.size || a.size > sizeof(buf) || argc != (modes[i].run ? 6 : 7))
		return usage();
	strcpy(a.mode, modes[i].answer);
	fd = connected(argv[2], argv[3]);
	put(fd, &a, sizeof(a));
	if (modes[i].run)
		printf("%.4f\n", modes[i].run(fd, &a));
	else
		slices(fd, &a, (uint64_t)atol(argv[6]));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(listening(argv[2], argv[3]));
	if (argc == 4 && !strcmp(argv[1], "greet"))
		greet(listening(argv[2], argv[3]));
	if ((argc == 5 || argc == 7) && !strcmp(argv[1], "connect")) {
		printf("%.4f\n", connects(argv[2], argv[3], atof(argv[4]), argc == 7 ? (uint32_t)atoi(argv[5]) : 1, argc == 7 ? atoi(argv[6]) : 1));
		return 0;
	}
	return argc < 6 ? usage() : measure(argc, argv);
}
