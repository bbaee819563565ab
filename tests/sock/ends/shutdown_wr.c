// SPDX-License-Identifier: MIT
/* SHUT_WR: the peer reads the end, the other direction goes on; sending is EPIPE. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "question");
	want_eof(fd);
	want_eof(fd);
	say_poll("after the peer's FIN", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	t_sync();
	send_str(fd, "answer");
	step("shutdown", shutdown(fd, SHUT_WR));
	say_poll("both", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	close(fd);
}

static void client(int fd)
{
	send_str(fd, "question");
	step("shutdown", shutdown(fd, SHUT_WR));
	step("send", send(fd, "x", 1, MSG_NOSIGNAL));
	step("shutdown again", shutdown(fd, SHUT_WR));
	t_sync();
	want_str(fd, "answer");
	want_eof(fd);
	step("bad how", shutdown(fd, 7));
	close(fd);
}

SOCK_PAIR(server, client)
