// SPDX-License-Identifier: MIT
/*
 * TCP connections between two processes, measured:
 *	pair serve ADDRESS PORT
 *	pair rr|spin|tx|rx|gap ADDRESS PORT OCTETS SECONDS [WARM]
 *	pair slices ADDRESS PORT OCTETS SECONDS CALLS
 *	pair greet ADDRESS PORT
 *	pair connect ADDRESS PORT SECONDS
 * rr prints microseconds per request and answer of OCTETS each, spin the same where neither end sleeps (non-blocking calls, again and again), gap those of the
 * longest one; tx and rx print Gbit/s of writes of OCTETS,
 * to and from the server, counted until the receiver has said that it has everything. slices does as tx, but to 2 s after the call of
 * number CALLS, which must come within SECONDS, and prints Gbit/s of each 100 ms of its calls, from 1 s before that one on. connect, with
 * greet at the other end, prints microseconds per connection: connect, an octet there and one back, close. With WARM, connections are warmed up
 * for so many seconds first; rr, tx and rx print nanoseconds of processor time per message besides when BENCH_CPU names a cgroup's cpu.stat.
 */
#include <fcntl.h>

#include "bench/net.h"

static char buf[1 << 22];

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

static void no_sleep(int fd)
{
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		die("fcntl");
}

static void answer(int fd)
{
	struct ask a;
	uint64_t n;

	if (!get(fd, &a, sizeof(a)) || a.size > sizeof(buf) || a.mode[sizeof(a.mode) - 1])
		exit(1);
	for (char last = 0; a.warm && !last; last = buf[0]) {
		if (!get(fd, buf, WARM_SIZE))
			exit(1);
		put(fd, buf, WARM_SIZE);
	}
	if (!strcmp(a.mode, "spin"))
		no_sleep(fd);
	if (!strcmp(a.mode, "rr") || !strcmp(a.mode, "spin")) {
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

static void rr(int fd, const struct ask *a)
{
	double before = cpu(), start = now(), t;
	uint64_t n = 0;

	do {
		for (int i = 0; i < 16; i++, n++)
			ask_once(fd, a->size);
		t = now();
	} while (t < start + a->seconds);
	result((t - start) * 1e6 / (double)n, before, n);
}

static void spin(int fd, const struct ask *a)
{
	no_sleep(fd);
	rr(fd, a);
}

/* Not the first ones, for which the server makes a process. */
static void gap(int fd, const struct ask *a)
{
	double start, last, t, longest = 0;

	for (int i = 0; i < 8; i++)
		ask_once(fd, a->size);
	for (start = last = now(); last < start + a->seconds; last = t) {
		ask_once(fd, a->size);
		t = now();
		longest = t - last > longest ? t - last : longest;
	}
	result(longest * 1e6, -1, 1);
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

static void tx(int fd, const struct ask *a)
{
	double before = cpu(), start = now();
	uint64_t n = pour(fd, a->size, a->seconds);

	check(fd, n);
	result((double)n * 8 / (now() - start) / 1e9, before, n / a->size);
}

static void rx(int fd, const struct ask *a)
{
	double before = cpu(), start = now();
	uint64_t n = drain(fd);

	shutdown(fd, SHUT_WR);
	result((double)n * 8 / (now() - start) / 1e9, before, n / a->size);
}

/* Until so many seconds are over, and often enough that both ends are worth an upgrade between hosts by the calls they made. */
static void warm_up(int fd, double seconds)
{
	double end = now() + seconds;

	for (int n = 0; n < 2500 || now() < end; n++) {
		buf[0] = 0;
		ask_once(fd, WARM_SIZE);
	}
	buf[0] = 1;
	ask_once(fd, WARM_SIZE);
}

static const struct {
	const char *name, *answer;	/* the server does as for that one */
	void (*run)(int fd, const struct ask *a);
} modes[] = { { "rr", "rr", rr }, { "spin", "spin", spin }, { "gap", "rr", gap }, { "tx", "tx", tx }, { "rx", "rx", rx }, { "slices", "tx", NULL } };

static int usage(void)
{
	fputs("usage: pair serve|greet ADDRESS PORT; pair connect ADDRESS PORT SECONDS [OCTETS ROUNDS]; pair rr|spin|tx|rx|gap ADDRESS PORT OCTETS SECONDS [WARM]; "
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
	if (i == n || !a.size || a.size > sizeof(buf) || argc < (modes[i].run ? 6 : 7) || argc > 7)
		return usage();
	strcpy(a.mode, modes[i].answer);
	a.warm = modes[i].run && argc == 7;
	fd = connected(argv[2], argv[3]);
	put(fd, &a, sizeof(a));
	if (a.warm)
		warm_up(fd, atof(argv[6]));
	if (modes[i].run)
		modes[i].run(fd, &a);
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
