// SPDX-License-Identifier: MIT
/* shutdown() in one thread wakes another one blocked in recv, and one in poll. */
#include "../sock.h"

static int sock;
static _Atomic int ready;
static _Atomic pid_t tid[2];

static void *in_recv(void *arg)
{
	char c;

	tid[0] = gettid();
	ready++;
	return (void *)recv(sock, &c, 1, 0);
}

static void *in_poll(void *arg)
{
	tid[1] = gettid();
	ready++;
	must(t_poll(sock, POLLIN, T_WAIT_MS) & POLLIN);
	return NULL;
}

static void server(int fd)
{
	pthread_t a, b;
	void *r;

	sock = fd;
	must(!pthread_create(&a, NULL, in_recv, NULL));
	must(!pthread_create(&b, NULL, in_poll, NULL));
	while (ready < 2)
		t_nap(1);
	t_asleep(tid[0]);
	t_asleep(tid[1]);
	step("shutdown", shutdown(fd, SHUT_RD));
	must(!pthread_join(a, &r));
	say("recv %ld", (long)r);
	must(!pthread_join(b, NULL));
	send_str(fd, "still goes out");
	close(fd);
}

static void client(int fd)
{
	want_str(fd, "still goes out");
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
