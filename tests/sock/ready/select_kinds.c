// SPDX-License-Identifier: MIT
/* select() with a connection among other fds: what is asked of each, time left, sets after an error, bad descriptors, high numbers. */
#include <sys/resource.h>

#include "../sock.h"

static int pipes[2];

static const char *sets(fd_set *s, int n, int conn)
{
	static char text[3][200];
	static int i;
	char *p = text[i = (i + 1) % 3];

	*p = 0;
	for (int fd = 0; fd < n; fd++)
		if (FD_ISSET(fd, s))
			strcat(p, fd == conn ? " conn" : fd == pipes[0] ? " pipe" : " other");
	return p;
}

/* Asked: the connection in the sets named by letters, the pipe for reading. */
static void sel(const char *what, const char *in, int fd, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	int n = (fd > pipes[0] ? fd : pipes[0]) + 1, rc;
	fd_set s[3];

	for (int i = 0; i < 3; i++)
		FD_ZERO(&s[i]);
	FD_SET(pipes[0], &s[0]);
	for (int i = 0; i < 3; i++)
		if (strchr(in, "rwe"[i]))
			FD_SET(fd, &s[i]);
	rc = select(n, &s[0], &s[1], &s[2], &tv);
	say("%s: %d r%s w%s e%s, time %s", what, rc, sets(&s[0], n, fd), sets(&s[1], n, fd), sets(&s[2], n, fd),
	    tv.tv_sec * 1000 + tv.tv_usec / 1000 > ms / 2 ? "left" : tv.tv_sec || tv.tv_usec ? "hardly left" : "over");
}

static void on_alarm(int sig)
{
}

static void interrupted(int fd)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct timeval tv = { 50, 0 };
	struct timespec ts = { 50, 0 };
	sigset_t blocked, none;
	fd_set r;

	sigaction(SIGALRM, &sa, NULL);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	ualarm(20000, 20000);
	step("interrupted", select(fd + 1, &r, NULL, NULL, &tv));
	ualarm(0, 0);
	say("set kept %d", FD_ISSET(fd, &r) != 0);
	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGALRM);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	raise(SIGALRM);
	step("pselect lets it in", pselect(fd + 1, &r, NULL, NULL, &ts, &none));
	raise(SIGALRM);
	ts.tv_sec = 0;
	step("and not", pselect(fd + 1, &r, NULL, NULL, &ts, NULL));
	sigprocmask(SIG_SETMASK, &none, NULL);
	ts.tv_nsec = 1000000000;
	step("bad time", pselect(fd + 1, &r, NULL, NULL, &ts, NULL));
	tv = (struct timeval){ 0, -1 };
	step("bad time", select(fd + 1, &r, NULL, NULL, &tv));
}

static void bad(int fd)
{
	int gone = dup(fd);
	struct timeval tv = { 0, 0 };
	fd_set r, w;

	close(gone);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(gone, &r);
	FD_SET(fd, &w);
	step("bad fd beside a ready one", select(gone + 1, &r, &w, NULL, &tv));
	say("sets kept %d %d", FD_ISSET(gone, &r) != 0, FD_ISSET(fd, &w) != 0);
	step("not looked at", select(fd + 1, NULL, &w, NULL, &tv));
	step("none", select(-1, &r, &w, NULL, &tv));
}

/* More than FD_SETSIZE, in sets of the program's own. */
static void high(int fd)
{
	size_t size = 8192 / 8;
	fd_set *r = calloc(3, size), *w = (fd_set *)((char *)r + size), *e = (fd_set *)((char *)w + size);
	struct timeval tv = { 0, 0 };
	int up = fcntl(fd, F_DUPFD, 5000), low = fcntl(fd, F_DUPFD, 1500);

	must(up >= 0 && low >= 0 && r);
	((uint64_t *)r)[up / 64] |= 1ull << (up % 64);
	((uint64_t *)w)[up / 64] |= 1ull << (up % 64);
	((uint64_t *)w)[low / 64] |= 1ull << (low % 64);
	step("high numbers", select(up + 1, r, w, e, &tv));
	say("r %d w %d %d", (int)(((uint64_t *)r)[up / 64] >> (up % 64) & 1), (int)(((uint64_t *)w)[up / 64] >> (up % 64) & 1),
	    (int)(((uint64_t *)w)[low / 64] >> (low % 64) & 1));
	close(up);
	close(low);
	free(r);
}

static void server(int fd)
{
	struct rlimit rl = { 8192, 8192 };
	int low = 4;

	setrlimit(RLIMIT_NOFILE, &rl);
	must(!pipe(pipes));
	sel("nothing for reading", "r", fd, 10);
	sel("writable", "rw", fd, 60000);
	sel("exceptional", "e", fd, 10);
	interrupted(fd);
	bad(fd);
	high(fd);
	must(write(pipes[1], "x", 1) == 1);
	sel("the pipe", "re", fd, 60000);
	sel("both", "rwe", fd, 60000);
	t_sync();
	t_readable(fd, 3);
	sel("three octets", "r", fd, 0);
	must(!setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	sel("fewer than the low-water mark", "r", fd, 0);
	t_sync();
	t_until(fd, POLLRDHUP);
	sel("the end", "r", fd, 60000);
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "abc");
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
