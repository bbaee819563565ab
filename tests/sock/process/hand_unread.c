// SPDX-License-Identifier: MIT
/*
 * A connection that has been used for a while is handed on while octets are unread: to another program, to this one once more, to a child, by
 * SCM_RIGHTS, to stdio. Whoever has it echoes them, in order, and what comes later.
 */
#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define OCTETS	3000
#define TAKEN	10	/* read before it is handed on */
#define LATER	500

enum how { PROGRAM, SELF, SELF_STDIO, PASSED, STDIO, FORK_PROGRAM, FORK_CHILD, SPAWNED, HOWS };
static const char *const names[HOWS] = { "exec", "exec of itself", "exec of itself, and stdio", "SCM_RIGHTS", "stdio", "fork and exec", "fork", "a child of a child" };

static char buf[OCTETS];

static void echo(int fd)
{
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		send_all(fd, buf, (size_t)n);
	must(!n);
}

static void run_echoer(int fd, const char *arg)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/echoer", getenv("IW_TEST_HELPER"));
	ok(dup2(fd, 0));
	if (!arg)
		ok(dup2(fd, 1));
	execl(path, "echoer", arg, (char *)NULL);
	_exit(127);
}

static void waited(pid_t p)
{
	int st;

	must(waitpid(p, &st, 0) == p && !st);
}

static void by_stdio(int fd)
{
	FILE *f = fdopen(fd, "r");
	int c;

	must(f);
	setvbuf(f, NULL, _IOFBF, 700);
	while ((c = getc(f)) != EOF) {
		char b = (char)c;

		send_all(fd, &b, 1);
	}
	fclose(f);
}

/* It has the connection for itself: does not return. */
static void one(int l, enum how how)
{
	int sv[2], fd;
	pid_t p = 0;
	char num[16];

	if (how == PASSED) {
		ok(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
		p = (pid_t)ok(fork());
		if (!p) {
			close(sv[0]);
			close(l);
			run_echoer(sv[1], "--recv");
		}
		close(sv[1]);
	}
	fd = t_accept(l);
	close(l);
	for (int i = 0; i < TURNS; i++) {
		must(recv(fd, buf, 1, 0) == 1);
		must(send(fd, buf, 1, 0) == 1);
	}
	t_sync();
	t_readable(fd, OCTETS);
	must(recv(fd, buf, TAKEN, MSG_WAITALL) == TAKEN);
	t_same(buf, TAKEN, 0, how);
	switch (how) {
	case PROGRAM:
		run_echoer(fd, NULL);
		break;
	case SELF:
	case SELF_STDIO:
		snprintf(num, sizeof(num), "%d", fd);
		setenv(how == SELF ? "IW_TEST_FD" : "IW_TEST_STDIO_FD", num, 1);
		execl("/proc/self/exe", "self", "SERVER", (char *)NULL);
		_exit(127);
	case PASSED:
		t_pass(sv[0], fd);
		close(fd);
		waited(p);
		break;
	case STDIO:
		by_stdio(fd);
		break;
	default:
		p = (pid_t)ok(fork());
		if (!p && how == FORK_PROGRAM)
			run_echoer(fd, NULL);
		if (!p && how == SPAWNED) {
			p = (pid_t)ok(fork());
			if (!p)
				run_echoer(fd, NULL);
			close(fd);
			waited(p);
			_exit(0);
		}
		if (!p) {
			echo(fd);
			_exit(0);
		}
		close(fd);
		waited(p);
	}
	_exit(0);
}

static void server(void)
{
	const char *in = getenv("IW_TEST_FD"), *by_libc = getenv("IW_TEST_STDIO_FD");
	int l;

	if (in) {
		echo(atoi(in));
		return;
	}
	if (by_libc) {
		by_stdio(atoi(by_libc));
		return;
	}
	if (!getenv("IW_TEST_HELPER"))
		exit(77);
	l = t_listen(0);
	for (int how = 0; how < HOWS; how++) {
		pid_t p = (pid_t)ok(fork());

		if (!p)
			one(l, (enum how)how);
		waited(p);
		say("%s: over", names[how]);
	}
}

static void echoed(int fd, size_t n, uint64_t pos, unsigned int how)
{
	must(recv_all(fd, buf, n) == n);
	t_same(buf, n, pos, how);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (unsigned int how = 0; how < HOWS; how++) {
		int fd = t_connect_to(&ss);

		for (int i = 0; i < TURNS; i++) {
			must(send(fd, "a", 1, 0) == 1);
			must(recv(fd, buf, 1, 0) == 1);
		}
		t_fill(buf, OCTETS, 0, how);
		for (int at = 0; at < OCTETS; at += 100)
			must(send(fd, buf + at, 100, 0) == 100);
		t_sync();
		echoed(fd, OCTETS - TAKEN, TAKEN, how);
		t_fill(buf, LATER, OCTETS, how);
		send_all(fd, buf, LATER);
		echoed(fd, LATER, OCTETS, how);
		ok(shutdown(fd, SHUT_WR));
		must(recv(fd, buf, 1, 0) == 0);
		close(fd);
		say("%s: echoed", names[how]);
	}
}

SOCK_ROLES(server, client)
