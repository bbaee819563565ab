// SPDX-License-Identifier: MIT
/* After the peer's FIN: send a lot, SHUT_RD, close at once. Every octet arrives before the end, however late the peer reads. */
#include "../sock.h"

static const unsigned int total[] = { 3u << 20, 50000, 200000, 400000, 700000, 1000000, 1200000, 1500000 };

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 16; i++) {
		int fd = t_accept(l);

		want_eof(fd);
		send_pattern(fd, total[i / 2], 16384, 1);
		if (i & 1)
			ok(shutdown(fd, SHUT_RD));
		close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 16; i++) {
		int fd = t_connect_to(&ss);

		ok(shutdown(fd, SHUT_WR));
		t_nap(100);	/* everything that fits is under way by now, and both FINs with it */
		recv_pattern(fd, total[i / 2], 16384, 1);
		want_eof(fd);
		close(fd);
	}
	say("all there");
}

SOCK_ROLES(server, client)
