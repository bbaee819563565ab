// SPDX-License-Identifier: MIT
/* SO_RCVTIMEO: EAGAIN after the time, on recv, recvmsg and accept; the value can be read back. */
#include "../sock.h"

static void server(void)
{
	struct timeval tv = { 0, 60000 }, got = { 0, 0 };
	socklen_t gl = sizeof(got);
	int l = t_listen(0), fd;
	char b[4];
	struct iovec v = { b, 4 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	long t0 = t_ms();

	ok(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	step("accept", accept(l, NULL, NULL));
	must(t_ms() - t0 >= 55);
	tv.tv_usec = 0;
	ok(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	t_sync();
	fd = t_accept(l);
	tv.tv_usec = 80000;
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	ok(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &gl));
	say("%ld.%06ld", (long)got.tv_sec, (long)got.tv_usec);
	t0 = t_ms();
	step("recv", recv(fd, b, 4, 0));
	must(t_ms() - t0 >= 75 && t_ms() - t0 < 20000);
	step("read", read(fd, b, 4));
	step("recvmsg", recvmsg(fd, &m, 0));
	tv.tv_usec = 0;		/* the end comes when the client has come to it */
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	t_sync();
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	t_sync();
	fd = t_connect_to(&ss);
	t_sync();
	close(fd);
}

SOCK_ROLES(server, client)
