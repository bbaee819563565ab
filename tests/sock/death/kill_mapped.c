// SPDX-License-Identifier: MIT
/* Where both ends are mapped the death of a daemon changes nothing: questions, bulk, the ends of both directions one after the other. */
#include "../kill.h"

#define BULK	(3u << 20)

static void *pour(void *arg)
{
	static uint8_t b[65536];

	for (uint64_t pos = 0; pos < BULK; pos += sizeof(b)) {
		t_fill(b, sizeof(b), pos, 1);
		send_all(*(int *)arg, b, sizeof(b));
	}
	return NULL;
}

static void drink(int fd)
{
	static uint8_t b[65536];

	for (uint64_t pos = 0; pos < BULK; ) {
		ssize_t r = ok(recv(fd, b, sizeof(b), 0));

		must(r > 0);
		t_same(b, (size_t)r, pos, 1);
		pos += (uint64_t)r;
	}
}

static void both(int fd, bool client)
{
	struct sockaddr_storage s;
	pthread_t t;

	for (int i = 0; i < 300; i++) {
		if (client)
			send_str(fd, "question");
		want_str(fd, "question");
		if (!client)
			send_str(fd, "question");
	}
	must(!pthread_create(&t, NULL, pour, &fd));
	drink(fd);
	must(!pthread_join(t, NULL));
	must(!(t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0) & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)));
	step("getpeername", getpeername(fd, (void *)&s, &(socklen_t){ sizeof(s) }));
	say("SO_ERROR %s", t_errname(get_int(fd, SOL_SOCKET, SO_ERROR)));
	t_sync();
}

static void server(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
	int ep = (int)ok(epoll_create1(0));

	kill_mapped(fd, false);
	kill_and_gone(fd, false);
	both(fd, false);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	t_sync();
	must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
	say("events %x", ev.events);
	must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
	step("recv", recv(fd, &(char){ 0 }, 1, 0));
	send_str(fd, "late");
	step("shutdown", shutdown(fd, SHUT_WR));
	step("send", send(fd, "x", 1, MSG_NOSIGNAL));
	t_sync();
	close(fd);
}

static void client(int fd)
{
	kill_mapped(fd, true);
	kill_and_gone(fd, true);
	both(fd, true);
	t_sync();
	step("shutdown", shutdown(fd, SHUT_WR));
	step("send", send(fd, "x", 1, MSG_NOSIGNAL));
	want_str(fd, "late");
	want_eof(fd);
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
