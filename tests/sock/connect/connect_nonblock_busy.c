// SPDX-License-Identifier: MIT
/* A non-blocking connect completed by trying again instead of by waiting, and by sending at once. It may stay plain. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 2; i++) {
		int fd = (int)ok(accept(l, NULL, NULL));

		want_str(fd, "data");
		send_str(fd, "done");
		want_eof(fd);
		close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd, r;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
	while ((r = connect(fd, (void *)&ss, t_salen(&ss))) && errno == EALREADY)
		t_nap(1);
	say("connect ends with %s", r == 0 ? "0" : t_errname(errno));
	set_nonblock(fd, false);
	send_str(fd, "data");
	want_str(fd, "done");
	close(fd);

	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
	for (long end = t_ms() + T_WAIT_MS; t_ms() < end; t_nap(1)) {
		r = (int)send(fd, "data", 4, 0);
		if (r >= 0 || errno != EAGAIN)
			break;
	}
	step("send until it goes", r);
	set_nonblock(fd, false);
	want_str(fd, "done");
	close(fd);
}

SOCK_ROLES(server, client)
