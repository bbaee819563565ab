// SPDX-License-Identifier: MIT
/* All iovecs are filled and all are sent, empty ones in between and many of them. */
#include "../sock.h"

#define N 64

static volatile int many = 1025;

static void server(int fd)
{
	static uint8_t b[N * 100];
	struct iovec v[N];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = N };
	size_t pos = 0;

	for (int round = 0; round < 2; round++) {
		size_t total = 0;

		for (int i = 0; i < N; i++) {
			v[i].iov_base = b + total;
			v[i].iov_len = (size_t)(i * 7 % 50);
			total += v[i].iov_len;
		}
		t_readable(fd, (int)total);
		if (round)
			must(recvmsg(fd, &m, 0) == (ssize_t)total);
		else
			must(readv(fd, v, N) == (ssize_t)total);
		t_same(b, total, pos, 1);
		pos += total;
		say("round %d: %zu", round, total);
		t_sync();
	}
	step("no iovec", readv(fd, v, 0));
	step("too many", readv(fd, v, many));
	v[0].iov_len = (size_t)-1;
	step("bad length", readv(fd, v, 1));
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	static uint8_t b[N * 100];
	struct iovec v[N];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = N };
	size_t pos = 0;

	for (int round = 0; round < 2; round++) {
		size_t total = 0;

		for (int i = 0; i < N; i++) {
			v[i].iov_base = b + total;
			v[i].iov_len = (size_t)(i * 7 % 50);
			total += v[i].iov_len;
		}
		t_fill(b, total, pos, 1);
		must((round ? sendmsg(fd, &m, 0) : writev(fd, v, N)) == (ssize_t)total);
		pos += total;
		t_sync();
	}
	close(fd);
}

SOCK_PAIR(server, client)
