// SPDX-License-Identifier: MIT
/*
 * Urgent data on one host that is sent before the connection is accepted; accepted behind the library's back no octet of it is lost. Between
 * hosts, where streams have no urgent data, the same octets without urgency.
 */
#include "../sock.h"

static int urgent(void)
{
	return getenv("IW_TEST_ADDR4") ? 0 : MSG_OOB;
}

static void first(int fd)
{
	char b[4] = "";

	if (!urgent()) {
		want_str(fd, "aUb");
		return;
	}
	t_until(fd, POLLPRI);
	must(recv(fd, b, 1, MSG_OOB) == 1 && b[0] == 'U');
	must(recv(fd, b, sizeof(b), 0) == 1 && b[0] == 'a');
	must(recv(fd, b, sizeof(b), 0) == 1 && b[0] == 'b');
}

static void server(void)
{
	int l = t_listen(0), fd;

	t_sync();
	fd = t_accept(l);
	first(fd);
	send_str(fd, "x");
	t_sync();
	close(fd);
	t_sync();
	fd = (int)ok(t_sys(SYS_accept, l, NULL, NULL));
	ok(t_sys(SYS_setsockopt, fd, SOL_SOCKET, SO_OOBINLINE, &(int){ 1 }, sizeof(int)));
	want_str(fd, "aUb");
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
	close(l);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 2; i++) {
		int fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));

		ok(connect(fd, (void *)&ss, t_salen(&ss)));
		step("send", send(fd, "a", 1, 0));
		step("send", send(fd, "U", 1, urgent()));
		step("send", send(fd, "b", 1, 0));
		t_sync();
		want_str(fd, "x");
		if (!i)
			t_sync();
		close(fd);
	}
}

SOCK_ROLES(server, client)
