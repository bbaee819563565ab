// SPDX-License-Identifier: MIT
/* After the peer's FIN: send a lot, SHUT_RD, close at once. Every octet arrives before the end, however late the peer reads. */
#include "../sock.h"

static const unsigned int total[] = { 3u << 20, 50000, 200000, 400000, 700000, 1000000, 1200000, 1500000 };

#define CONNS	16

static int conn[CONNS];

static void *answers(void *arg)
{
	int i = (int)(intptr_t)arg, fd = conn[i];

	want_eof(fd);
	send_pattern(fd, total[i / 2], 16384, 1);
	if (i & 1)
		ok(shutdown(fd, SHUT_RD));
	close(fd);
	return NULL;
}

static void server(void)
{
	pthread_t t[CONNS];
	int l = t_listen(0);

	for (int i = 0; i < CONNS; i++)
		conn[i] = t_accept(l);
	for (int i = 0; i < CONNS; i++)
		must(!pthread_create(&t[i], NULL, answers, (void *)(intptr_t)i));
	for (int i = 0; i < CONNS; i++)
		pthread_join(t[i], NULL);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < CONNS; i++)
		conn[i] = t_connect_to(&ss);
	for (int i = 0; i < CONNS; i++)
		ok(shutdown(conn[i], SHUT_WR));
	t_nap(200);	/* everything that fits is under way by now, and both FINs with it */
	for (int i = 0; i < CONNS; i++) {
		recv_pattern(conn[i], total[i / 2], 16384, 1);
		want_eof(conn[i]);
		close(conn[i]);
	}
	say("all there");
}

SOCK_ROLES(server, client)
