// SPDX-License-Identifier: MIT
/* 200 connections open at the same time, each with its own data, served by one epoll loop. */
#include "../sock.h"

#define N 200

static void server(void)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = -1 }, evs[32];
	int l = t_listen(0), ep = (int)ok(epoll_create1(0)), open_ = 0, served = 0;

	set_nonblock(l, true);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, l, &ev));
	while (served < N) {
		int n = epoll_wait(ep, evs, 32, T_WAIT_MS);

		must(n > 0);
		for (int i = 0; i < n; i++) {
			char b[64];
			ssize_t r;

			if (evs[i].data.fd == -1) {
				int fd = accept4(l, NULL, NULL, SOCK_NONBLOCK);

				if (fd < 0)
					continue;
				ev = (struct epoll_event){ .events = EPOLLIN, .data.fd = fd };
				ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
				open_++;
				continue;
			}
			r = recv(evs[i].data.fd, b, sizeof(b), 0);
			if (r > 0) {
				must(send(evs[i].data.fd, b, (size_t)r, 0) == r);
			} else {
				must(r == 0);
				close(evs[i].data.fd);
				served++;
			}
		}
	}
	say("served %d of %d", served, open_);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd[N];
	char b[32];

	t_peer(&ss);
	for (int i = 0; i < N; i++)
		fd[i] = t_connect_to(&ss);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < N; i++) {
			snprintf(b, sizeof(b), "conn %d round %d", i, round);
			send_str(fd[i], b);
		}
		for (int i = N - 1; i >= 0; i--) {
			snprintf(b, sizeof(b), "conn %d round %d", i, round);
			want_str(fd[i], b);
		}
	}
	for (int i = 0; i < N; i++)
		close(fd[i]);
	say("all echoed");
}

SOCK_ROLES(server, client)
