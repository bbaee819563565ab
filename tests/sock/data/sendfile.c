// SPDX-License-Identifier: MIT
/* sendfile from a file, both ways, with and without an offset, larger than the buffers. */
#include "../sock.h"

#include <sys/sendfile.h>

#define SIZE (3u << 20)

static int a_file(unsigned int seed)
{
	int f = (int)ok(memfd_create("file", MFD_CLOEXEC));
	uint8_t *m;

	ok(ftruncate(f, SIZE));
	m = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	must(m != MAP_FAILED);
	t_fill(m, SIZE, 0, seed);
	munmap(m, SIZE);
	return f;
}

static void server(int fd)
{
	int f = a_file(1);
	off_t off = 0;

	while (off < SIZE)
		must(sendfile(fd, f, &off, SIZE - (size_t)off) > 0);
	say("offset %ld, file position %ld", (long)off, (long)lseek(f, 0, SEEK_CUR));
	ok(shutdown(fd, SHUT_WR));
	recv_pattern(fd, SIZE, 50000, 2);
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	int f = a_file(2);
	size_t left = SIZE;

	recv_pattern(fd, SIZE, 40000, 1);
	want_eof(fd);
	while (left) {
		ssize_t n = sendfile(fd, f, NULL, left);

		must(n > 0);
		left -= (size_t)n;
	}
	say("file position %ld", (long)lseek(f, 0, SEEK_CUR));
	step("at the end of the file", sendfile(fd, f, NULL, 100));
	step("from a socket", sendfile(f, fd, NULL, 100));
	ok(shutdown(fd, SHUT_WR));
	want_eof(fd);
	step("after shutdown", (signal(SIGPIPE, SIG_IGN), lseek(f, 0, SEEK_SET), sendfile(fd, f, NULL, 100)));
	close(fd);
}

SOCK_PAIR(server, client)
