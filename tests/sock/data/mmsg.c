// SPDX-License-Identifier: MIT
/* sendmmsg and recvmmsg on a stream. */
#include "../sock.h"

static void server(int fd)
{
	char b[3][4];
	struct iovec v[3];
	struct mmsghdr m[3];
	struct timespec ts = { 0, 50000000 };

	memset(m, 0, sizeof(m));
	for (int i = 0; i < 3; i++) {
		v[i] = (struct iovec){ b[i], 4 };
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	t_readable(fd, 12);
	step("recvmmsg", recvmmsg(fd, m, 3, 0, NULL));
	for (int i = 0; i < 3; i++)
		say("message %d: %u %.4s", i, m[i].msg_len, b[i]);
	step("recvmmsg dontwait", recvmmsg(fd, m, 3, MSG_DONTWAIT, &ts));
	t_sync();
	t_readable(fd, 4);
	step("recvmmsg waitforone", recvmmsg(fd, m, 3, MSG_WAITFORONE, NULL));
	t_sync();
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct iovec v[3] = { { (char *)"aaaa", 4 }, { (char *)"bbbb", 4 }, { (char *)"cccc", 4 } };
	struct mmsghdr m[3];

	memset(m, 0, sizeof(m));
	for (int i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	step("sendmmsg", sendmmsg(fd, m, 3, 0));
	say("lengths %u %u %u", m[0].msg_len, m[1].msg_len, m[2].msg_len);
	t_sync();
	send_str(fd, "dddd");
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
