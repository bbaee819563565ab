// SPDX-License-Identifier: MIT
/* A reader of large pieces that waits by poll, select or epoll first, and reads, peeks and counts as much as it likes, finds octet for octet what was sent. */
#include <sys/epoll.h>
#include <sys/select.h>

#include "../sock.h"

#define ALL	(24u << 20)
#define PIECE	300000u
#define SALT	11

/* Of each end's own, the same in each run. */
static uint32_t below(uint32_t n)
{
	static uint32_t x = 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return x % n;
}

static void wait_readable(int fd, int ep)
{
	struct epoll_event e;
	fd_set set;

	switch (below(3)) {
	case 0:
		t_readable(fd, 1);
		break;
	case 1:
		FD_ZERO(&set);
		FD_SET(fd, &set);
		must(select(fd + 1, &set, NULL, NULL, NULL) == 1);
		break;
	default:
		must(epoll_wait(ep, &e, 1, -1) == 1 && e.events & EPOLLIN);
	}
}

/* Now and then others look, too. */
static void look(int fd, uint8_t *b, uint64_t pos)
{
	uint32_t want = 1 + below(PIECE);
	ssize_t n;
	int have;

	if (!below(4)) {
		ok(ioctl(fd, FIONREAD, &have));
		must(have > 0);
	}
	if (below(4))
		return;
	n = recv(fd, b, want, MSG_PEEK | MSG_DONTWAIT);
	must(n > 0);
	t_same(b, (size_t)n, pos, SALT);
}

static size_t take(int fd, uint8_t *b, size_t n)
{
	size_t first = below((uint32_t)n + 1);
	struct iovec v[2] = { { b, first }, { b + first, n - first } };
	ssize_t r;

	switch (below(4)) {
	case 0:
		r = readv(fd, v, 2);
		break;
	case 1:
		r = recv(fd, b, n, below(2) ? MSG_WAITALL : 0);
		break;
	default:
		r = recv(fd, b, n, MSG_DONTWAIT);
	}
	must(r > 0 && (size_t)r <= n);
	return (size_t)r;
}

static void server(int fd)
{
	int ep = (int)ok(epoll_create1(0));
	struct epoll_event e = { .events = EPOLLIN };
	uint8_t *b = malloc(PIECE);

	must(b);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	for (uint64_t pos = 0, k; pos < ALL; pos += k) {
		size_t n = 1 + below(below(3) ? PIECE : 5000);

		if (n > ALL - pos)
			n = (size_t)(ALL - pos);
		wait_readable(fd, ep);
		look(fd, b, pos);
		k = take(fd, b, n);
		t_same(b, k, pos, SALT);
		if (!below(20))
			send_all(fd, b, 100);	/* the sender reads it in the end */
	}
	want_eof(fd);
	say("all octets");
	close(ep);
	close(fd);
}

static void client(int fd)
{
	uint8_t *b = malloc(PIECE);
	char c[4096];
	ssize_t n;

	must(b);
	for (uint64_t pos = 0, k; pos < ALL; pos += k) {
		k = 1 + below(below(4) ? PIECE : 3000);
		if (k > ALL - pos)
			k = ALL - pos;
		t_fill(b, k, pos, SALT);
		send_all(fd, b, k);
	}
	ok(shutdown(fd, SHUT_WR));
	while ((n = recv(fd, c, sizeof(c), 0)) > 0)
		;
	must(!n);
	close(fd);
}

SOCK_PAIR(server, client)
