// SPDX-License-Identifier: MIT
/* O_ASYNC: a signal with the fd when data comes. */
#include "../sock.h"

static volatile sig_atomic_t got;

static void on_io(int sig, siginfo_t *si, void *uc)
{
	got = 1;
}

static void server(int fd)
{
	struct sigaction sa = { .sa_sigaction = on_io, .sa_flags = SA_SIGINFO | SA_RESTART };

	ok(sigaction(SIGIO, &sa, NULL));
	ok(fcntl(fd, F_SETOWN, getpid()));
	ok(fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK));
	say("O_ASYNC %d", !!(ok(fcntl(fd, F_GETFL)) & O_ASYNC));
	t_sync();
	for (long end = t_ms() + T_WAIT_MS; !got && t_ms() < end; t_nap(1))
		;
	say("signal %d", (int)got);
	want_str(fd, "x");
	close(fd);
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
