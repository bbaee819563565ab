// SPDX-License-Identifier: MIT
/* sendfile that the peer's reset cuts short, wherever it stands, returns what it did without SIGPIPE. */
#include "../sock.h"

#include <sys/sendfile.h>

#define SIZE	(64u << 20)
#define TIMES	150

static volatile sig_atomic_t pipes;

static void on_pipe(int sig)
{
	pipes++;
}

static void server(void)
{
	static char b[65536];
	int l = t_listen(0);

	for (size_t i = 0; i < TIMES; i++) {
		int fd = t_accept(l);

		for (size_t left = 1000 + i * 7000; left;) {
			ssize_t n = recv(fd, b, left < sizeof(b) ? left : sizeof(b), 0);

			must(n > 0);
			left -= (size_t)n;
		}
		close(fd);	/* the rest unread: a reset */
	}
	close(l);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int f = (int)ok(memfd_create("file", MFD_CLOEXEC)), cut = 0;

	signal(SIGPIPE, on_pipe);
	ok(ftruncate(f, SIZE));
	t_peer(&ss);
	for (int i = 0; i < TIMES; i++) {
		int fd = t_connect_to(&ss);
		off_t off = 0;
		ssize_t n;

		n = sendfile(fd, f, &off, SIZE);
		cut += n > 0 && n < (ssize_t)SIZE;
		close(fd);
	}
	say("cut short %d, SIGPIPE %d", cut, (int)pipes);
}

SOCK_ROLES(server, client)
