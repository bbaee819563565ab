// SPDX-License-Identifier: MIT
/* Clients connect and write before the server accepts: nothing is lost, first come first served. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0);

	t_sync();
	for (int i = 0; i < 5; i++) {
		char b[16], want[16];
		int fd = t_accept(l);

		snprintf(want, sizeof(want), "number %d", i);
		must(recv_all(fd, b, strlen(want)) == strlen(want));
		must(!memcmp(b, want, strlen(want)));
		send_str(fd, want);
		want_eof(fd);
		close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;
	char b[16];
	int fd[5];

	t_peer(&ss);
	for (int i = 0; i < 5; i++) {
		fd[i] = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
		ok(connect(fd[i], (void *)&ss, t_salen(&ss)));
		snprintf(b, sizeof(b), "number %d", i);
		step("send before accept", send(fd[i], b, strlen(b), 0));
	}
	t_sync();
	for (int i = 0; i < 5; i++) {
		snprintf(b, sizeof(b), "number %d", i);
		want_str(fd[i], b);
		close(fd[i]);
	}
}

SOCK_ROLES(server, client)
