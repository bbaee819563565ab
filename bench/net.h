// SPDX-License-Identifier: MIT
/*
 * What the benches' programs over TCP have in common: sockets, clocks, and the talk before what is measured. A client says what it
 * wants (struct ask) and warms the connection up by requests and answers of WARM_SIZE octets, the last of which says so.
 */
#ifndef BENCH_NET_H
#define BENCH_NET_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WARM_SIZE	64u

struct ask { char mode[8]; uint32_t size, warm; double seconds; };

static inline _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

static inline double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* us of processor time that the cgroup BENCH_CPU has had; -1 without it */
static inline double cpu(void)
{
	const char *path = getenv("BENCH_CPU");
	FILE *f = path ? fopen(path, "r") : NULL;
	double us = -1;

	if (!f)
		return us;
	if (fscanf(f, "usage_usec %lf", &us) != 1)
		us = -1;
	fclose(f);
	return us;
}

/* The number; with BENCH_CPU also ns of processor time per message since `before`. */
static inline void result(double v, double before, uint64_t messages)
{
	double after = cpu();

	if (before >= 0 && after >= 0)
		printf("%.4f %.1f\n", v, (after - before) * 1e3 / (double)messages);
	else
		printf("%.4f\n", v);
}

static inline void put(int fd, const void *p, size_t n)
{
	const char *s = p;
	ssize_t r;

	for (; n; s += r, n -= (size_t)r) {
		r = write(fd, s, n);
		if (r < 0 && errno == EAGAIN)
			poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
		if (r < 0 && errno != EAGAIN && errno != EINTR)
			die("write");
		r = r < 0 ? 0 : r;
	}
}

/* Exactly n octets; false at the end of the stream. */
static inline bool get(int fd, void *p, size_t n)
{
	char *s = p;
	ssize_t r;

	for (; n; s += r, n -= (size_t)r) {
		r = read(fd, s, n);
		if (r == 0)
			return false;
		if (r < 0 && errno != EINTR && errno != EAGAIN)	/* which is asked again at once: "spin" of pair.c */
			die("read");
		r = r < 0 ? 0 : r;
	}
	return true;
}

static inline int sock(const char *host, const char *port, struct sockaddr_in *a)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	if (fd < 0 || inet_pton(AF_INET, host, &a->sin_addr) != 1)
		die(host);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return fd;
}

static inline int listening(const char *host, const char *port)
{
	struct sockaddr_in a;
	int l = sock(host, port, &a);

	if (bind(l, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(l, 1024) < 0)
		die(port);
	return l;
}

static inline int connected(const char *host, const char *port)
{
	struct sockaddr_in a;
	int one = 1, fd = sock(host, port, &a);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect");
	return fd;
}

#endif
