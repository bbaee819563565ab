// SPDX-License-Identifier: MIT
/* Receive flags alone and together: counted, peeked, discarded; what the message header says afterwards. */
#include "../sock.h"

static void text(const char *what, const char *b, ssize_t n)
{
	step(what, n);
	if (n > 0)
		say("\t%.*s", (int)n, b);
}

static void server(int fd)
{
	char b[32], ctl[64];
	struct iovec v[2] = { { b, 2 }, { b + 2, 2 } };
	struct sockaddr_storage ss;
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2, .msg_name = &ss, .msg_namelen = sizeof(ss), .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	socklen_t l = sizeof(ss);

	step("nothing", recv(fd, b, 4, MSG_DONTWAIT));
	step("nothing, length 0", recv(fd, b, 0, MSG_DONTWAIT));
	step("error queue", recv(fd, b, 4, MSG_ERRQUEUE));
	step("urgent", recv(fd, b, 1, MSG_OOB));
	t_sync();
	t_readable(fd, 16);
	step("length 0", recv(fd, b, 0, 0));
	text("peek", b, recv(fd, b, 3, MSG_PEEK));
	text("peek all", b, recv(fd, b, 5, MSG_PEEK | MSG_WAITALL));
	text("peek more than there is", b, recv(fd, b, 32, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT));
	step("discard", recv(fd, NULL, 3, MSG_TRUNC));
	step("count", recv(fd, NULL, 4, MSG_TRUNC | MSG_PEEK));
	text("recvmsg", b, recvmsg(fd, &m, MSG_CMSG_CLOEXEC));
	say("\tname %u control %zu flags %x", m.msg_namelen, m.msg_controllen, m.msg_flags);
	text("recvfrom", b, recvfrom(fd, b, 2, 0, (void *)&ss, &l));
	say("\tlength %u", l);
	step("discard the rest", recv(fd, NULL, 100, MSG_TRUNC));
	step("nothing", recv(fd, b, 4, MSG_DONTWAIT | MSG_TRUNC));
	t_sync();
	text("all of two sends", b, recv(fd, b, 8, MSG_WAITALL));
	step("discard waits for all", recv(fd, NULL, 8, MSG_WAITALL | MSG_TRUNC));
	text("end cuts it short", b, recv(fd, b, 8, MSG_WAITALL));
	step("end", recv(fd, NULL, 8, MSG_TRUNC));
	close(fd);
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "abcdefghijklmnop");
	t_sync();
	send_str(fd, "1234");
	send_str(fd, "5678");
	send_str(fd, "discard");
	send_str(fd, "!end");
	shutdown(fd, SHUT_WR);
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
