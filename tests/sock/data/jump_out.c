// SPDX-License-Identifier: MIT
/*
 * A handler leaves a blocked recv, send or poll by siglongjmp, or the thread is cancelled in it: the connection goes on as if the call had never
 * begun, but for what send took, and a close afterwards is one. A jump inside a handler disturbs nothing.
 */
#include <setjmp.h>

#include "../sock.h"

static __thread sigjmp_buf out;
static __thread jmp_buf plain;
static volatile sig_atomic_t how;
static pid_t tid;
static int fd_;

static void on_alarm(int sig)
{
	sigjmp_buf here;

	switch (how) {
	case 0:
		siglongjmp(out, 1);
	case 1:
		longjmp(plain, 1);
	case 2:
		_longjmp(plain, 1);
	default:
		if (!sigsetjmp(here, 1))
			siglongjmp(here, 1);
		t_put("s", 1);	/* the other one is to go on */
	}
}

static void after(int ms, int h)
{
	struct itimerval it = { { 0, 0 }, { 0, ms * 1000 } };

	how = h;
	ok(setitimer(ITIMER_REAL, &it, NULL));
}

static void leave_recv(const char *what, int h)
{
	sigset_t none;
	char c;

	if (!sigsetjmp(out, 1) && !setjmp(plain)) {
		after(20, h);
		step("recv", recv(fd_, &c, 1, 0));
	} else {
		say("%s", what);
	}
	sigemptyset(&none);
	ok(sigprocmask(SIG_SETMASK, &none, NULL));
}

static void leave_poll(void)
{
	struct pollfd p = { .fd = fd_, .events = POLLIN };

	if (!sigsetjmp(out, 1)) {
		after(20, 0);
		step("poll", poll(&p, 1, -1));
	} else {
		say("poll was left");
	}
}

static void *polls(void *unused)
{
	struct pollfd p = { .fd = fd_, .events = POLLIN };

	__atomic_store_n(&tid, gettid(), __ATOMIC_SEQ_CST);
	step("poll", poll(&p, 1, -1));
	return NULL;
}

static void *reads(void *unused)
{
	char c;

	__atomic_store_n(&tid, gettid(), __ATOMIC_SEQ_CST);
	step("read", read(fd_, &c, 1));
	return NULL;
}

static void *reads_and_jumps(void *unused)
{
	char c;

	if (!sigsetjmp(out, 1)) {
		__atomic_store_n(&tid, gettid(), __ATOMIC_SEQ_CST);
		step("read", read(fd_, &c, 1));
	}
	return NULL;
}

static void in_thread(const char *what, void *(*fn)(void *), bool cancel)
{
	pthread_t t;

	how = 0;
	__atomic_store_n(&tid, 0, __ATOMIC_SEQ_CST);
	must(!pthread_create(&t, NULL, fn, NULL));
	while (!__atomic_load_n(&tid, __ATOMIC_SEQ_CST))
		usleep(100);
	t_asleep(tid);
	must(!(cancel ? pthread_cancel(t) : pthread_kill(t, SIGALRM)));
	must(!pthread_join(t, NULL));
	say("%s", what);
}

static void server(int fd)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	char c;

	fd_ = fd;
	ok(sigaction(SIGALRM, &sa, NULL));
	leave_recv("recv was left", 0);
	leave_recv("recv was left by longjmp", 1);
	leave_recv("recv was left by _longjmp", 2);
	t_put("s", 1);
	want_str(fd, "x");
	after(20, 3);
	step("recv goes on", recv(fd, &c, 1, 0));
	in_thread("a thread left read", reads_and_jumps, false);
	leave_poll();
	in_thread("poll was cancelled", polls, true);
	in_thread("read was cancelled", reads, true);
	t_put("s", 1);
	want_str(fd, "x");
	leave_poll();
	leave_recv("recv was left", 0);
	close(fd);
	t_sync();
}

static void client(int fd)
{
	char c;

	for (int i = 0; i < 3; i++) {
		t_get(&c, 1);
		send_str(fd, "x");
	}
	want_eof(fd);
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
