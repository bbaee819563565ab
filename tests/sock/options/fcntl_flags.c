// SPDX-License-Identifier: MIT
/* Descriptor flags: FD_CLOEXEC, F_SETFL, F_GETOWN, locks that sockets do not have. */
#include "../sock.h"

static void server(int fd)
{
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	say("cloexec %ld", ok(fcntl(fd, F_GETFD)) & FD_CLOEXEC);
	ok(fcntl(fd, F_SETFD, FD_CLOEXEC));
	say("cloexec %ld", ok(fcntl(fd, F_GETFD)) & FD_CLOEXEC);
	step("F_SETOWN", fcntl(fd, F_SETOWN, getpid()));
	say("own %d", fcntl(fd, F_GETOWN) == getpid());
	step("F_GETPIPE_SZ", fcntl(fd, F_GETPIPE_SZ));
	step("unknown", fcntl(fd, 9999));
	step("bad fd", fcntl(150, F_GETFD));
	close(fd);
	step("closed", fcntl(fd, F_GETFD));
	step("close again", close(fd));
}

SOCK_PAIR(server, client)
