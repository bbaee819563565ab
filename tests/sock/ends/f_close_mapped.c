// SPDX-License-Identifier: MIT
/* Ends of connections over which octets went to and fro before: half-closes with data unread, linger, a file put over the descriptor, unread octets. */
#include "../sock.h"

static char big[1 << 20];

static void ended(int fd)
{
	char b[8];

	t_until(fd, POLLHUP);
	say_poll("over", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	step("SO_ERROR", get_int(fd, SOL_SOCKET, SO_ERROR));
	step("recv", recv(fd, b, 1, 0));
	step("send", send(fd, b, 1, MSG_NOSIGNAL));
	step("shutdown", shutdown(fd, SHUT_WR));
}

/* ---- SHUT_RD with data unread ---- */

static void shut_rd_server(int fd)
{
	char b[16];

	t_readable(fd, 6);
	step("peek", recv(fd, b, 3, MSG_PEEK));
	step("SHUT_RD", shutdown(fd, SHUT_RD));
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	step("recv", recv(fd, b, 4, 0));
	step("recv", recv(fd, b, 16, 0));
	step("recv of none", recv(fd, b, 16, 0));
	send_str(fd, "bye");
	step("SHUT_RDWR", shutdown(fd, SHUT_RDWR));
	t_sync();
	close(fd);
	t_sync();
}

static void shut_rd_client(int fd)
{
	send_str(fd, "123456");
	want_str(fd, "bye");
	want_eof(fd);
	t_sync();
	t_sync();
	close(fd);
}

/* ---- linger, with nobody who reads ---- */

static void linger_server(int fd)
{
	struct linger l = { 1, 1 };

	set_nonblock(fd, true);
	for (bool full = false; !full; t_nap(100))
		for (full = true; send(fd, big, sizeof(big), 0) > 0;)
			full = false;
	set_nonblock(fd, false);
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	step("close", close(fd));
	t_sync();
	t_sync();
}

static void linger_client(int fd)
{
	t_sync();
	while (recv(fd, big, sizeof(big), 0) > 0)
		;
	step("end", recv(fd, big, 1, 0));
	t_sync();
	close(fd);
}

/* ---- a file over it, with octets unread ---- */

static void dup2_server(int fd)
{
	int null = (int)ok(open("/dev/null", O_RDWR | O_CLOEXEC));
	char b[4];

	t_readable(fd, 6);
	step("recv", recv(fd, b, 2, 0));
	step("dup2", dup2(null, fd) - fd);
	step("write", write(fd, "x", 1));
	t_sync();
	close(fd);
	close(null);
}

static void dup2_client(int fd)
{
	send_str(fd, "123456");
	ended(fd);
	t_sync();
	close(fd);
}

/* ---- a reset with octets on their way ---- */

static void rst_server(int fd)
{
	struct linger l = { 1, 0 };

	t_readable(fd, 2);
	send_str(fd, "lost or not");
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	step("close", close(fd));
	t_sync();
}

static void rst_client(int fd)
{
	send_str(fd, "12");
	t_until(fd, POLLHUP);
	t_sync();
	while (recv(fd, big, sizeof(big), 0) > 0)
		;
	step("send", send(fd, big, 1, MSG_NOSIGNAL));
	close(fd);
}

/* ---- a half-close, and an end behind it ---- */

static void half_server(int fd)
{
	char b[4];

	t_readable(fd, 2);
	step("SHUT_WR", shutdown(fd, SHUT_WR));
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	step("send", send(fd, "x", 1, MSG_NOSIGNAL));
	step("recv", recv(fd, b, 1, 0));
	t_sync();
	t_readable(fd, 5);
	step("WAITALL", recv(fd, big, 8, MSG_WAITALL));
	t_sync();
	ended(fd);
	close(fd);
}

static void half_client(int fd)
{
	send_str(fd, "12");
	want_eof(fd);
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	t_sync();
	send_str(fd, "3456");
	ok(shutdown(fd, SHUT_WR));
	t_sync();
	close(fd);
}

static void (*const scenes[][2])(int fd) = {
	{ shut_rd_server, shut_rd_client }, { linger_server, linger_client }, { dup2_server, dup2_client }, { rst_server, rst_client }, { half_server, half_client },
};
#define SCENES (sizeof(scenes) / sizeof(*scenes))

static void server(void)
{
	int l = t_listen(0);

	for (size_t i = 0; i < SCENES; i++) {
		say("-- %zu", i);
		scenes[i][0](t_accept(l));
	}
	close(l);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (size_t i = 0; i < SCENES; i++) {
		say("-- %zu", i);
		scenes[i][1](t_connect_to(&ss));
	}
}

SOCK_ROLES(server, client)
