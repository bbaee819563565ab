// SPDX-License-Identifier: MIT
/* close() in one thread while another polls the connection: no crash, the poll ends, the peer sees the end. */
#include "../sock.h"

static int sock;
static _Atomic pid_t ready;

static void *in_poll(void *arg)
{
	ready = gettid();
	return (void *)(long)t_poll(sock, POLLIN, 300);
}

static void server(int fd)
{
	pthread_t a;
	void *r;

	sock = fd;
	must(!pthread_create(&a, NULL, in_poll, NULL));
	while (!ready)
		t_nap(1);
	t_asleep(ready);
	step("close", close(fd));
	must(!pthread_join(a, &r));
	say("poll %ld", (long)r);
}

static void client(int fd)
{
	want_eof(fd);
	close(fd);
	say("end seen");
}

SOCK_PAIR(server, client)
