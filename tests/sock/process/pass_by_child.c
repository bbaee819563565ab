// SPDX-License-Identifier: MIT
/*
 * A child passes the connection on to a stranger, and ends; its parent goes on to use it for a while, and then leaves it to the stranger, who reads what
 * comes, and answers.
 */
#include <sys/wait.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before, and behind */

static int taken(int from)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(sizeof(int))]; } c;
	char x;
	struct iovec v = { &x, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };
	int fd;

	must(recvmsg(from, &m, 0) == 1 && m.msg_controllen);
	memcpy(&fd, CMSG_DATA(&c.h), sizeof(fd));
	return fd;
}

static void stranger(int s)
{
	char b[8];
	int fd = taken(s);

	must(recv(s, b, 1, 0) == 1);	/* it is its turn */
	must(recv(fd, b, 4, MSG_WAITALL) == 4 && !memcmp(b, "tell", 4));
	must(send(fd, "told", 4, 0) == 4);
	must(recv(fd, b, 1, 0) == 0);
	_exit(0);
}

static int strange[2];
static pid_t strange_pid;

static void server(int fd)
{
	int status;
	pid_t pid;

	t_wake(fd, false, TURNS);
	pid = (pid_t)ok(fork());
	if (!pid) {
		t_pass(strange[0], fd);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && !status);
	t_wake(fd, false, TURNS);
	t_sync();
	must(send(strange[0], "t", 1, 0) == 1);
	t_sync();
	must(waitpid(strange_pid, &status, 0) == strange_pid && !status);
	say("the stranger has answered");
	close(fd);
}

static void client(int fd)
{
	char b[8];

	t_wake(fd, true, TURNS);
	t_wake(fd, true, TURNS);
	t_sync();
	t_sync();
	must(send(fd, "tell", 4, 0) == 4);
	want_str(fd, "told");
	shutdown(fd, SHUT_WR);
	must(recv(fd, b, 1, 0) == 0);
	say("answered");
	close(fd);
}

/* The stranger is there before the connection: it has nothing of it. */
static void server_first(void)
{
	int l;

	ok(socketpair(AF_UNIX, SOCK_STREAM, 0, strange));
	strange_pid = (pid_t)ok(fork());
	if (!strange_pid)
		stranger(strange[1]);
	l = t_listen(0);
	server(t_accept(l));
	close(l);
}

static void client_first(void)
{
	client(t_connect());
}

SOCK_ROLES(server_first, client_first)
