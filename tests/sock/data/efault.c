// SPDX-License-Identifier: MIT
/* Bad pointers give EFAULT and cost no data. */
#include "../sock.h"

static void *volatile nowhere = (void *)16;

static void server(int fd)
{
	char b[8];

	t_readable(fd, 4);
	step("recv to nowhere", recv(fd, nowhere, 4, 0));
	step("read to nowhere", read(fd, nowhere, 4));
	step("recv", recv(fd, b, 8, 0));
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct iovec v = { nowhere, 4 };

	step("send from nowhere", send(fd, nowhere, 4, 0));
	step("writev from nowhere", writev(fd, &v, 1));
	step("sendmsg nowhere", sendmsg(fd, nowhere, 0));
	step("send", send(fd, "good", 4, 0));
	close(fd);
}

SOCK_PAIR(server, client)
