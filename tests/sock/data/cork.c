// SPDX-License-Identifier: MIT
/* TCP_CORK: written in pieces, all arrives when the cork is taken out or the socket is closed. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "headerbody");
	send_str(fd, "k");
	want_str(fd, "closing");
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	step("cork", set_int(fd, IPPROTO_TCP, TCP_CORK, 1));
	say("%d", get_int(fd, IPPROTO_TCP, TCP_CORK));
	step("send", send(fd, "header", 6, 0));
	step("send", send(fd, "body", 4, 0));
	step("uncork", set_int(fd, IPPROTO_TCP, TCP_CORK, 0));
	say("%d", get_int(fd, IPPROTO_TCP, TCP_CORK));
	want_str(fd, "k");
	ok(set_int(fd, IPPROTO_TCP, TCP_CORK, 1));
	step("send", send(fd, "closing", 7, 0));
	close(fd);
}

SOCK_PAIR(server, client)
