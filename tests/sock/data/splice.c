// SPDX-License-Identifier: MIT
/* splice: file to pipe to socket, and socket to pipe to file. */
#include "../sock.h"

#define SIZE (1u << 20)

static void move(int from, int to, size_t n, bool until_end)
{
	int p[2];

	ok(pipe(p));
	while (n || until_end) {
		ssize_t r = splice(from, NULL, p[1], NULL, n ? n : 65536, SPLICE_F_MOVE), w;

		must(r >= 0);
		if (!r)
			break;
		n -= n ? (size_t)r : 0;
		while (r) {
			w = splice(p[0], NULL, to, NULL, (size_t)r, 0);
			must(w > 0);
			r -= w;
		}
	}
	close(p[0]);
	close(p[1]);
}

static void server(int fd)
{
	int f = (int)ok(memfd_create("in", 0));
	uint8_t *m;

	move(fd, f, 0, true);
	say("size %ld", (long)lseek(f, 0, SEEK_END));
	m = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, f, 0);
	must(m != MAP_FAILED);
	t_same(m, SIZE, 0, 5);
	send_str(fd, "same");
	close(fd);
}

static void client(int fd)
{
	int f = (int)ok(memfd_create("out", 0));
	uint8_t *m;

	ok(ftruncate(f, SIZE));
	m = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	must(m != MAP_FAILED);
	t_fill(m, SIZE, 0, 5);
	move(f, fd, SIZE, false);
	ok(shutdown(fd, SHUT_WR));
	want_str(fd, "same");
	close(fd);
}

SOCK_PAIR(server, client)
