// SPDX-License-Identifier: MIT
/*
 * The daemon of a pair of one host is killed while more is unread than a ring takes, and then an end is to be handed to a child: what is read after that is
 * what comes next, as far as it goes, or a reset, at both ends; never what comes behind octets that are lost.
 */
#include <sys/wait.h>

#include "../kill.h"

#define OCTETS (100u << 10)

static uint8_t buf[OCTETS];

/* It has closed everything. */
static void gone(void)
{
	char path[32], b[256] = "";
	long end = t_ms() + T_WAIT_MS;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)kill_whom());
	while ((fd = open(path, O_RDONLY)) >= 0 && read(fd, b, sizeof(b) - 1) > 0 && !strstr(b, ") Z") && !strstr(b, ") X")) {
		must(t_ms() < end);
		close(fd);
		usleep(1000);
	}
	if (fd >= 0)
		close(fd);
}

static size_t read_on(int fd, size_t got)
{
	ssize_t r = 1;

	while (got < OCTETS && (r = recv(fd, buf + got, OCTETS - got, 0)) > 0)
		got += (size_t)r;
	t_same(buf, got, 0, 1);
	must(r > 0 || (r < 0 && errno == ECONNRESET));
	return got;
}

static void server(int fd)
{
	long end = t_ms() + T_WAIT_MS;
	uint8_t all;
	pid_t pid;
	int status;

	kill_ready_as(fd, false, true);
	while (recv(fd, buf, 1000, MSG_PEEK | MSG_DONTWAIT) < 1000)	/* awake, so that there is a ring */
		must(t_ms() < end);
	t_sync();
	must(recv(fd, buf, 1000, MSG_WAITALL) == 1000);
	kill_together(false);
	gone();
	pid = (pid_t)ok(fork());
	if (!pid)
		_exit(0);
	must(waitpid(pid, &status, 0) == pid && !status);
	all = read_on(fd, 1000) == OCTETS;
	t_put(&all, 1);
	if (all)
		send_str(fd, "heard");
	t_sync();
	close(fd);
	say("no wrong octets");
}

static void client(int fd)
{
	uint8_t all;
	size_t at = 0;
	ssize_t r;

	kill_ready_as(fd, true, true);
	t_fill(buf, OCTETS, 0, 1);
	while (at < OCTETS && (r = send(fd, buf + at, OCTETS - at < 5000 ? OCTETS - at : 5000, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
		at += (size_t)r;
	must(at == OCTETS);
	t_sync();
	kill_together(true);
	must(t_get(&all, 1) == 1);
	if (all) {
		want_str(fd, "heard");
	} else {
		r = recv(fd, buf, 1, 0);
		must(r < 0 && (errno == ECONNRESET || errno == EPIPE));
	}
	t_sync();
	close(fd);
	say("no wrong octets");
}

SOCK_PAIR(server, client)
