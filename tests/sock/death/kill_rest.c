// SPDX-License-Identifier: MIT
/*
 * An end of a pair of one host is handed to stdio while octets are unread, so that the daemon may have to relay what comes behind them, and is killed:
 * what was there is read, and then it goes on, or both ends are told of a reset. An end of stream would be a false one.
 */
#include "../kill.h"

#define OCTETS 3000

static char buf[OCTETS];

static void reset(ssize_t r)
{
	must(r < 0 && (errno == ECONNRESET || errno == EPIPE));
}

static void server(int fd)
{
	FILE *f;
	uint8_t on;
	ssize_t r;

	kill_ready_as(fd, false, true);
	t_sync();
	t_readable(fd, OCTETS);
	must(recv(fd, buf, 1, 0) == 1);
	f = fdopen(fd, "r");
	must(f);
	t_sync();
	kill_together(false);
	must(recv_all(fd, buf + 1, OCTETS - 1) == OCTETS - 1);
	t_same(buf, OCTETS, 0, 1);
	t_sync();
	r = recv(fd, buf, 5, MSG_WAITALL);
	on = r == 5;
	if (!on)
		reset(r);
	t_put(&on, 1);
	if (on)
		send_str(fd, "heard");
	t_sync();
	fclose(f);
	say("no false end");
}

static void client(int fd)
{
	uint8_t on;

	kill_ready_as(fd, true, true);
	t_fill(buf, OCTETS, 0, 1);
	for (int at = 0; at < OCTETS; at += 100)
		must(send(fd, buf + at, 100, 0) == 100);
	t_sync();
	t_sync();
	kill_together(true);
	t_sync();
	if (send(fd, "after", 5, MSG_NOSIGNAL) != 5)
		reset(-1);
	must(t_get(&on, 1) == 1);
	if (on)
		want_str(fd, "heard");
	else
		reset(recv(fd, buf, 1, 0));
	t_sync();
	close(fd);
	say("no false end");
}

SOCK_PAIR(server, client)
