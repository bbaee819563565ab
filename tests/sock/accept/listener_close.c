// SPDX-License-Identifier: MIT
/* The listener is closed while a connection lives: the connection goes on, a new one is refused. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0), fd = t_accept(l);

	step("close listener", close(l));
	t_sync();
	want_str(fd, "still here");
	send_str(fd, "me too");
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd, s;

	t_peer(&ss);
	fd = t_connect_to(&ss);
	t_sync();
	s = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	step("connect", connect(s, (void *)&ss, t_salen(&ss)));
	send_str(fd, "still here");
	want_str(fd, "me too");
	close(fd);
}

SOCK_ROLES(server, client)
