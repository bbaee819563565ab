// SPDX-License-Identifier: MIT
/* SO_LINGER is kept; a lingering close with everything read returns soon. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "data");
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct linger lg = { 0, 0 };
	socklen_t l = sizeof(lg);
	long t0;

	ok(getsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, &l));
	say("%d %d len %u", lg.l_onoff, lg.l_linger, l);
	lg = (struct linger){ 1, 60 };
	step("set", setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	lg = (struct linger){ 0, 0 };
	ok(getsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, &l));
	say("%d %d", lg.l_onoff, lg.l_linger);
	step("short", setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, 4));
	send_str(fd, "data");
	t0 = t_ms();
	step("close", close(fd));
	must(t_ms() - t0 < 40000);
}

SOCK_PAIR(server, client)
