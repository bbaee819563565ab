// SPDX-License-Identifier: MIT
/* Eight threads write one connection, four read it: no octet is lost or doubled. */
#include "../sock.h"

#define PER (1u << 18)

static int sock;

static void *writer(void *arg)
{
	char b[64];

	memset(b, (int)(long)arg, sizeof(b));
	for (unsigned int i = 0; i < PER / sizeof(b); i++)
		send_all(sock, b, sizeof(b));
	return NULL;
}

static _Atomic unsigned int count[8];

static void *reader(void *arg)
{
	uint8_t b[1000];
	ssize_t n;

	while ((n = recv(sock, b, sizeof(b), 0)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			must(b[i] < 8);
			count[b[i]]++;
		}
	must(n == 0);
	return NULL;
}

static void server(int fd)
{
	pthread_t t[4];

	sock = fd;
	for (long i = 0; i < 4; i++)
		must(!pthread_create(&t[i], NULL, reader, NULL));
	for (int i = 0; i < 4; i++)
		must(!pthread_join(t[i], NULL));
	for (int i = 0; i < 8; i++)
		say("%d: %u", i, count[i]);
	close(fd);
}

static void client(int fd)
{
	pthread_t t[8];

	sock = fd;
	for (long i = 0; i < 8; i++)
		must(!pthread_create(&t[i], NULL, writer, (void *)i));
	for (int i = 0; i < 8; i++)
		must(!pthread_join(t[i], NULL));
	ok(shutdown(fd, SHUT_WR));
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
