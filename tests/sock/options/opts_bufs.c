// SPDX-License-Identifier: MIT
/* SO_SNDBUF and SO_RCVBUF are doubled as the kernel does, and kept. */
#include "../sock.h"

static void server(int fd)
{
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	step("SO_SNDBUF", set_int(fd, SOL_SOCKET, SO_SNDBUF, 50000));
	say("%d", get_int(fd, SOL_SOCKET, SO_SNDBUF));
	step("SO_RCVBUF", set_int(fd, SOL_SOCKET, SO_RCVBUF, 60000));
	say("%d", get_int(fd, SOL_SOCKET, SO_RCVBUF));
	say("SO_SNDLOWAT %d", get_int(fd, SOL_SOCKET, SO_SNDLOWAT));
	step("set SO_SNDLOWAT", set_int(fd, SOL_SOCKET, SO_SNDLOWAT, 5));
	close(fd);
}

SOCK_PAIR(server, client)
