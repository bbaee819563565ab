// SPDX-License-Identifier: MIT
/* poll sleeps until SO_RCVLOWAT octets are there, woken by the later ones; or until the stream ends. */
#include "../sock.h"

static void server(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = 0;
	char b[16];

	ok(set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 9));
	t_sync();
	step("poll", poll(&p, 1, T_WAIT_MS));
	ok(ioctl(fd, FIONREAD, &n));
	say("there are %d", n);
	ok(recv(fd, b, 9, 0));
	t_sync();
	step("poll", poll(&p, 1, T_WAIT_MS));
	ok(ioctl(fd, FIONREAD, &n));
	say("there are %d", n);
	step("recv", recv(fd, b, 9, 0));
	step("recv", recv(fd, b, 9, 0));
	close(fd);
}

static void client(int fd)
{
	t_sync();
	for (int i = 0; i < 3; i++) {
		t_nap(20);
		send_str(fd, "abc");
	}
	t_sync();
	send_str(fd, "few");
	t_nap(20);
	shutdown(fd, SHUT_WR);
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
