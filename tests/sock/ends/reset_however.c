// SPDX-License-Identifier: MIT
/* The other end closes with octets unread: ECONNRESET, however this one looks for octets, after some that came before. */
#include <poll.h>

#include "../sock.h"

#define TURNS	60	/* there and back, before */
#define SOME	500

enum how { WAITS, LOOKS, PEEKS, POLLS, ASKS, ALL, HOWS };
static const char *const names[HOWS] = { "waits", "looks again and again", "peeks", "polls", "asks how many", "wants more than there is" };

static char buf[1000];

static ssize_t look(int fd, enum how how)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = 0;

	switch (how) {
	case LOOKS:
		return recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	case PEEKS:
		return recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT) < 0 ? -1 : recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	case POLLS:
		must(poll(&p, 1, T_WAIT_MS) == 1);
		return recv(fd, buf, sizeof(buf), 0);
	case ASKS:
		ok(ioctl(fd, FIONREAD, &n));
		return recv(fd, buf, n ? (size_t)n : 1, MSG_DONTWAIT);
	case ALL:
		return recv(fd, buf, sizeof(buf), MSG_WAITALL);
	default:
		return recv(fd, buf, sizeof(buf), 0);
	}
}

static void server(void)
{
	int l = t_listen(0);

	for (int how = 0; how < HOWS; how++)
		for (int some = 0; some <= SOME; some += SOME) {
			int fd = t_accept(l);
			ssize_t n, got = 0;

			for (int i = 0; i < TURNS; i++) {
				must(recv(fd, buf, 1, 0) == 1);
				must(send(fd, buf, 1, 0) == 1);
			}
			must(send(fd, buf, sizeof(buf), 0) == sizeof(buf));
			while ((n = look(fd, (enum how)how)) > 0 || (n < 0 && errno == EAGAIN))
				got += n > 0 ? n : 0;
			must(got <= some);	/* TCP may throw them away */
			say("%s: %s", names[how], n < 0 ? t_errname(errno) : "end");
			close(fd);
		}
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int how = 0; how < HOWS; how++)
		for (int some = 0; some <= SOME; some += SOME) {
			int fd = t_connect_to(&ss);

			for (int i = 0; i < TURNS; i++) {
				must(send(fd, buf, 1, 0) == 1);
				must(recv(fd, buf, 1, 0) == 1);
			}
			if (some)
				must(send(fd, buf, SOME, 0) == SOME);
			t_readable(fd, sizeof(buf));
			close(fd);
		}
}

SOCK_ROLES(server, client)
