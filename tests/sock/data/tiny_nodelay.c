// SPDX-License-Identifier: MIT
/* 2000 one-octet round trips with TCP_NODELAY, then 20,000 one-octet writes read as they come. */
#include "../sock.h"

static void server(int fd)
{
	uint8_t c;

	ok(set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1));
	for (int i = 0; i < 2000; i++) {
		must(recv(fd, &c, 1, 0) == 1 && c == (uint8_t)i);
		c++;
		must(send(fd, &c, 1, 0) == 1);
	}
	recv_pattern(fd, 20000, 333, 9);
	send_str(fd, "done");
	want_eof(fd);
	close(fd);
	say("done");
}

static void client(int fd)
{
	uint8_t c;

	ok(set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1));
	for (int i = 0; i < 2000; i++) {
		c = (uint8_t)i;
		must(send(fd, &c, 1, 0) == 1);
		must(recv(fd, &c, 1, 0) == 1 && c == (uint8_t)(i + 1));
	}
	send_pattern(fd, 20000, 1, 9);
	want_str(fd, "done");
	close(fd);
	say("done");
}

SOCK_PAIR(server, client)
