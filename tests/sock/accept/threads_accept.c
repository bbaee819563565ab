// SPDX-License-Identifier: MIT
/* Four threads accept on one listener while four threads connect: 80 connections, each with its data. */
#include "../sock.h"

static int lfd;
static struct sockaddr_storage ss;

static void *acceptor(void *arg)
{
	for (int i = 0; i < 20; i++) {
		int fd = t_accept(lfd);
		char b[8];

		must(recv_all(fd, b, 4) == 4);
		send_all(fd, b, 4);
		want_eof(fd);
		close(fd);
	}
	return NULL;
}

static void *connector(void *arg)
{
	for (int i = 0; i < 20; i++) {
		int fd = t_connect_to(&ss);
		char b[8];

		snprintf(b, sizeof(b), "%ld%03d", (long)arg, i);
		send_all(fd, b, 4);
		want_str(fd, b);
		close(fd);
	}
	return NULL;
}

static void four(void *(*fn)(void *))
{
	pthread_t t[4];

	for (long i = 0; i < 4; i++)
		must(!pthread_create(&t[i], NULL, fn, (void *)i));
	for (int i = 0; i < 4; i++)
		must(!pthread_join(t[i], NULL));
	say("80 done");
}

static void server(void)
{
	lfd = t_listen(0);
	four(acceptor);
}

static void client(void)
{
	t_peer(&ss);
	four(connector);
}

SOCK_ROLES(server, client)
