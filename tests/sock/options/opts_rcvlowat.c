// SPDX-License-Identifier: MIT
/* SO_RCVLOWAT: poll and recv wait for that many octets. */
#include "../sock.h"

static void server(int fd)
{
	char b[16];

	step("SO_RCVLOWAT", set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 6));
	say("%d", get_int(fd, SOL_SOCKET, SO_RCVLOWAT));
	t_sync();
	t_readable(fd, 3);
	say_poll("poll with 3", t_poll(fd, POLLIN, 20));
	t_sync();
	t_readable(fd, 6);
	say_poll("poll with 6", t_poll(fd, POLLIN, T_WAIT_MS));
	step("recv", recv(fd, b, 16, 0));
	close(fd);
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "abc");
	t_sync();
	send_str(fd, "def");
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
