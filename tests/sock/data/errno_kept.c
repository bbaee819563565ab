// SPDX-License-Identifier: MIT
/* A call that succeeds leaves errno alone: at the ends of a stream, too, where something failed below. */
#include "../sock.h"

#define BEFORE	ENOTUNIQ	/* which none of these gives */

#define kept(e) \
	do { \
		long n_; \
		errno = BEFORE; \
		n_ = (e); \
		say("%s: %ld, errno %s", #e, n_, n_ < 0 ? "of the failure" : errno == BEFORE ? "as before" : strerror(errno)); \
	} while (0)

static char b[4096];
static struct iovec v[2] = { { b, 100 }, { b + 100, 100 } };
static struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

/* Long enough to be switched, at both ends. */
static void talk(int fd)
{
	for (int i = 0; i < 30; i++) {
		send_str(fd, "begin");
		want_str(fd, "begun");
	}
}

static void answer(int fd)
{
	for (int i = 0; i < 30; i++) {
		want_str(fd, "begin");
		send_str(fd, "begun");
	}
}

/* The other end has closed: one send goes, then none. */
static void closed(int fd)
{
	t_sync();
	t_readable(fd, 0);
	kept(recv(fd, b, 10, MSG_PEEK));
	kept(read(fd, b, 10));
	kept(recvmsg(fd, &m, 0));
	kept(send(fd, b, 24, MSG_NOSIGNAL));
}

/* It takes no more, and says nothing: what is sent is lost. */
static void shut(int fd)
{
	t_sync();
	for (int i = 0; i < 3; i++) {
		kept(write(fd, b, 100));
		kept(writev(fd, v, 2));
		kept(sendmsg(fd, &m, 0));
		kept(send(fd, b, 10, 0));
	}
	t_sync();
}

/* Nothing is asked for, and the time is over. */
static void nothing(int fd)
{
	struct timeval tv = { 0, 20000 };

	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	kept(recv(fd, b, 0, 0));
	kept(read(fd, b, 0));
	kept(send(fd, b, 0, 0));
	tv.tv_usec = 0;
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	t_sync();
	want_str(fd, "octets");
	t_sync();
}

static void server(int fd)
{
	int l = t_listen(0), c;

	talk(fd);
	nothing(fd);
	close(fd);
	c = t_accept(l);
	talk(c);
	shut(c);
	close(c);
	c = t_accept(l);
	talk(c);
	closed(c);
	close(c);
	close(l);
}

static void client(int fd)
{
	struct sockaddr_storage ss;
	int c;

	t_peer(&ss);
	answer(fd);
	t_sync();
	send_str(fd, "octets");
	t_sync();
	close(fd);
	c = t_connect_to(&ss);
	answer(c);
	ok(shutdown(c, SHUT_RD));
	t_sync();
	t_sync();
	close(c);
	c = t_connect_to(&ss);
	answer(c);
	close(c);
	t_sync();
}

SOCK_PAIR(server, client)
