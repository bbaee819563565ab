// SPDX-License-Identifier: MIT
/* A client whose event loop makes its epoll calls by itself, as some run-times do: its connection works, whatever carries it. */
#include "../sock.h"

static int raw_wait(int ep, struct epoll_event *ev, int ms)
{
	return (int)t_sys(SYS_epoll_pwait, ep, ev, 1, ms, NULL, 8);
}

static void server(void)
{
	int fd = (int)ok(accept(t_listen(0), NULL, NULL));

	want_str(fd, "ping");
	send_str(fd, "pong");
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct epoll_event ev = { .events = EPOLLOUT };
	struct sockaddr_storage ss;
	int ep = (int)ok(t_sys(SYS_epoll_create1, 0)), fd;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	if (connect(fd, (void *)&ss, t_salen(&ss)))
		must(errno == EINPROGRESS);
	ok(t_sys(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, fd, &ev));
	step("connected", raw_wait(ep, &ev, T_WAIT_MS));
	say("error %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	send_str(fd, "ping");
	ev.events = EPOLLIN;
	step("change", t_sys(SYS_epoll_ctl, ep, EPOLL_CTL_MOD, fd, &ev));
	step("answer", raw_wait(ep, &ev, 3000));
	want_str(fd, "pong");
	close(fd);
}

SOCK_ROLES(server, client)
