// SPDX-License-Identifier: MIT
/* Every write size around the interesting borders (inline limit, segment, page, 64 KiB, ring) arrives whole. */
#include "../sock.h"

static const int sizes[] = { 1, 2, 3, 4, 7, 8, 503, 504, 505, 511, 512, 513, 1000, 1439, 1440, 1441, 1448, 1449, 2048, 4095, 4096, 4097,
	16384, 64767, 64768, 64769, 65535, 65536, 65537, 131072, 262143, 262144, 262145, 524288, 1048575, 1048576,
	1048577, 3000001 };

static void server(int fd)
{
	uint64_t pos = 0;
	uint8_t *b = malloc(3000001);

	must(b);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		must(recv_all(fd, b, (size_t)sizes[i]) == (size_t)sizes[i]);
		t_same(b, (size_t)sizes[i], pos, 3);
		pos += (uint64_t)sizes[i];
		send_all(fd, b, (size_t)sizes[i]);
		say("%d", sizes[i]);
	}
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	uint64_t pos = 0;
	uint8_t *b = malloc(3000001), *c = malloc(3000001);

	must(b && c);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		t_fill(b, (size_t)sizes[i], pos, 3);
		send_all(fd, b, (size_t)sizes[i]);
		must(recv_all(fd, c, (size_t)sizes[i]) == (size_t)sizes[i]);
		must(!memcmp(b, c, (size_t)sizes[i]));
		pos += (uint64_t)sizes[i];
	}
	close(fd);
}

SOCK_PAIR(server, client)
