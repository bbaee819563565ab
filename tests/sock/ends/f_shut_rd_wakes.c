// SPDX-License-Identifier: MIT
/* shutdown(SHUT_RD) by one thread wakes others that sleep in recv, poll, select and epoll_wait. */
#include "../sock.h"

static int sock, round_no;
static pthread_barrier_t ready;

static void *sleeper(void *arg)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct epoll_event ev = { .events = EPOLLIN };
	fd_set r;
	char c;
	int ep = epoll_create1(0);

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, sock, &ev));
	FD_ZERO(&r);
	FD_SET(sock, &r);
	pthread_barrier_wait(&ready);
	switch (round_no) {
	case 0:
		step("recv", recv(sock, &c, 1, 0));
		break;
	case 1:
		step("poll", poll(&p, 1, T_WAIT_MS));
		break;
	case 2:
		step("select", select(sock + 1, &r, NULL, NULL, &(struct timeval){ T_WAIT_MS / 1000, 0 }));
		break;
	default:
		step("epoll_wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
	}
	close(ep);
	return NULL;
}

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 4; i++) {
		int fd = t_accept(l);

		t_sync();
		close(fd);
	}
	close(l);
}

static void client(void)
{
	struct sockaddr_storage ss;
	pthread_t t;

	t_peer(&ss);
	pthread_barrier_init(&ready, NULL, 2);
	for (round_no = 0; round_no < 4; round_no++) {
		sock = t_connect_to(&ss);
		must(!pthread_create(&t, NULL, sleeper, NULL));
		pthread_barrier_wait(&ready);
		t_nap(30);
		ok(shutdown(sock, SHUT_RD));
		pthread_join(t, NULL);
		t_sync();
		close(sock);
	}
}

SOCK_ROLES(server, client)
