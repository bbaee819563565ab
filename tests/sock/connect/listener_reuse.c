// SPDX-License-Identifier: MIT
/* A listener is closed and opened again on the same port; both generations serve. */
#include "../sock.h"

static void server(void)
{
	struct sockaddr_storage ss;
	int l = t_bind(0, &ss), fd;

	for (int i = 0; i < 3; i++) {
		if (i) {
			l = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
			ok(set_int(l, SOL_SOCKET, SO_REUSEADDR, 1));
			ok(bind(l, (void *)&ss, t_salen(&ss)));
		} else {
			ok(set_int(l, SOL_SOCKET, SO_REUSEADDR, 1));
		}
		ok(listen(l, 5));
		t_put(&ss, sizeof(ss));
		fd = t_accept(l);
		close(l);
		want_str(fd, "x");
		want_eof(fd);
		close(fd);
		t_sync();
	}
}

static void client(void)
{
	for (int i = 0; i < 3; i++) {
		int fd = t_connect();

		send_str(fd, "x");
		close(fd);
		t_sync();
		say("served %d", i);
	}
}

SOCK_ROLES(server, client)
