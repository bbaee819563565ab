// SPDX-License-Identifier: MIT
/* Times beyond what nanoseconds since boot can hold mean for ever, also where a wait is taken up again. */
#include "../sock.h"

static const struct timespec far = { INT64_MAX / 1000, 0 };

static void server(int fd)
{
	t_sync();
	send_str(fd, "onetwo");
	t_sync();
	close(fd);
}

static void *closes_half(void *arg)
{
	t_nap(30);
	ok(shutdown(*(int *)arg, SHUT_WR));
	return NULL;
}

static void client(int fd)
{
	char b[2][3];
	struct iovec v[2] = { { b[0], 3 }, { b[1], 3 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = v, .msg_iovlen = 1 } }, { .msg_hdr = { .msg_iov = v + 1, .msg_iovlen = 1 } } };
	struct epoll_event ev = { .events = 0 };
	int ep = (int)ok(epoll_create1(0));
	struct timespec t = far;
	pthread_t p;

	t_sync();
	t_readable(fd, 6);
	step("recvmmsg", recvmmsg(fd, m, 2, 0, &t));
	say("time left %d", t.tv_sec > 1000000);
	t_sync();
	t_until(fd, POLLRDHUP);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	must(!pthread_create(&p, NULL, closes_half, &fd));
	step("epoll_pwait2", epoll_pwait2(ep, &ev, 1, &far, NULL));
	say_poll("epoll", (int)ev.events);
	pthread_join(p, NULL);
	close(fd);
}

SOCK_PAIR(server, client)
