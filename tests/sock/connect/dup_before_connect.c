// SPDX-License-Identifier: MIT
/* A socket duplicated before connect: all numbers are the same connection afterwards. */
#include "../sock.h"

static void server(void)
{
	int fd = (int)ok(accept(t_listen(0), NULL, NULL));

	want_str(fd, "onetwo");
	send_str(fd, "ab");
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd, d;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	d = (int)ok(dup(fd));
	ok(connect(fd, (void *)&ss, t_salen(&ss)));
	send_str(d, "one");
	send_str(fd, "two");
	want_str(fd, "a");
	want_str(d, "b");
	step("same peer", getpeername(d, (void *)&ss, &(socklen_t){ sizeof(ss) }));
	close(fd);
	close(d);
}

SOCK_ROLES(server, client)
