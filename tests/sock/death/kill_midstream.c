// SPDX-License-Identifier: MIT
/* A bulk transfer cut by a daemon's death: what arrives is a true beginning, and the cut is never an end of stream. */
#include "../kill.h"

static void server(int fd)
{
	static uint8_t b[65536];
	uint64_t pos = 0;
	ssize_t r;

	kill_ready(fd, false);
	for (;;) {
		r = recv(fd, b, sizeof(b), 0);
		if (r <= 0)
			break;
		t_same(b, (size_t)r, pos, 1);
		pos += (uint64_t)r;
		if (pos > (4u << 20) && pos - (uint64_t)r <= (4u << 20))
			t_put("k", 1);
	}
	if (r == 0)
		t_fail(__FILE__, __LINE__, "end of stream instead of a reset");
	step("recv", r);
	close(fd);
}

static void *killer(void *arg)
{
	char c;

	t_get(&c, 1);
	kill_daemon();
	return NULL;
}

static void client(int fd)
{
	static uint8_t b[65536];
	pthread_t t;
	uint64_t pos = 0;

	kill_ready(fd, true);
	must(!pthread_create(&t, NULL, killer, NULL));
	for (;;) {
		ssize_t r;

		t_fill(b, sizeof(b), pos, 1);
		r = send(fd, b, sizeof(b), MSG_NOSIGNAL);
		if (r < 0)
			break;
		pos += (uint64_t)r;
	}
	must(errno == ECONNRESET || errno == EPIPE);
	must(!pthread_join(t, NULL));
	close(fd);
}

SOCK_PAIR(server, client)
