// SPDX-License-Identifier: MIT
/* A stream cannot seek: ESPIPE for pread, pwrite, lseek and the rest. */
#include "../sock.h"

static void server(int fd)
{
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	char b[4] = "";
	struct iovec v = { b, 4 };

	step("lseek", lseek(fd, 0, SEEK_CUR));
	step("pread", pread(fd, b, 4, 0));
	step("pwrite", pwrite(fd, b, 4, 0));
	step("preadv", preadv(fd, &v, 1, 0));
	step("ftruncate", ftruncate(fd, 0));
	say("fsync %s", fsync(fd) ? t_errname(errno) : "0");
	close(fd);
}

SOCK_PAIR(server, client)
