// SPDX-License-Identifier: MIT
/* close_range closes and marks connections like everything else. */
#include "../sock.h"

#include <linux/close_range.h>

static void server(void)
{
	int l = t_listen(0), a = t_accept(l), b = t_accept(l);

	want_str(a, "1");
	want_eof(a);
	want_str(b, "2");
	send_str(b, "alive");
	want_eof(b);
	close(a);
	close(b);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int a, b;

	t_peer(&ss);
	a = t_connect_to(&ss);
	b = t_connect_to(&ss);
	ok(dup2(a, 70));
	ok(dup2(b, 80));
	close(a);
	close(b);
	send_str(70, "1");
	send_str(80, "2");
	step("close_range", close_range(65, 75, 0));
	step("closed", send(70, "x", 1, MSG_NOSIGNAL));
	step("close_range cloexec", close_range(76, 85, CLOSE_RANGE_CLOEXEC));
	say("cloexec %ld", ok(fcntl(80, F_GETFD)));
	want_str(80, "alive");
	close(80);
}

SOCK_ROLES(server, client)
