// SPDX-License-Identifier: MIT
/* Lengths, counts and time-outs at their edges: what a call answers, and what it moved in part. */
#include <limits.h>

#include "../sock.h"

static char b[64];
static volatile int minus = -1;
static char big[16 << 20];	/* as a whole it goes nowhere */

static void vectors(int fd)
{
	static struct iovec v[1026];
	struct msghdr m = { .msg_iov = v };

	for (int i = 0; i < 1026; i++)
		v[i] = (struct iovec){ b, 0 };
	step("writev 1024 empty", writev(fd, v, 1024));
	step("writev 1025", writev(fd, v, 1025));
	step("writev 0", writev(fd, v, 0));
	step("writev -1", writev(fd, v, minus));
	step("readv 1025", readv(fd, v, 1025));
	step("readv 0", readv(fd, v, 0));
	step("readv -1", readv(fd, v, minus));
	step("preadv2 1025", preadv2(fd, v, 1025, -1, 0));
	step("preadv2 flags", preadv2(fd, v, 1, -1, 0x40000000));
	step("preadv2 at 0", preadv2(fd, v, 1, 0, 0));
	step("pwritev2 at 0", pwritev2(fd, v, 1, 0, 0));
	m.msg_iovlen = 1025;
	step("sendmsg 1025", sendmsg(fd, &m, 0));
	step("recvmsg 1025", recvmsg(fd, &m, MSG_DONTWAIT));
	m.msg_iovlen = 1024;
	step("sendmsg 1024 empty", sendmsg(fd, &m, 0));
	step("recvmsg 1024 empty", recvmsg(fd, &m, MSG_DONTWAIT));
	m = (struct msghdr){ 0 };
	step("sendmsg of nothing", sendmsg(fd, &m, 0));
	step("recvmsg of nothing", recvmsg(fd, &m, MSG_DONTWAIT));
	v[0].iov_len = (size_t)-1;
	step("writev negative", writev(fd, v, 1));
	step("readv negative", readv(fd, v, 1));
	v[0].iov_len = 1;
	v[1].iov_len = (size_t)SSIZE_MAX + 1;
	step("writev second negative", writev(fd, v, 2));
	step("readv second negative", readv(fd, v, 2));
	v[0] = (struct iovec){ NULL, 0 };
	v[1] = (struct iovec){ "ab", 2 };
	step("writev null empty", writev(fd, v, 2));
}

static void lengths(int fd)
{
	static const size_t len[] = { SIZE_MAX, SIZE_MAX - 4095, (size_t)SSIZE_MAX + 1, SSIZE_MAX, 0x7ffff001, 0x80000000u, UINT_MAX };

	for (size_t i = 0; i < sizeof(len) / sizeof(*len); i++) {
		say("%zx", len[i]);
		t_readable(fd, 8);
		step("read", read(fd, b, len[i]));
		step("recv", recv(fd, b, len[i], MSG_PEEK | MSG_DONTWAIT));
		step("recv", recv(fd, b, len[i], MSG_DONTWAIT));
		step("the rest", recv(fd, b, sizeof(b), MSG_DONTWAIT));
		t_sync();
	}
}

static void times(int fd)
{
	struct timeval tv = { 0, 30000 };
	long t;

	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	t_readable(fd, 2);
	step("WAITALL until time is over", recv(fd, b, 4, MSG_WAITALL));
	t = t_ms();
	step("again", recv(fd, b, 4, MSG_WAITALL));
	must(t_ms() - t >= 25);
	step("PEEK, WAITALL", recv(fd, b, 4, MSG_WAITALL | MSG_PEEK));
	step("readv", readv(fd, &(struct iovec){ b, 4 }, 1));
	step("recv of none", recv(fd, b, 0, 0));
	step("read of none", read(fd, b, 0));
	step("recv of none, DONTWAIT", recv(fd, b, 0, MSG_DONTWAIT));
	t_sync();
	t_readable(fd, 1);
	step("recv of none", recv(fd, b, 0, 0));
	step("PEEK, WAITALL in part", recv(fd, b, 4, MSG_WAITALL | MSG_PEEK));
	step("TRUNC, WAITALL in part", recv(fd, b, 4, MSG_WAITALL | MSG_TRUNC));
	tv = (struct timeval){ 0, 0 };
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
}

static void sends(int fd)
{
	struct timeval tv = { 0, 30000 };
	uint64_t sum = 0;
	ssize_t n;
	int parts = 0;

	ok(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	while ((n = send(fd, big, sizeof(big), 0)) > 0) {
		sum += (uint64_t)n;
		parts += n < (ssize_t)sizeof(big);
	}
	step("send until time is over", n);
	say("%s", parts ? "in part before" : "whole ones only");
	t_put(&sum, sizeof(sum));
}

static void server(int fd)
{
	uint64_t sum, n = 0;
	struct linger l = { 1, 1 };

	vectors(fd);
	lengths(fd);
	times(fd);
	t_sync();
	t_get(&sum, sizeof(sum));
	while (n < sum) {
		ssize_t r = recv(fd, big, sizeof(big), 0);

		must(r > 0);
		n += (uint64_t)r;
	}
	step("no more", recv(fd, big, 1, MSG_DONTWAIT));
	step("linger", setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	t_sync();
	t_readable(fd, 4);
	step("peek", recv(fd, b, 2, MSG_PEEK));
	step("recv", recv(fd, b, 2, 0));
	step("close with two unread", close(fd));
	t_sync();
}

static void client(int fd)
{
	want_str(fd, "ab");
	for (int i = 0; i < 7; i++) {
		send_str(fd, "12345678");
		t_sync();
	}
	send_str(fd, "12");
	t_sync();
	send_str(fd, "1");
	t_sync();
	sends(fd);
	t_sync();
	send_str(fd, "1234");
	t_sync();
	t_until(fd, POLLHUP);
	say_poll("reset", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	step("recv", recv(fd, b, 1, 0));
	step("recv", recv(fd, b, 1, 0));
	step("send", send(fd, b, 1, MSG_NOSIGNAL));
	close(fd);
}

SOCK_PAIR(server, client)
