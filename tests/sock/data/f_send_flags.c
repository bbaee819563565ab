// SPDX-License-Identifier: MIT
/* Send flags, addresses and control messages that mean nothing on a connected TCP socket. */
#include "../sock.h"

static void control(int fd, int level, int type, size_t len)
{
	union { struct cmsghdr h; char room[64]; } u = { .h = { .cmsg_len = len, .cmsg_level = level, .cmsg_type = type } };
	struct iovec v = { "z", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = CMSG_SPACE(4) };
	char what[64];

	snprintf(what, sizeof(what), "control %d %d length %zu", level, type, len);
	step(what, sendmsg(fd, &m, 0));
}

static void client(int fd)
{
	static const int flags[] = { MSG_FASTOPEN, MSG_ZEROCOPY, MSG_MORE, MSG_EOR, MSG_DONTROUTE, MSG_CONFIRM, MSG_WAITALL, MSG_PEEK, MSG_TRUNC, MSG_ERRQUEUE };
	struct sockaddr_storage ss;
	char what[32];

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		snprintf(what, sizeof(what), "flag %x", flags[i]);
		step(what, send(fd, "x", 1, flags[i]));
	}
	memset(&ss, 0, sizeof(ss));
	ss.ss_family = AF_UNIX;
	step("sendto another family", sendto(fd, "y", 1, 0, (void *)&ss, sizeof(ss)));
	step("sendto, too long", sendto(fd, "y", 1, 0, (void *)&ss, sizeof(ss) + 1));
	step("sendto, no address", sendto(fd, "y", 1, 0, NULL, 9999));
	control(fd, SOL_SOCKET, SCM_RIGHTS, CMSG_LEN(4));
	control(fd, SOL_SOCKET, SCM_CREDENTIALS, CMSG_LEN(4));
	control(fd, SOL_SOCKET, 77, CMSG_LEN(4));
	control(fd, IPPROTO_IP, 1, CMSG_LEN(4));
	control(fd, IPPROTO_TCP, 1, CMSG_LEN(4));
	control(fd, SOL_SOCKET, SCM_RIGHTS, 5);
	control(fd, SOL_SOCKET, SCM_RIGHTS, 4000);
	shutdown(fd, SHUT_WR);
	want_eof(fd);
	close(fd);
}

static void server(int fd)
{
	char b[64];

	say("octets %zu", recv_all(fd, b, sizeof(b)));
	close(fd);
}

SOCK_PAIR(server, client)
