// SPDX-License-Identifier: MIT
/*
 * The connection comes to this process by SCM_RIGHTS, again and again, at a number that an eventfd had until a moment before, while another thread's
 * connections are new and come and go: it is a connection each time.
 */
#include <sys/eventfd.h>

#include "../sock.h"

#define TURNS	400
#define OCTETS	40

static _Atomic bool over;

/* Both ends of it are here. */
static void one_of_ours(int l, const struct sockaddr_storage *at)
{
	char c = 'x';
	int a = (int)ok(socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)), b;

	ok(connect(a, (const void *)at, t_salen(at)));
	b = (int)ok(accept4(l, NULL, NULL, SOCK_CLOEXEC));
	for (int i = 0; i < OCTETS; i++) {
		must(send(a, &c, 1, 0) == 1 && recv(b, &c, 1, 0) == 1);
		must(send(b, &c, 1, 0) == 1 && recv(a, &c, 1, 0) == 1);
	}
	close(a);
	close(b);
}

static void *come_and_go(void *unused)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int l = (int)ok(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

	ok(bind(l, (const void *)&in, sizeof(in)));
	ok(listen(l, 8));
	ok(getsockname(l, (void *)&at, &len));
	while (!over)
		one_of_ours(l, &at);
	close(l);
	return NULL;
}

static int received(int sock)
{
	union { char c[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } u;
	char f;
	struct iovec v = { &f, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u) };
	int fd;

	must(recvmsg(sock, &m, MSG_CMSG_CLOEXEC) == 1 && m.msg_controllen >= CMSG_LEN(sizeof(int)));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static int domain(int fd)
{
	int v = 0;
	socklen_t len = sizeof(v);

	ok(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &v, &len));
	return v;
}

static void server(int fd)
{
	int sv[2], was = domain(fd), other = 0;
	pthread_t t;
	char c;

	ok(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	must(!pthread_create(&t, NULL, come_and_go, NULL));
	for (int i = 0; i < TURNS; i++) {
		int e = (int)ok(eventfd(0, EFD_CLOEXEC)), came;

		t_pass(sv[0], fd);
		close(e);
		came = received(sv[1]);
		close(fd);
		fd = came;
		other += domain(fd) != was;
		must(recv(fd, &c, 1, 0) == 1 && send(fd, &c, 1, 0) == 1);
	}
	over = true;
	must(!pthread_join(t, NULL));
	say("%d times it was something else", other);
	close(fd);
}

static void client(int fd)
{
	char c = 'c';

	for (int i = 0; i < TURNS; i++)
		must(send(fd, &c, 1, 0) == 1 && recv(fd, &c, 1, 0) == 1);
	want_eof(fd);
	say("answered");
	close(fd);
}

SOCK_PAIR(server, client)
