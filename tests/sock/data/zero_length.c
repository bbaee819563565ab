// SPDX-License-Identifier: MIT
/* Operations of length zero are neither data nor end of stream. */
#include "../sock.h"

static void server(int fd)
{
	char b[8];

	t_sync();
	step("recv after empty sends", recv(fd, b, 8, MSG_DONTWAIT));
	say_poll("poll", t_poll(fd, POLLIN, 50));
	t_sync();
	t_readable(fd, 1);
	step("recv 0", recv(fd, b, 0, 0));
	step("read 0", read(fd, b, 0));
	step("recv", recv(fd, b, 8, 0));
	t_sync();
	want_eof(fd);
	step("recv 0 at the end", recv(fd, b, 0, 0));
	close(fd);
}

static void client(int fd)
{
	struct iovec v = { NULL, 0 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	step("send 0", send(fd, "", 0, 0));
	step("write 0", write(fd, "", 0));
	step("writev 0", writev(fd, &v, 1));
	step("sendmsg 0", sendmsg(fd, &m, 0));
	t_sync();
	t_sync();
	send_str(fd, "x");
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
