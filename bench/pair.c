// SPDX-License-Identifier: MIT
/*
 * One TCP connection between two processes, measured:
 *	pair serve ADDRESS PORT
 *	pair rr|tx|rx ADDRESS PORT OCTETS SECONDS
 * rr prints microseconds per request and answer of OCTETS each; tx and rx print Gbit/s of writes of OCTETS, to and from the server,
 * counted until the receiver has said that it has everything.
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

struct ask { char mode[4]; uint32_t size; double seconds; };

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

	if (!get(fd, &a, sizeof(a)) || a.size > sizeof(buf))
		exit(1);
	if (!strncmp(a.mode, "rr", 3)) {
		while (get(fd, buf, a.size))
			put(fd, buf, a.size);
	} else if (!strncmp(a.mode, "tx", 3)) {
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

static _Noreturn void serve(const char *host, const char *port)
{
	struct sockaddr_in a;
	int one = 1, fd, l = sock(host, port, &a);

	signal(SIGCHLD, SIG_IGN);
	if (bind(l, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(l, 64) < 0)
		die(port);
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

static double rr(int fd, const struct ask *a)
{
	double start = now(), end = start + a->seconds, t;
	uint64_t n = 0;

	do {
		for (int i = 0; i < 16; i++, n++) {
			put(fd, buf, a->size);
			if (!get(fd, buf, a->size))
				die("server");
		}
		t = now();
	} while (t < end);
	return (t - start) * 1e6 / (double)n;
}

int main(int argc, char **argv)
{
	struct ask a = { .size = 0 };
	struct sockaddr_in to;
	int one = 1, fd;
	uint64_t n, got;
	double start;

	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(argv[2], argv[3]);
	if (argc != 6 || (strcmp(argv[1], "rr") && strcmp(argv[1], "tx") && strcmp(argv[1], "rx"))) {
		fputs("usage: pair serve ADDRESS PORT; pair rr|tx|rx ADDRESS PORT OCTETS SECONDS\n", stderr);
		return 2;
	}
	memcpy(a.mode, argv[1], 3);
	a.size = (uint32_t)atoi(argv[4]);
	a.seconds = atof(argv[5]);
	if (!a.size || a.size > sizeof(buf))
		return 2;
	fd = sock(argv[2], argv[3], &to);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("connect");
	put(fd, &a, sizeof(a));
	start = now();
	if (!strcmp(a.mode, "rr")) {
		printf("%.3f\n", rr(fd, &a));
		return 0;
	}
	if (!strcmp(a.mode, "tx")) {
		n = pour(fd, a.size, a.seconds);
		if (!get(fd, &got, sizeof(got)) || got != n)
			die("octets were lost");
	} else {
		n = drain(fd);
		shutdown(fd, SHUT_WR);
	}
	printf("%.4f\n", (double)n * 8 / (now() - start) / 1e9);
	return 0;
}
