// SPDX-License-Identifier: MIT
/* A writer blocked on a full connection gets ECONNRESET or EPIPE within a second of a daemon's death. */
#include "../kill.h"

static _Atomic long killed;

static void *killer(void *arg)
{
	t_nap(500);	/* the writer has filled everything by now */
	killed = t_ms();
	kill_daemon();
	return NULL;
}

static void server(int fd)
{
	char c;

	kill_ready(fd, false);
	t_sync();
	t_get(&c, 1);	/* the writer has failed */
	/* what was delivered may still be read; then it is a reset and never an end */
	for (;;) {
		static char b[65536];
		ssize_t r = recv(fd, b, sizeof(b), 0);

		if (r > 0)
			continue;
		step("recv", r);
		break;
	}
	must(recv(fd, &c, 1, 0) <= 0);
	close(fd);
}

static void client(int fd)
{
	static char b[1 << 20];
	pthread_t t;
	ssize_t r;
	int e;

	kill_ready(fd, true);
	t_sync();
	must(!pthread_create(&t, NULL, killer, NULL));
	do
		r = send(fd, b, sizeof(b), MSG_NOSIGNAL);
	while (r == sizeof(b));
	if (r > 0)
		r = send(fd, b, 1, MSG_NOSIGNAL);
	e = errno;
	must(r == -1 && (e == ECONNRESET || e == EPIPE));
	must(!pthread_join(t, NULL));
	must_soon(killed);
	t_put("k", 1);
	say("failed as it should");
	close(fd);
}

SOCK_PAIR(server, client)
