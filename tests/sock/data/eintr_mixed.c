// SPDX-License-Identifier: MIT
/* The handler that ran says whether a blocked call goes on (SA_RESTART), whatever others there are; what was moved before is told in either case. */
#include "../sock.h"

int interrupts(int sig, int flag) __asm__("siginterrupt");	/* deprecated, and used */
static volatile sig_atomic_t left, few;
static timer_t first;

static void on_signal(int sig)
{
	int e = errno;

	if (left && !--left)
		t_put("s", 1);	/* the other one is to go on */
	if (few && !--few)
		timer_settime(first, 0, &(struct itimerspec){ .it_value = { 0, 0 } }, NULL);
	errno = e;
}

static void handle(int sig, int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	ok(sigaction(sig, &sa, NULL));
}

/* sig every ms, and the other role is told when it came so often; 0: never. */
static timer_t ticks(int sig, int ms, int often)
{
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig };
	struct itimerspec it = { { 0, ms * 1000000L }, { 0, ms * 1000000L } };
	timer_t t;

	left = often;
	ok(timer_create(CLOCK_MONOTONIC, &e, &t));
	ok(timer_settime(t, 0, &it, NULL));
	return t;
}

static void recv_under(const char *what, int fd, int sig, int often)
{
	timer_t t = ticks(sig, 10, often);
	char b[4];

	step(what, recv(fd, b, 1, 0));
	ok(timer_delete(t));
}

static int thread_fd;
static _Atomic pid_t tid;

static void *reader(void *what)
{
	char b[4];

	tid = gettid();
	step(what, recv(thread_fd, b, 1, 0));
	return NULL;
}

static void in_thread(int fd, void *what, int sig, int often)
{
	pthread_t t;

	thread_fd = fd;
	tid = 0;
	must(!pthread_create(&t, NULL, reader, what));
	while (!tid)
		usleep(100);
	left = often;
	t_asleep(tid);
	while (often ? left : pthread_tryjoin_np(t, NULL)) {
		pthread_kill(t, sig);
		usleep(2000);
	}
	if (often)
		must(!pthread_join(t, NULL));
}

static void server(int fd)
{
	timer_t t, u;
	char b[4];

	handle(SIGUSR1, SA_RESTART);
	handle(SIGUSR2, 0);
	recv_under("SA_RESTART", fd, SIGUSR1, 3);
	recv_under("none", fd, SIGUSR2, 0);
	first = ticks(SIGUSR1, 5, 0);
	few = 3;		/* that it goes on after; where both wait at once, the first decides, and on a slow machine they would always */
	u = ticks(SIGUSR2, 60, 0);
	step("both", recv(fd, b, 1, 0));
	few = 0;
	ok(timer_delete(first));
	ok(timer_delete(u));
	handle(SIGUSR1, 0);
	handle(SIGUSR2, SA_RESTART);
	recv_under("now none", fd, SIGUSR1, 0);
	recv_under("now SA_RESTART", fd, SIGUSR2, 3);
	must(signal(SIGUSR1, on_signal) == on_signal);
	recv_under("signal()", fd, SIGUSR1, 3);
	ok(interrupts(SIGUSR1, 1));
	recv_under("siginterrupt()", fd, SIGUSR1, 0);
	ok(interrupts(SIGUSR1, 0));
	recv_under("siginterrupt() back", fd, SIGUSR1, 3);
	handle(SIGUSR2, 0);
	in_thread(fd, "a thread, SA_RESTART", SIGUSR1, 3);
	in_thread(fd, "a thread, none", SIGUSR2, 0);
	t_sync();
	t_readable(fd, 2);
	t = ticks(SIGUSR1, 10, 0);
	step("MSG_WAITALL, SA_RESTART", recv(fd, b, 4, MSG_WAITALL));
	ok(timer_delete(t));
	t_sync();
	t_get(b, 1);
	{
		static char big[1 << 16];

		while (recv(fd, big, sizeof(big), 0) > 0)
			;
	}
	close(fd);
}

static void client(int fd)
{
	static char big[8 << 20];
	timer_t t;
	ssize_t n;

	for (int i = 0; i < 5; i++) {	/* as often as a recv of the server goes on */
		char c;

		t_get(&c, 1);
		send_str(fd, "x");
	}
	t_sync();
	send_str(fd, "yy");
	t_sync();
	handle(SIGUSR1, SA_RESTART);
	handle(SIGUSR2, 0);
	set_nonblock(fd, true);
	for (bool full = false; !full; t_nap(100))
		for (full = true; send(fd, big, sizeof(big), 0) > 0 || send(fd, big, 100, 0) > 0;)	/* where much does not fit a little may */
			full = false;
	set_nonblock(fd, false);
	t = ticks(SIGUSR2, 20, 0);
	while ((n = send(fd, big, 100, 0)) > 0)
		;	/* a switch that was under way then may have made room since, for megabytes: nobody reads, so it ends */
	step("send, none", n);
	ok(timer_delete(t));
	t = ticks(SIGUSR1, 20, 3);
	step("send, SA_RESTART", send(fd, big, 100, 0));
	ok(timer_delete(t));
	if (left)	/* there was room after all */
		t_put("s", 1);
	left = 0;
	t = ticks(SIGUSR1, 20, 0);
	n = send(fd, big, sizeof(big), 0);
	say("send of much: %s", n > 0 && n <= (ssize_t)sizeof(big) ? "ok" : "?");
	ok(timer_delete(t));
	close(fd);
}

SOCK_PAIR(server, client)
