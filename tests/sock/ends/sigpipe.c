// SPDX-License-Identifier: MIT
/* SIGPIPE comes with EPIPE, not with MSG_NOSIGNAL, and not when it is ignored. */
#include "../sock.h"

static volatile sig_atomic_t pipes;

static void on_pipe(int sig)
{
	pipes++;
}

static void server(int fd)
{
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct iovec v = { (char *)"x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	signal(SIGPIPE, on_pipe);
	ok(shutdown(fd, SHUT_WR));
	step("send", send(fd, "x", 1, 0));
	say("signals %d", (int)pipes);
	step("write", write(fd, "x", 1));
	say("signals %d", (int)pipes);
	step("send nosignal", send(fd, "x", 1, MSG_NOSIGNAL));
	say("signals %d", (int)pipes);
	step("writev", writev(fd, &v, 1));
	step("sendmsg", sendmsg(fd, &m, 0));
	step("sendmsg nosignal", sendmsg(fd, &m, MSG_NOSIGNAL));
	say("signals %d", (int)pipes);
	signal(SIGPIPE, SIG_IGN);
	step("ignored", write(fd, "x", 1));
	close(fd);
}

SOCK_PAIR(server, client)
