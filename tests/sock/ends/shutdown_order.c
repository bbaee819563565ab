// SPDX-License-Identifier: MIT
/* Both ends half-close, in either order, and each gets the other's data first. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 2; i++) {
		int fd = t_accept(l);

		if (i) {
			send_str(fd, "server data");
			ok(shutdown(fd, SHUT_WR));
			want_str(fd, "client data");
			want_eof(fd);
		} else {
			want_str(fd, "client data");
			want_eof(fd);
			send_str(fd, "server data");
			ok(shutdown(fd, SHUT_WR));
		}
		t_sync();
		say_poll("poll", t_until(fd, POLLHUP));
		step("shutdown RD", shutdown(fd, SHUT_RD));
		close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 2; i++) {
		int fd = t_connect_to(&ss);

		if (i) {
			want_str(fd, "server data");
			want_eof(fd);
			send_str(fd, "client data");
			ok(shutdown(fd, SHUT_WR));
		} else {
			send_str(fd, "client data");
			ok(shutdown(fd, SHUT_WR));
			want_str(fd, "server data");
			want_eof(fd);
		}
		t_sync();
		close(fd);
	}
}

SOCK_ROLES(server, client)
