// SPDX-License-Identifier: MIT
/* accept() on what is not a listener. */
#include "../sock.h"

static void server(int fd)
{
	int s = t_socket(), p[2];

	ok(pipe(p));
	step("connected", accept(fd, NULL, NULL));
	step("not listening", accept(s, NULL, NULL));
	step("pipe", accept(p[0], NULL, NULL));
	step("bad fd", accept(150, NULL, NULL));
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	want_str(fd, "x");
	step("listen on a connected socket", listen(fd, 5));
	close(fd);
}

SOCK_PAIR(server, client)
