// SPDX-License-Identifier: MIT
/* A signal that is blocked and pending stays so whatever is done with sockets, also one that usually means a fault. */
#include "../sock.h"

static void pend(void)
{
	sigset_t all;

	sigfillset(&all);
	ok(sigprocmask(SIG_BLOCK, &all, NULL));
	ok(raise(SIGTRAP));
	ok(raise(SIGFPE));
}

static void still_pending(int fd)
{
	sigset_t s;

	close(fd);
	ok(sigpending(&s));
	say("pending %d %d %d", sigismember(&s, SIGTRAP), sigismember(&s, SIGFPE), sigismember(&s, SIGTERM));
}

static void server(void)
{
	int l, fd;

	pend();
	l = t_listen(0);
	fd = t_accept(l);
	close(l);
	send_str(fd, "hello");
	still_pending(fd);
}

static void client(void)
{
	struct pollfd p = { .events = POLLIN };

	pend();
	p.fd = t_connect();
	must(poll(&p, 1, T_WAIT_MS) == 1);
	want_str(p.fd, "hello");
	still_pending(p.fd);
}

SOCK_ROLES(server, client)
