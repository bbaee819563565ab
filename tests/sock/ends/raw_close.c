// SPDX-License-Identifier: MIT
/* Who closes by syscall(), as libuv does, has closed: the other end finds the end of the stream at once, and who closes with octets unread resets it. */
#include "../sock.h"

#define TURNS	20

/* Until what moves its octets has settled. */
static int settled(int fd, bool first)
{
	char c = 'c';

	for (int i = 0; i < TURNS; i++, first = !first) {
		if (first)
			must(send(fd, &c, 1, 0) == 1);
		else
			must(recv(fd, &c, 1, 0) == 1);
	}
	return fd;
}

static void server(void)
{
	int l = t_listen(0), fd = settled(t_accept(l), false);

	want_str(fd, "all of it");
	t_sync();
	want_eof(fd);
	t_sync();	/* the client lives, and has called nothing since */
	close(fd);

	fd = settled(t_accept(l), false);
	send_str(fd, "unread");
	t_sync();
	t_until(fd, POLLHUP);
	say("error %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	t_sync();
	close(fd);

	fd = settled(t_accept(l), false);
	t_sync();
	want_eof(fd);
	t_sync();
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd, two;

	t_peer(&ss);
	fd = settled(t_connect_to(&ss), true);

	send_str(fd, "all of it");
	t_sync();
	step("close", syscall(SYS_close, fd));
	t_sync();
	step("closed", syscall(SYS_close, fd));

	fd = settled(t_connect_to(&ss), true);
	t_readable(fd, 6);
	t_sync();
	step("close with octets unread", syscall(SYS_close, fd));
	t_sync();

	fd = settled(t_connect_to(&ss), true);
	two = (int)ok(syscall(SYS_dup, fd));
	step("close", syscall(SYS_close, fd));
	t_sync();
	step("close_range", syscall(SYS_close_range, two, two, 0));
	t_sync();
}

SOCK_ROLES(server, client)
