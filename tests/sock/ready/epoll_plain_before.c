// SPDX-License-Identifier: MIT
/* A number that was a plain connection in one epoll set becomes an accelerated one in another: what was registered for it before counts no more. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0), fd = (int)ok(accept(l, NULL, NULL));

	want_eof(fd);
	close(fd);
	fd = t_accept(l);
	want_str(fd, "second");
	close(fd);
	close(l);
}

static int start(int ep, const struct sockaddr_storage *ss, bool shared)
{
	struct epoll_event ev = { .events = EPOLLOUT };
	int fd = (int)ok(socket(ss->ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0)), err;

	if (shared)	/* two numbers: it stays plain */
		close((int)ok(dup(fd)));
	ev.data.fd = fd;
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	if (connect(fd, (const void *)ss, t_salen(ss)))
		must(errno == EINPROGRESS);
	must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1 && ev.data.fd == fd);
	err = get_int(fd, SOL_SOCKET, SO_ERROR);
	must(!err);
	return fd;
}

static void client(void)
{
	struct sockaddr_storage ss;
	int a = (int)ok(epoll_create1(0)), b = (int)ok(epoll_create1(0)), first, fd;

	t_peer(&ss);
	first = start(a, &ss, true);
	close(first);
	fd = start(b, &ss, false);
	must(fd == first);
	send_str(fd, "second");
	set_nonblock(fd, false);
	want_eof(fd);
	close(fd);
}

SOCK_ROLES(server, client)
