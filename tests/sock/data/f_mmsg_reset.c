// SPDX-License-Identifier: MIT
/* recvmmsg and sendmmsg across a reset: recvmmsg reports the error before what is queued. */
#include "../sock.h"

static void server(int fd)
{
	t_readable(fd, 6);
	send_str(fd, "queued");
	t_sync();
	close(fd);
}

static void client(int fd)
{
	char b[4][4];
	struct iovec v[4], w = { "x", 1 };
	struct mmsghdr r[4], s[2];
	int n;

	memset(r, 0, sizeof(r));
	memset(s, 0, sizeof(s));
	for (int i = 0; i < 4; i++) {
		v[i] = (struct iovec){ b[i], 4 };
		r[i].msg_hdr = (struct msghdr){ .msg_iov = &v[i], .msg_iovlen = 1 };
	}
	s[0].msg_hdr = s[1].msg_hdr = (struct msghdr){ .msg_iov = &w, .msg_iovlen = 1 };
	send_str(fd, "unread");
	t_readable(fd, 6);
	t_sync();
	t_until(fd, POLLERR | POLLHUP);
	step("recvmmsg", recvmmsg(fd, r, 4, 0, NULL));
	n = recvmmsg(fd, r, 4, 0, NULL);
	step("recvmmsg", n);
	for (int i = 0; i < n; i++)
		say("\t%u %.*s", r[i].msg_len, (int)r[i].msg_len, b[i]);
	step("sendmmsg", sendmmsg(fd, s, 2, MSG_NOSIGNAL));
	close(fd);
}

SOCK_PAIR(server, client)
