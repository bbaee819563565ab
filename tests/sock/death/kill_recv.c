// SPDX-License-Identifier: MIT
/* Readers blocked at both ends get ECONNRESET within a second of a daemon's death, then the end; sends are EPIPE. */
#include "../kill.h"

static _Atomic long killed;

static void *killer(void *arg)
{
	t_nap(100);	/* the reader is most likely asleep by now; it works either way */
	killed = kill_daemon();
	return NULL;
}

static void after(int fd, long t)
{
	want_reset(fd);
	must_soon(t);
	step("recv", recv(fd, &(char){ 0 }, 1, 0));
	step("send", send(fd, "x", 1, MSG_NOSIGNAL));
	close(fd);
}

static void server(int fd)
{
	kill_ready(fd, false);
	want_str(fd, "hello");
	send_str(fd, "hello");
	t_sync();
	after(fd, t_ms() + 100);
}

static void client(int fd)
{
	pthread_t t;

	kill_ready(fd, true);
	send_str(fd, "hello");
	want_str(fd, "hello");
	t_sync();
	must(!pthread_create(&t, NULL, killer, NULL));
	after(fd, t_ms() + 100);
	must(!pthread_join(t, NULL));
}

SOCK_PAIR(server, client)
