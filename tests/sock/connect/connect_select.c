// SPDX-License-Identifier: MIT
/* Non-blocking connect awaited by select() and pselect(). */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 2; i++) {
		int fd = t_accept(l);

		send_str(fd, "hi");
		want_eof(fd);
		close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;
	struct timeval tv;
	struct timespec ts;
	fd_set w, r;
	int fd, n;

	t_peer(&ss);
	for (int i = 0; i < 2; i++) {
		fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
		step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
		FD_ZERO(&w);
		FD_SET(fd, &w);
		tv = (struct timeval){ 10, 0 };
		ts = (struct timespec){ 10, 0 };
		n = i ? pselect(fd + 1, NULL, &w, NULL, &ts, NULL) : select(fd + 1, NULL, &w, NULL, &tv);
		say("select %d, writable %d, SO_ERROR %d", n, !!FD_ISSET(fd, &w), get_int(fd, SOL_SOCKET, SO_ERROR));
		FD_ZERO(&r);
		FD_SET(fd, &r);
		tv = (struct timeval){ 10, 0 };
		n = select(fd + 1, &r, NULL, NULL, &tv);
		say("select %d, readable %d", n, !!FD_ISSET(fd, &r));
		want_str(fd, "hi");
		close(fd);
	}
}

SOCK_ROLES(server, client)
