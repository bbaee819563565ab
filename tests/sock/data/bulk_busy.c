// SPDX-License-Identifier: MIT
/*
 * One way after the other, to a reader that is never done with what is there: it looks at each octet, and now and then asks first
 * how many there are, or for one octet more than it got. IW_TEST_MIB each way, or 12.
 */
#include "../sock.h"

#define PIECE	65536

/* What was said to be there is. */
static size_t counted(int fd, uint8_t *b, bool peek)
{
	int n = 0;
	ssize_t r;

	if (peek)
		n = (int)recv(fd, b, PIECE, MSG_PEEK | MSG_DONTWAIT);
	else
		ok(ioctl(fd, FIONREAD, &n));
	if (n <= 0)
		return (size_t)ok(recv(fd, b, PIECE, 0));
	r = recv(fd, b, PIECE, MSG_DONTWAIT);
	must(r >= (n < PIECE ? n : PIECE));
	return (size_t)r;
}

/* Nor does poll() speak of octets that are not there. */
static size_t polled(int fd, uint8_t *b)
{
	t_until(fd, POLLIN);
	return (size_t)ok(recv(fd, b, PIECE, MSG_DONTWAIT));
}

static void in(int fd, uint64_t total, unsigned int seed)
{
	static uint8_t b[PIECE];
	uint64_t pos = 0;
	size_t n;

	for (unsigned int i = 0; pos < total; i++, pos += n) {
		n = i % 256 == 3 ? counted(fd, b, false) : i % 8 == 5 ? counted(fd, b, true) : i % 2 ? polled(fd, b) : (size_t)ok(read(fd, b, PIECE));
		must(n);
		for (int k = 0; k < 3; k++)
			t_same(b, n, pos, seed);
	}
	must(pos == total);
	say("all octets");
}

static uint64_t octets(void)
{
	const char *v = getenv("IW_TEST_MIB");

	return (uint64_t)(v ? atoi(v) : 12) << 20;
}

static void server(int fd)
{
	send_pattern(fd, octets(), 99991, 1);
	in(fd, octets(), 2);
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	in(fd, octets(), 1);
	send_pattern(fd, octets(), 1 << 20, 2);
	close(fd);
}

SOCK_PAIR(server, client)
