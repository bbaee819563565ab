// SPDX-License-Identifier: MIT
/*
 * A close that is a reset, by a process that has started programs meanwhile: with octets unread, or after SO_LINGER {1, 0}. The other end, awake until then,
 * sleeps in recv(), asks by poll(), or looks by MSG_DONTWAIT.
 */
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define OCTETS	3000
#define WAYS	12

extern char **environ;
static char buf[OCTETS];

/* Returns the other end's process. */
static pid_t talk(int fd, bool is_client)
{
	pid_t pid = getpid();

	t_wake(fd, is_client, TURNS);
	must(send(fd, &pid, sizeof(pid), 0) == sizeof(pid));
	must(recv_all(fd, &pid, sizeof(pid)) == sizeof(pid));
	return pid;
}

static void program(void)
{
	char *argv[] = { "true", NULL };
	int st;
	pid_t p;

	must(posix_spawnp(&p, "true", NULL, NULL, argv, environ) == 0);
	must(waitpid(p, &st, 0) == p && !st);
}

static void server_way(int fd, int way)
{
	struct linger l = { 1, 0 };
	pid_t pid;

	fcntl(fd, F_SETFD, FD_CLOEXEC);
	pid = talk(fd, false);
	if (way & 1)
		program();
	if (way & 2) {
		t_readable(fd, OCTETS);
		must(recv(fd, buf, 1, MSG_PEEK | MSG_DONTWAIT) == 1);
	} else {
		must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)) == 0);
	}
	if (!(way & 1))
		program();
	t_sync();
	if (way / 4 < 2)
		t_asleep(pid);
	close(fd);
	t_sync();
}

static void say_recv(int way, ssize_t n)
{
	say("way %d: %d %s", way, (int)n, n < 0 ? strerror(errno) : "");
}

static void client_way(int fd, int way)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	talk(fd, true);
	if (way & 2)
		for (int at = 0; at < OCTETS; at += 100)
			must(send(fd, buf, 100, 0) == 100);
	t_sync();
	if (way / 4 == 1)
		must(poll(&p, 1, -1) == 1);
	if (way / 4 == 2) {
		t_sync();
		t_until(fd, POLLIN);
	}
	say_recv(way, recv(fd, buf, 1, way / 4 == 2 ? MSG_DONTWAIT : 0));
	say_recv(way, recv(fd, buf, 1, 0));
	if (way / 4 != 2)
		t_sync();
	close(fd);
}

static void server(void)
{
	int l = t_listen(0);

	for (int way = 0; way < WAYS; way++)
		server_way(t_accept(l), way);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int way = 0; way < WAYS; way++)
		client_way(t_connect_to(&ss), way);
}

SOCK_ROLES(server, client)
