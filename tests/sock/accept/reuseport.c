// SPDX-License-Identifier: MIT
/* Two SO_REUSEPORT listeners on one port: every connection is served by one of them. */
#include "../sock.h"

static void server(void)
{
	struct sockaddr_storage ss;
	struct pollfd p[2];
	int n = 0;

	t_addr(0, &ss);
	for (int i = 0; i < 2; i++) {
		socklen_t l = sizeof(ss);

		p[i].fd = t_socket();
		p[i].events = POLLIN;
		ok(set_int(p[i].fd, SOL_SOCKET, SO_REUSEPORT, 1));
		ok(bind(p[i].fd, (void *)&ss, t_salen(&ss)));
		ok(getsockname(p[i].fd, (void *)&ss, &l));
		ok(listen(p[i].fd, 64));
	}
	t_put(&ss, sizeof(ss));
	while (n < 32) {
		must(poll(p, 2, T_WAIT_MS) > 0);
		for (int i = 0; i < 2; i++)
			if (p[i].revents & POLLIN) {
				int fd = t_accept(p[i].fd);

				want_str(fd, "who");
				send_str(fd, "me");
				want_eof(fd);
				close(fd);
				n++;
			}
	}
	say("served %d", n);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 32; i++) {
		int fd = t_connect_to(&ss);

		send_str(fd, "who");
		want_str(fd, "me");
		close(fd);
	}
}

SOCK_ROLES(server, client)
