// SPDX-License-Identifier: MIT
/* After a daemon's death the same processes make new connections, as plain TCP, without much delay. */
#include "../kill.h"

static void server(void)
{
	int l = t_listen(0), fd = t_accept(l);

	kill_ready(fd, false);
	want_str(fd, "hello");
	t_sync();
	want_reset(fd);
	close(fd);
	for (int i = 0; i < 3; i++) {
		fd = (int)ok(accept(l, NULL, NULL));
		want_str(fd, "again");
		send_str(fd, "yes");
		want_eof(fd);
		close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;
	long t;

	t_peer(&ss);
	fd = t_connect_to(&ss);
	kill_ready(fd, true);
	send_str(fd, "hello");
	kill_together(true);
	want_reset(fd);
	close(fd);
	for (int i = 0; i < 3; i++) {
		t = t_ms();
		fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
		ok(connect(fd, (void *)&ss, t_salen(&ss)));
		send_str(fd, "again");
		want_str(fd, "yes");
		must(t_ms() - t < 1500 || is_soon(t));
		close(fd);
	}
}

SOCK_ROLES(server, client)
