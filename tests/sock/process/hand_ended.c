// SPDX-License-Identifier: MIT
/*
 * The other end of a connection that has been used for a while is gone, in one way or another, when it is handed on to another program: that finds a TCP
 * socket with its addresses, the octets that are unread, and the end that it had.
 */
#include <poll.h>
#include <sys/wait.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define OCTETS	3000

enum end { CLOSES, SHUTS, UNREAD, LINGERS, LEFT, ENDS };
static const char *const names[ENDS] = { "closes", "shuts for writing", "closes with octets unread", "resets", "closes behind octets" };

static char buf[OCTETS];

/* It has just been begun, and has the connection. */
static void heir(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	ssize_t n, got = 0;

	say("domain %d", get_int(fd, SOL_SOCKET, SO_DOMAIN) == AF_UNIX);
	say("protocol %d", get_int(fd, SOL_SOCKET, SO_PROTOCOL));
	say("own name %d", !getsockname(fd, (void *)&ss, &len) && ss.ss_family != AF_UNIX);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		got += n;
	say("%zd octets, %s", got, n < 0 ? t_errname(errno) : "end");
	n = recv(fd, buf, sizeof(buf), 0);
	say("again: %s", n < 0 ? t_errname(errno) : "end");
}

static void one(int l, int end)
{
	int fd = t_accept(l);
	char num[16];

	close(l);
	for (int i = 0; i < TURNS; i++) {
		must(recv(fd, buf, 1, 0) == 1);
		must(send(fd, buf, 1, 0) == 1);
	}
	if (end == UNREAD)
		must(send(fd, buf, 1, 0) == 1);
	t_sync();
	t_until(fd, POLLIN | (end == UNREAD || end == LINGERS ? POLLHUP : POLLRDHUP));
	snprintf(num, sizeof(num), "%d", fd);
	setenv("IW_TEST_FD", num, 1);
	execl("/proc/self/exe", "self", "SERVER", (char *)NULL);
	_exit(127);
}

static void server(void)
{
	const char *in = getenv("IW_TEST_FD");
	int l, st;

	if (in) {
		heir(atoi(in));
		return;
	}
	l = t_listen(0);
	for (int end = 0; end < ENDS; end++) {
		pid_t p = (pid_t)ok(fork());

		if (!p)
			one(l, end);
		must(waitpid(p, &st, 0) == p && !st);
		say("that was one that %s", names[end]);
		t_sync();
	}
}

static void client(void)
{
	struct linger linger = { 1, 0 };
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int end = 0; end < ENDS; end++) {
		int fd = t_connect_to(&ss);

		for (int i = 0; i < TURNS; i++) {
			must(send(fd, "a", 1, 0) == 1);
			must(recv(fd, buf, 1, 0) == 1);
		}
		if (end == UNREAD)
			t_readable(fd, 1);
		if (end == LEFT)
			must(send(fd, buf, OCTETS, 0) == OCTETS);
		if (end == LINGERS)
			ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
		if (end == SHUTS)
			ok(shutdown(fd, SHUT_WR));
		else
			ok(close(fd));
		t_sync();
		t_sync();
		if (end == SHUTS)
			ok(close(fd));
	}
}

SOCK_ROLES(server, client)
