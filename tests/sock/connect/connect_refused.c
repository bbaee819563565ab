// SPDX-License-Identifier: MIT
/* Nobody listens: ECONNREFUSED, blocking and non-blocking, and SO_ERROR is taken once. */
#include "../sock.h"

static void server(void)
{
	struct sockaddr_storage ss;
	int fd = t_bind(0, &ss);	/* bound, not listening: the port stays free of others */

	t_put(&ss, sizeof(ss));
	t_sync();
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd, ev;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	step("blocking connect", connect(fd, (void *)&ss, t_salen(&ss)));
	step("recv", recv(fd, &ev, 1, MSG_DONTWAIT));
	close(fd);

	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	step("non-blocking connect", connect(fd, (void *)&ss, t_salen(&ss)));
	ev = t_poll(fd, POLLIN | POLLOUT, T_WAIT_MS);
	say_poll("poll", ev);
	say("SO_ERROR %s", t_errname(get_int(fd, SOL_SOCKET, SO_ERROR)));
	say("SO_ERROR %s", t_errname(get_int(fd, SOL_SOCKET, SO_ERROR)));
	close(fd);

	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	step("non-blocking connect", connect(fd, (void *)&ss, t_salen(&ss)));
	t_until(fd, POLLHUP);
	step("connect again", connect(fd, (void *)&ss, t_salen(&ss)));
	close(fd);
	t_sync();
}

SOCK_ROLES(server, client)
