// SPDX-License-Identifier: MIT
/* Both ends, awake until then, send and shut their directions, in each order and way, and nothing was read yet: no error, and all octets come. */
#include <poll.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define OCTETS	3000
#define WAYS	4	/* by SHUT_WR or SHUT_RDWR, each */

static char buf[OCTETS];

static int how(int way, bool is_client)
{
	return way & (is_client ? 1 : 2) ? SHUT_RDWR : SHUT_WR;
}

static void both(int fd, int way, bool is_client)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };

	t_wake(fd, is_client, TURNS);
	t_fill(buf, OCTETS, 0, is_client);
	for (int at = 0; at < OCTETS; at += 100)
		must(send(fd, buf + at, 100, 0) == 100);
	t_sync();
	t_readable(fd, OCTETS);
	t_sync();
	if (!is_client)
		ok(shutdown(fd, how(way, false)));
	t_sync();
	if (is_client)
		ok(shutdown(fd, how(way, true)));
	t_sync();
	t_until(fd, POLLIN | POLLHUP);
	must(poll(&p, 1, 0) == 1);
	say_poll(is_client ? "client" : "server", p.revents);
	must(recv_all(fd, buf, OCTETS) == OCTETS);
	t_same(buf, OCTETS, 0, !is_client);
	must(recv(fd, buf, 1, 0) == 0);
	say("error %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	t_sync();
	close(fd);
}

static void server(void)
{
	int l = t_listen(0);

	for (int way = 0; way < WAYS; way++)
		both(t_accept(l), way, false);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int way = 0; way < WAYS; way++)
		both(t_connect_to(&ss), way, true);
}

SOCK_ROLES(server, client)
