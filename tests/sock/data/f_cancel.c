// SPDX-License-Identifier: MIT
/* Blocked calls are cancellation points, and the socket goes on working afterwards. */
#include "../sock.h"

static int sock, round_no;
static pthread_barrier_t ready;

static void *sleeper(void *arg)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct iovec v;
	char c;

	v = (struct iovec){ &c, 1 };
	pthread_barrier_wait(&ready);
	switch (round_no) {
	case 0: return (void *)recv(sock, &c, 1, 0);
	case 1: return (void *)read(sock, &c, 1);
	case 2: return (void *)readv(sock, &v, 1);
	case 3: return (void *)(long)poll(&p, 1, -1);
	default: return (void *)recv(sock, &c, 1, MSG_PEEK | MSG_WAITALL);
	}
}

static void client(int fd)
{
	pthread_t t;
	void *r;

	sock = fd;
	pthread_barrier_init(&ready, NULL, 2);
	for (round_no = 0; round_no < 5; round_no++) {
		must(!pthread_create(&t, NULL, sleeper, NULL));
		pthread_barrier_wait(&ready);
		t_nap(10);
		must(!pthread_cancel(t));
		must(!pthread_join(t, &r));
		say("%d: %s", round_no, r == PTHREAD_CANCELED ? "cancelled" : "returned");
	}
	send_str(fd, "ping");
	want_str(fd, "pong");
	close(fd);
}

static void server(int fd)
{
	want_str(fd, "ping");
	send_str(fd, "pong");
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
