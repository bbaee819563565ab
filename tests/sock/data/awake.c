// SPDX-License-Identifier: MIT
/* A call that waits after many short waits: what its looks must not change. Handlers, time-outs, O_NONBLOCK, MSG_WAITALL, SO_RCVLOWAT, cancellation. */
#include <sys/resource.h>

#include "../sock.h"

#define SHORT	24	/* waits */
#define TIMES	20

static int sock, set, kind;

static void on_signal(int sig)
{
}

static void handle(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	ok(sigaction(SIGUSR1, &sa, NULL));
}

static timer_t ticks(void)
{
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec it = { { 0, 1000000L }, { 0, 100000L } };
	timer_t t;

	ok(timer_create(CLOCK_MONOTONIC, &e, &t));
	ok(timer_settime(t, 0, &it, NULL));
	return t;
}

static void short_waits(int fd)
{
	char c;

	for (int i = 0; i < SHORT; i++) {
		must(send(fd, "p", 1, 0) == 1);
		must(recv(fd, &c, 1, 0) == 1 && c == 'P');
	}
}

static void timeout(int fd, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
}

/* How often of TIMES it ended with that error, with a time-out of ms or none. */
static int ends(int fd, int err, int ms)
{
	int n = 0;
	char c;

	for (int i = 0; i < TIMES; i++) {
		timer_t t;

		short_waits(fd);
		if (ms)
			timeout(fd, ms);
		if (err == EINTR)
			t = ticks();
		n += recv(fd, &c, 1, 0) < 0 && errno == err;
		if (err == EINTR)
			ok(timer_delete(t));
		if (ms)
			timeout(fd, 0);
	}
	return n;
}

/* Asks the other end for these: at once, and once both have met. */
static void ask(int fd, const char *now, const char *later)
{
	char b[2] = { (char)strlen(now), (char)strlen(later) };

	must(send(fd, b, 2, 0) == 2);
}

/* There are octets, and room, and it does none of it. */
static void *cancelled(void *arg)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct epoll_event ev;
	char c = 'p';

	pthread_cancel(pthread_self());
	switch (kind) {
	case 0: return (void *)recv(sock, &c, 1, 0);
	case 1: return (void *)send(sock, &c, 1, 0);
	case 2: return (void *)(long)poll(&p, 1, -1);
	default: return (void *)(long)epoll_wait(set, &ev, 1, -1);
	}
}

/* What the kernel refuses at the first look it refuses. */
static void refused(int fd)
{
	struct pollfd v[100] = { { .fd = fd, .events = POLLIN } };
	struct rlimit was, few;

	for (int i = 1; i < 100; i++)
		v[i].fd = -1;
	ok(getrlimit(RLIMIT_NOFILE, &was));
	few = was;
	few.rlim_cur = 64;
	short_waits(fd);
	ok(setrlimit(RLIMIT_NOFILE, &few));
	step("poll of more than RLIMIT_NOFILE", poll(v, 100, 1000));
	ok(setrlimit(RLIMIT_NOFILE, &was));
}

static void client(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int low = 4, one = 1;
	pthread_t th;
	char b[16];
	timer_t t;
	void *r;

	ok(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	handle(0);
	say("handlers without SA_RESTART: %d", ends(fd, EINTR, 0));
	handle(SA_RESTART);
	say("SA_RESTART and a time-out: %d", ends(fd, EINTR, 5000));
	say("time-outs: %d", ends(fd, EAGAIN, 10));
	for (int i = 0; i < TIMES; i++) {
		short_waits(fd);
		t = ticks();
		ask(fd, "", "x");
		must(recv(fd, b, 0, MSG_DONTWAIT) == 0 || errno == EAGAIN);
		t_nap(2);
		t_sync();
		must(recv(fd, b, 1, 0) == 1);
		ok(timer_delete(t));
	}
	say("SA_RESTART goes on");
	set_nonblock(fd, true);
	step("O_NONBLOCK", recv(fd, b, 1, 0));
	step("O_NONBLOCK, read", read(fd, b, 1));
	set_nonblock(fd, false);
	short_waits(fd);
	ask(fd, "ab", "cd");
	step("MSG_DONTWAIT", (t_readable(fd, 2), recv(fd, b, 1, MSG_DONTWAIT)));
	step("then none", (recv(fd, b, 1, 0), recv(fd, b, 1, MSG_DONTWAIT)));
	t_sync();
	step("MSG_WAITALL", recv(fd, b, 2, MSG_WAITALL));
	short_waits(fd);
	ask(fd, "abc", "def");
	t_readable(fd, 3);
	t_sync();
	step("MSG_WAITALL, in parts", recv(fd, b, 6, MSG_WAITALL));
	short_waits(fd);
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	ask(fd, "", "abcd");	/* whole: who has taken some of them the kernel does not wake for less than as many more */
	t_sync();
	step("SO_RCVLOWAT", recv(fd, b, 8, 0));
	low = 1;
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	set = ok(epoll_create1(0));
	ok(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
	short_waits(fd);
	ask(fd, "z", "");
	t_sync();
	t_readable(fd, 1);
	sock = fd;
	for (kind = 0; kind < 4; kind++) {
		must(!pthread_create(&th, NULL, cancelled, NULL));
		must(!pthread_join(th, &r));
		say("cancelled before, %d: %s", kind, r == PTHREAD_CANCELED ? "cancelled" : "returned");
	}
	step("it is still there", recv(fd, b, 2, 0));
	refused(fd);
	close(fd);
}

static void server(int fd)
{
	int one = 1;
	char b[2];

	ok(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	while (recv(fd, b, 1, 0) == 1) {
		if (b[0] == 'p') {
			must(send(fd, "P", 1, 0) == 1);
			continue;
		}
		must(recv(fd, b + 1, 1, 0) == 1);
		must(send(fd, "......", (size_t)b[0], 0) == b[0]);
		t_sync();
		must(send(fd, "......", (size_t)b[1], 0) == b[1]);
	}
	close(fd);
}

SOCK_PAIR(server, client)
