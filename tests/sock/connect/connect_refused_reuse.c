// SPDX-License-Identifier: MIT
/* After a refused connect the same socket can connect to a listener. */
#include "../sock.h"

static void server(void)
{
	struct sockaddr_storage ss;
	int l = t_bind(0, &ss), fd;

	t_put(&ss, sizeof(ss));
	t_sync();
	ok(listen(l, 5));
	t_sync();
	fd = (int)ok(accept(l, NULL, NULL));
	want_str(fd, "second try");
	send_str(fd, "heard");
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
	t_sync();
	t_sync();
	step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
	send_str(fd, "second try");
	want_str(fd, "heard");
	close(fd);
}

SOCK_ROLES(server, client)
