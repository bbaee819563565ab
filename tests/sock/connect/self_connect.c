// SPDX-License-Identifier: MIT
/* One process, one thread: connects to its own listener before it accepts. */
#include "../sock.h"

static void server(void)
{
	struct sockaddr_storage ss;
	int l = t_bind(0, &ss), c, s;

	ok(listen(l, 5));
	c = t_socket();
	step("connect", connect(c, (void *)&ss, t_salen(&ss)));
	step("send", send(c, "early", 5, 0));
	s = (int)ok(accept(l, NULL, NULL));
	want_str(s, "early");
	send_str(s, "late");
	want_str(c, "late");
	close(c);
	want_eof(s);
	close(s);
	t_sync();
}

static void client(void)
{
	t_sync();
}

SOCK_ROLES(server, client)
