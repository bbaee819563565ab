// SPDX-License-Identifier: MIT
/* Beside a connection in an epoll set, a pipe whose data are in turn addresses all over the process: each comes back as it was. */
#include <inttypes.h>
#include "../sock.h"

#define EACH 64		/* addresses of one mapping */

static int ep, pipe_fd;
static unsigned int wrong;

static void try(uint64_t data)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = data }, got[2] = { { 0 } };

	ok(epoll_ctl(ep, EPOLL_CTL_MOD, pipe_fd, &ev));
	if (epoll_wait(ep, got, 2, 0) != 1 || got[0].data.u64 != data || got[0].events != EPOLLIN)
		wrong++;
}

/* What lies at them does not matter, nor whether they are somebody's. */
static void try_all(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	uint64_t from, to, last = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) != 2)
			continue;
		for (unsigned int i = 0; i < EACH; i++)
			try(from + (to - from) / EACH * i);
		last = to;
	}
	try(last);
	try(0);
	try(UINT64_MAX);
	if (f)
		fclose(f);
}

static void talk(int fd, bool first)
{
	for (int i = 0; i < 4; i++) {
		struct epoll_event ev;
		char c = 'x';

		if (first)
			ok(write(fd, &c, 1));
		if (epoll_wait(ep, &ev, 1, T_WAIT_MS) != 1 || ev.data.u64 != 7 || read(fd, &c, 1) != 1)
			wrong++;
		if (!first)
			ok(write(fd, &c, 1));
	}
}

static void role(int fd, bool first)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };
	int p[2];

	ep = (int)ok(epoll_create1(0));
	ok(pipe(p));
	pipe_fd = p[0];
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	talk(fd, first);
	t_sync();
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, pipe_fd, &ev));
	ok(write(p[1], "y", 1));
	try_all();
	say("wrong: %u", wrong);
	t_sync();
	ok(epoll_ctl(ep, EPOLL_CTL_DEL, pipe_fd, NULL));
	talk(fd, first);
	say("wrong: %u", wrong);
	close(fd);
}

static void server(void)
{
	int l = t_listen(0);

	role(t_accept(l), false);
	close(l);
}

static void client(void)
{
	role(t_connect(), true);
}

SOCK_ROLES(server, client)
