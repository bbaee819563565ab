// SPDX-License-Identifier: MIT
/*
 * One end shuts both directions and looks at the connection all the time; the other one, having read the end, closes: no error at any moment. Either end was
 * duplicated before with octets unread, which came while it was awake; who shuts leaves one of them, and so is relayed until then.
 */
#include <poll.h>

#include "../sock.h"

#define TURNS	100	/* there and back, before */
#define OCTETS	300
#define TIMES	10	/* each of four ways */

static char buf[OCTETS];

static void shuts(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };

	ok(shutdown(fd, SHUT_RDWR));
	do
		must(poll(&p, 1, -1) == 1 && !(p.revents & POLLERR));
	while (!(p.revents & POLLHUP));
	t_sync();
	for (long end = t_ms() + 5; t_ms() < end; )	/* or until it was through: whatever comes is no error */
		must(poll(&p, 1, 0) == 1 && !(p.revents & POLLERR));
	must(get_int(fd, SOL_SOCKET, SO_ERROR) == 0);
}

static void run(int fd, int way, bool is_client)
{
	bool shuts_it = (way & 2) == 2 * is_client;
	size_t reads = shuts_it ? OCTETS - 1 : OCTETS;

	t_wake(fd, is_client, TURNS);
	if ((way & 1) == is_client) {
		t_readable(fd, OCTETS);
		must(recv(fd, buf, 1, MSG_PEEK | MSG_DONTWAIT) == 1);
		close((int)ok(dup(fd)));
		must(recv_all(fd, buf, reads) == reads);
	} else {
		send_all(fd, buf, OCTETS);
	}
	t_sync();
	if (shuts_it) {
		shuts(fd);
	} else {
		must(recv(fd, buf, 1, 0) == 0);
		t_sync();
	}
	close(fd);
	t_sync();
}

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 4 * TIMES; i++)
		run(t_accept(l), i % 4, false);
	say("no error");
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 4 * TIMES; i++)
		run(t_connect_to(&ss), i % 4, true);
}

SOCK_ROLES(server, client)
