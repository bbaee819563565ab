// SPDX-License-Identifier: MIT
/* The peer's process is killed: the end of stream without unread data, a reset with it. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 2; i++) {
		int fd = t_accept(l);
		pid_t p = (pid_t)ok(fork());

		if (!p) {
			send_str(fd, "hello");
			if (i)
				t_readable(fd, 3);
			else
				want_str(fd, "now");
			raise(SIGKILL);
		}
		close(fd);
		ok(waitpid(p, NULL, 0));
	}
}

static void client(void)
{
	struct sockaddr_storage ss;
	char b[8];

	t_peer(&ss);
	for (int i = 0; i < 2; i++) {
		int fd = t_connect_to(&ss);

		want_str(fd, "hello");
		send_str(fd, "now");
		step("recv", recv(fd, b, sizeof(b), 0));
		close(fd);
	}
}

SOCK_ROLES(server, client)
