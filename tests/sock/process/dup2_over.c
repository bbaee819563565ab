// SPDX-License-Identifier: MIT
/* dup2 over a connection closes it; its number is then just the other file. dup2 of a connection over another one. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0), fd = t_accept(l), g;

	want_str(fd, "x");
	want_eof(fd);
	close(fd);
	fd = t_accept(l);
	g = t_accept(l);
	want_eof(fd);
	want_str(g, "both");
	want_eof(g);
	close(fd);
	close(g);
}

static void client(void)
{
	struct sockaddr_storage ss, s;
	int fd, g, p[2];
	char c;

	t_peer(&ss);
	fd = t_connect_to(&ss);
	ok(pipe(p));
	send_str(fd, "x");
	step("pipe over socket", dup2(p[0], fd) == fd ? 0 : -1);
	must(write(p[1], "y", 1) == 1);
	step("read", read(fd, &c, 1));
	must(c == 'y');
	step("getpeername", getpeername(fd, (void *)&s, &(socklen_t){ sizeof(s) }));
	step("recv", recv(fd, &c, 1, 0));
	close(fd);

	fd = t_connect_to(&ss);
	g = t_connect_to(&ss);
	step("socket over socket", dup2(g, fd) == fd ? 0 : -1);
	send_str(g, "bo");
	send_str(fd, "th");
	close(g);
	close(fd);
}

SOCK_ROLES(server, client)
