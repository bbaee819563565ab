// SPDX-License-Identifier: MIT
/* 300 short connections one after the other, each with a request, an answer and a close. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 300; i++) {
		int fd = t_accept(l);

		want_str(fd, "GET");
		send_str(fd, "200 OK");
		close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 300; i++) {
		int fd = t_connect_to(&ss);

		send_str(fd, "GET");
		want_str(fd, "200 OK");
		want_eof(fd);
		close(fd);
	}
	say("300 done");
}

SOCK_ROLES(server, client)
