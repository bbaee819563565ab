// SPDX-License-Identifier: MIT
/* FIONBIO, O_NONBLOCK by fcntl, and an ioctl no socket has. */
#include "../sock.h"

static void server(int fd)
{
	int on = 1, off = 0, v;
	char b[4];

	step("FIONBIO on", ioctl(fd, FIONBIO, &on));
	say("O_NONBLOCK %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	step("recv", recv(fd, b, 4, 0));
	step("FIONBIO off", ioctl(fd, FIONBIO, &off));
	say("O_NONBLOCK %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	set_nonblock(fd, true);
	step("read", read(fd, b, 4));
	say("access mode %ld", ok(fcntl(fd, F_GETFL)) & O_ACCMODE);
	say("isatty %d %s", isatty(fd), t_errname(errno));
	v = -1;
	step("SIOCATMARK", ioctl(fd, 0x8905, &v));
	say("at mark %d", v);
	step("unknown ioctl", ioctl(fd, 0x12345678, &v));
	t_sync();
	close(fd);
}

static void client(int fd)
{
	t_sync();
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
