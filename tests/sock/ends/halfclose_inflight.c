// SPDX-License-Identifier: MIT
/* Half-close with megabytes still in flight: all arrives, then the end, and the answer comes back. */
#include "../sock.h"

#define TOTAL (4u << 20)

static void server(int fd)
{
	t_sync();	/* the writer has filled what it can */
	recv_pattern(fd, TOTAL, 1000, 7);
	want_eof(fd);
	send_str(fd, "got it all");
	close(fd);
	say("done");
}

static void *writer(void *arg)
{
	int fd = *(int *)arg;

	send_pattern(fd, TOTAL, 100000, 7);
	ok(shutdown(fd, SHUT_WR));
	return NULL;
}

static void client(int fd)
{
	pthread_t t;

	must(!pthread_create(&t, NULL, writer, &fd));
	t_nap(50);
	t_sync();
	want_str(fd, "got it all");
	want_eof(fd);
	must(!pthread_join(t, NULL));
	close(fd);
	say("done");
}

SOCK_PAIR(server, client)
