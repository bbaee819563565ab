// SPDX-License-Identifier: MIT
/* Non-blocking connect: EINPROGRESS, writable, SO_ERROR 0, then EISCONN and data both ways. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "ping");
	send_str(fd, "pong");
	want_eof(fd);
	close(fd);
}

static void serve(void)
{
	int l = t_listen(0);

	server(t_accept(l));
	close(l);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd, e;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
	e = t_poll(fd, POLLOUT, T_WAIT_MS);
	say_poll("poll", e);
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	step("connect again", connect(fd, (void *)&ss, t_salen(&ss)));
	step("send", send(fd, "ping", 4, 0));
	t_until(fd, POLLIN);
	want_str(fd, "pong");
	say("still non-blocking %d", !!(ok(fcntl(fd, F_GETFL)) & O_NONBLOCK));
	close(fd);
}

SOCK_ROLES(serve, client)
