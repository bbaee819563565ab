// SPDX-License-Identifier: MIT
/* SO_SNDTIMEO bounds a connect that nobody answers; a non-blocking one stays in progress. */
#include "../sock.h"

static void server(void)
{
	t_sync();
}

static void client(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct timeval tv = { 0, 200000 };
	const char *bh = getenv("IW_TEST_BLACKHOLE");
	long t0;
	int fd;

	t_sync();
	if (!bh)
		exit(77);
	must(inet_pton(AF_INET, bh, &a.sin_addr) == 1);
	fd = (int)ok(socket(AF_INET, SOCK_STREAM, 0));
	ok(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	t0 = t_ms();
	step("connect", connect(fd, (void *)&a, sizeof(a)));
	must(t_ms() - t0 >= 190 && t_ms() - t0 < 20000);
	close(fd);
	fd = (int)ok(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
	t0 = t_ms();
	step("non-blocking connect", connect(fd, (void *)&a, sizeof(a)));
	must(t_ms() - t0 < 20000);	/* TCP would try for two minutes */
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT, 50));
	step("connect again", connect(fd, (void *)&a, sizeof(a)));
	close(fd);
}

SOCK_ROLES(server, client)
