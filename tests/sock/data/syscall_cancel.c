// SPDX-License-Identifier: MIT
/* A thread that is cancelled in syscall() has its answer first: no such call is a cancellation point. */
#include <stdatomic.h>

#include "../sock.h"

#define TURNS	20

static int conn;
static long got, polled;
static char octets[8];
static atomic_int tid;

static void *reader(void *arg)
{
	struct pollfd p = { .fd = conn, .events = POLLIN };

	(void)arg;
	tid = (int)t_sys(SYS_gettid);
	polled = syscall(SYS_ppoll, &p, 1, NULL, NULL, 0L);
	got = syscall(SYS_read, conn, octets, sizeof(octets));
	pthread_testcancel();
	say("not cancelled");
	return NULL;
}

static void server(int fd)
{
	for (int i = 0; i < TURNS; i++) {
		want_str(fd, "ask");
		send_str(fd, "answer");
	}
	t_sync();
	send_str(fd, "late");
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	pthread_t t;
	void *r;

	for (int i = 0; i < TURNS; i++) {
		send_str(fd, "ask");
		want_str(fd, "answer");
	}
	conn = fd;
	ok(-pthread_create(&t, NULL, reader, NULL));
	while (!tid)
		t_nap(1);
	t_asleep(tid);
	ok(-pthread_cancel(t));
	t_sync();
	ok(-pthread_join(t, &r));
	say("polled %ld read %ld %.4s, %s", polled, got, octets, r == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
	close(fd);
}

SOCK_PAIR(server, client)
