// SPDX-License-Identifier: MIT
/* A client that connects with its very last descriptor gets a connection that works, and later ones are as ever; so does a server. */
#include "../sock.h"

#include <sys/resource.h>

static struct rlimit before;

/* From now on there is room for one more fd. */
static void one_left(void)
{
	struct rlimit r;
	int fd = (int)ok(dup(0));

	close(fd);
	ok(getrlimit(RLIMIT_NOFILE, &before));
	r = before;
	r.rlim_cur = (rlim_t)fd + 1;
	ok(setrlimit(RLIMIT_NOFILE, &r));
}

static void server(void)
{
	int l = t_listen(0), fd;
	char b[8];

	fd = t_accept(l);
	want_str(fd, "first");
	close(fd);
	fd = (int)ok(accept(l, NULL, NULL));
	want_str(fd, "last fd");
	close(fd);
	fd = t_accept(l);
	want_str(fd, "as ever");
	close(fd);
	one_left();
	t_sync();
	fd = (int)ok(accept(l, NULL, NULL));
	step("one more", accept(l, NULL, NULL));
	want_str(fd, "ping");
	send_str(fd, "pong");
	step("end", recv(fd, b, sizeof(b), 0));
	close(fd);
}

static int start(const struct sockaddr_storage *ss)
{
	int fd = (int)ok(socket(ss->ss_family, SOCK_STREAM, 0));

	ok(connect(fd, (const void *)ss, t_salen(ss)));
	return fd;
}

static void end(int fd, const char *s)
{
	send_str(fd, s);
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	end(t_connect_to(&ss), "first");
	one_left();
	end(start(&ss), "last fd");
	ok(setrlimit(RLIMIT_NOFILE, &before));
	end(t_connect_to(&ss), "as ever");
	t_sync();
	fd = start(&ss);
	send_str(fd, "ping");
	want_str(fd, "pong");
	close(fd);
}

SOCK_ROLES(server, client)
