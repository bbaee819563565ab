// SPDX-License-Identifier: MIT
/* close() in one thread while another polls the connection: no crash, the poll ends, the peer sees the end. */
#include "../sock.h"

static int sock, ms = 300;
static _Atomic pid_t ready;

static void *in_poll(void *arg)
{
	ready = gettid();
	return (void *)(long)t_poll(sock, POLLIN, ms);
}

/* It sleeps in poll(), and will for so long that close() comes first. */
static pthread_t sleeper(void)
{
	pthread_t a;

	for (;; ms *= 2) {
		long began = t_ms();

		ready = 0;
		must(!pthread_create(&a, NULL, in_poll, NULL));
		while (!ready)
			t_nap(1);
		t_asleep(ready);
		if (t_ms() - began < ms / 2)
			return a;
		must(!pthread_join(a, NULL));
	}
}

static void server(int fd)
{
	pthread_t a;
	void *r;

	sock = fd;
	a = sleeper();
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
