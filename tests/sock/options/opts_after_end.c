// SPDX-License-Identifier: MIT
/* Options keep their values, and can be set, while the fd is open: shut in both directions, the connection over, the peer closed; reset by it. */
#include "../sock.h"

static void show(const char *when, int fd)
{
	say("%s: KEEPALIVE %d KEEPIDLE %d NODELAY %d PRIORITY %d", when, get_int(fd, SOL_SOCKET, SO_KEEPALIVE), get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE),
	    get_int(fd, IPPROTO_TCP, TCP_NODELAY), get_int(fd, SOL_SOCKET, SO_PRIORITY));
}

/* Nothing changes for a while, in which whoever is behind the fd learns of what was done. */
static void stays(int fd, int idle)
{
	for (long end = t_ms() + 100; t_ms() < end;)
		must(get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE) == idle);
}

static void set(int fd, int idle)
{
	ok(set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle));
	stays(fd, idle);
}

static void begin(int fd)
{
	ok(set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1));
	ok(set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1));
	ok(set_int(fd, SOL_SOCKET, SO_PRIORITY, 3));
	set(fd, 50);
}

/* One end is shut in both directions, and then closed; the other one shuts its own when it has seen the end. */
static void first(int fd)
{
	begin(fd);
	t_sync();
	step("shutdown", shutdown(fd, SHUT_RDWR));
	set(fd, 60);
	show("shut", fd);
	t_sync();
	t_sync();
	set(fd, 70);
	show("over", fd);
	t_sync();
	close(fd);
	t_sync();
}

static void second(int fd)
{
	begin(fd);
	t_sync();
	want_eof(fd);
	t_sync();
	show("half", fd);
	step("shutdown", shutdown(fd, SHUT_WR));
	set(fd, 80);
	t_sync();
	show("over", fd);
	t_sync();
	t_sync();
	set(fd, 90);
	show("alone", fd);
	close(fd);
}

static void resets(int fd)
{
	struct linger l = { 1, 0 };

	begin(fd);
	t_sync();
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	close(fd);
}

static void is_reset(int fd)
{
	char c;

	begin(fd);
	t_sync();
	step("recv", recv(fd, &c, 1, 0));
	set(fd, 65);
	show("reset", fd);
	close(fd);
}

static void server(void)
{
	int l = t_listen(0);

	first(t_accept(l));
	second(t_accept(l));
	resets(t_accept(l));
	is_reset(t_accept(l));
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	second(t_connect_to(&ss));
	first(t_connect_to(&ss));
	is_reset(t_connect_to(&ss));
	resets(t_connect_to(&ss));
}

SOCK_ROLES(server, client)
