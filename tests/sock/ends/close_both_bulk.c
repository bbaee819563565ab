// SPDX-License-Identifier: MIT
/* Both ends send megabytes at once, read to the end, and close as soon as they are done, as nc does. */
#include "../sock.h"

#define TOTAL (8u << 20)	/* a multiple of the piece */

/* One thread, as nc: poll, read and write what goes, shutdown(WR) when all is sent, shutdown(RD) at the end of the peer's data. */
static void both(int fd, unsigned int out, unsigned int in)
{
	static uint8_t b[16384], c[16384];
	uint64_t sent = 0, got = 0;
	bool end = false;

	set_nonblock(fd, true);
	while (sent < TOTAL || !end) {
		int ev = t_poll(fd, (sent < TOTAL ? POLLOUT : 0) | (end ? 0 : POLLIN), T_WAIT_MS);
		ssize_t r;

		must(ev);
		if (sent < TOTAL && (ev & POLLOUT)) {
			t_fill(b, sizeof(b), sent, out);
			r = send(fd, b, sizeof(b), MSG_NOSIGNAL);
			must(r > 0 || errno == EAGAIN);
			if (r > 0)
				sent += (uint64_t)r;
			if (sent >= TOTAL)
				ok(shutdown(fd, SHUT_WR));
		}
		if (!end && (ev & (POLLIN | POLLHUP))) {
			r = recv(fd, c, sizeof(c), 0);
			must(r >= 0 || errno == EAGAIN);
			if (r > 0) {
				t_same(c, (size_t)r, got, in);
				got += (uint64_t)r;
			}
			if (!r) {
				end = true;
				if (sent < TOTAL)
					ok(shutdown(fd, SHUT_RD));
			}
		}
	}
	must(got == TOTAL);
	close(fd);
}

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 10; i++)
		both(t_accept(l), 1, 2);
	say("done");
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 10; i++)
		both(t_connect_to(&ss), 2, 1);
	say("done");
}

SOCK_ROLES(server, client)
