// SPDX-License-Identifier: MIT
/* Owner and signal of a socket, set before it is connected, are those of the connection when O_ASYNC comes later. */
#include "../sock.h"

static volatile sig_atomic_t got;

static void on_io(int sig, siginfo_t *si, void *uc)
{
	got = sig == SIGRTMIN + 3;
}

static void server(int fd)
{
	t_sync();
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sigaction sa = { .sa_sigaction = on_io, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	ok(sigaction(SIGRTMIN + 3, &sa, NULL));
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	ok(fcntl(fd, F_SETOWN, getpid()));
	ok(fcntl(fd, F_SETSIG, SIGRTMIN + 3));
	ok(connect(fd, (void *)&ss, t_salen(&ss)));
	say("owner %d, signal %d", fcntl(fd, F_GETOWN) == getpid(), fcntl(fd, F_GETSIG) - SIGRTMIN);
	ok(fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK));
	t_sync();
	for (long end = t_ms() + T_WAIT_MS / 5; !got && t_ms() < end; t_nap(1))
		;
	say("signal %d", (int)got);
	t_readable(fd, 1);
	want_str(fd, "x");
	close(fd);
}

static void t_server(void)
{
	server(t_accept(t_listen(0)));
}

SOCK_ROLES(t_server, client)
