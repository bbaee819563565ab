// SPDX-License-Identifier: MIT
/* Threads with the smallest stack there is make every kind of call, and have their connections upgraded: what a call needs of the stack is little. */
#include <limits.h>
#include <sys/sendfile.h>

#include "../sock.h"

#define ROUNDS	24
#define BIG	(48u << 10)

static int sock_;
static char *big;

/* Not on the stack. */
static char small[64], piece[4096];
static struct pollfd p;
static struct epoll_event ev;
static fd_set set;
static struct iovec v[2] = { { small, 4 }, { small + 4, 4 } };
static struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
static struct mmsghdr mm[2];
static int set_, file;

static void calls(int round)
{
	struct timeval tv = { 60, 0 };
	off_t at = 0;

	p = (struct pollfd){ .fd = sock_, .events = POLLIN };
	switch (round % 6) {
	case 0:
		must(poll(&p, 1, T_WAIT_MS) == 1);
		break;
	case 1:
		FD_ZERO(&set);
		FD_SET(sock_, &set);
		must(select(sock_ + 1, &set, NULL, NULL, &tv) == 1);
		break;
	case 2:
		must(epoll_wait(set_, &ev, 1, T_WAIT_MS) == 1);
		break;
	default:
		break;
	}
	switch (round % 4) {
	case 0:
		must(recv(sock_, small, 8, MSG_WAITALL) == 8);
		break;
	case 1:
		must(recv(sock_, NULL, 8, MSG_TRUNC | MSG_WAITALL) == 8);
		break;
	case 2:
		must(recvmsg(sock_, &m, MSG_WAITALL) == 8);
		break;
	default:
		mm[0].msg_hdr = mm[1].msg_hdr = m;
		must(recvmmsg(sock_, mm, 1, MSG_WAITALL, NULL) == 1);
	}
	t_same(small, round % 4 == 1 ? 0 : 8, 0, 1);
	switch (round % 5) {
	case 0:
		must(send(sock_, small, 8, 0) == 8);
		break;
	case 1:
		must(sendmsg(sock_, &m, 0) == 8);
		break;
	case 2:
		must(sendfile(sock_, file, &at, 8) == 8);
		break;
	case 3:
		must(sendmmsg(sock_, mm, 1, 0) == 1);
		break;
	default:
		must(write(sock_, small, 8) == 8);
	}
}

static void *thread(void *unused)
{
	struct sockaddr_storage *ss = (void *)piece;
	socklen_t l = sizeof(*ss);
	off_t at = 0;

	for (int i = 0; i < ROUNDS; i++) {
		mm[0].msg_hdr = m;
		calls(i);
	}
	for (size_t n = 0; n < BIG;)
		n += (size_t)ok(sendfile(sock_, file, &at, BIG - n));
	for (size_t n = 0; n < BIG;)
		n += (size_t)ok(recv(sock_, piece, BIG - n < sizeof(piece) ? BIG - n : sizeof(piece), MSG_TRUNC));
	ok(getpeername(sock_, (void *)ss, &l));
	must(set_int(sock_, IPPROTO_TCP, TCP_NODELAY, 1) == 0);
	must(set_int(sock_, IPPROTO_TCP, TCP_KEEPIDLE, 7) == 0);
	must(get_int(sock_, IPPROTO_TCP, TCP_KEEPIDLE) == 7);
	must(ioctl(sock_, FIONREAD, small) == 0);
	ok(shutdown(sock_, SHUT_WR));
	must(recv(sock_, small, 1, 0) == 0);
	ok(close(sock_));
	return NULL;
}

static void client(int fd)
{
	pthread_attr_t a;
	pthread_t t;

	sock_ = fd;
	big = malloc(BIG);
	must(big);
	t_fill(big, BIG, 0, 1);
	memcpy(small, big, 8);
	file = (int)ok(memfd_create("file", MFD_CLOEXEC));
	must(write(file, big, BIG) == (ssize_t)BIG);
	set_ = (int)ok(epoll_create1(EPOLL_CLOEXEC));
	ev = (struct epoll_event){ .events = EPOLLIN };
	ok(epoll_ctl(set_, EPOLL_CTL_ADD, fd, &ev));
	must(!pthread_attr_init(&a));
	must(!pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN));
	must(!pthread_create(&t, &a, thread, NULL));
	must(!pthread_join(t, NULL));
	say("all calls made");
}

static void server(int fd)
{
	uint8_t b[8];

	t_fill(b, 8, 0, 1);
	for (int i = 0; i < ROUNDS; i++) {
		usleep(3000);
		send_all(fd, b, 8);
		must(recv_all(fd, b, 8) == 8);
		t_same(b, 8, 0, 1);
	}
	recv_pattern(fd, BIG, 4000, 1);
	send_pattern(fd, BIG, 9000, 2);
	want_eof(fd);
	say("all came back");
	close(fd);
}

SOCK_PAIR(server, client)
