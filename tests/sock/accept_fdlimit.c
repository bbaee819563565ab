// SPDX-License-Identifier: MIT
/* A server that accepts with its very last descriptor gets a connection that works; so does a client. */
#include "sock.h"

#include <sys/resource.h>

/* From now on there is room for one more fd. */
static void one_left(void)
{
	struct rlimit r;
	int fd = (int)ok(dup(0));

	close(fd);
	ok(getrlimit(RLIMIT_NOFILE, &r));
	r.rlim_cur = (rlim_t)fd + 1;
	ok(setrlimit(RLIMIT_NOFILE, &r));
}

static void server(void)
{
	int l = t_listen(0), fd;
	char b[8];

	one_left();
	fd = (int)ok(accept(l, NULL, NULL));
	step("one more", accept(l, NULL, NULL));
	want_str(fd, "ping");
	send_str(fd, "pong");
	step("end", recv(fd, b, sizeof(b), 0));
	close(fd);
	fd = (int)ok(accept(l, NULL, NULL));
	want_str(fd, "again");
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	ok(connect(fd, (void *)&ss, t_salen(&ss)));
	send_str(fd, "ping");
	want_str(fd, "pong");
	close(fd);
	one_left();
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	ok(connect(fd, (void *)&ss, t_salen(&ss)));
	send_str(fd, "again");
	want_eof(fd);
	close(fd);
}

SOCK_ROLES(server, client)
