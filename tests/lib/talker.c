/* SPDX-License-Identifier: MIT */
/*
 * One end of a connection that may be killed at any moment: octets of a pattern both ways, first in small pieces that wait for each other, then
 * as they go. How far it is stands in a shared file: talker FILE END ADDRESS SEED NAP [ROW]. End 0 connects, end 1 listens. NAP: us between small
 * pieces. ROW: so many pieces at most are sent one after the other.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define SMALL	2000u		/* octets in small pieces */
#define AHEAD	64u		/* of which so many may be ahead of the other end's */

struct end {			/* tests/lib/kills.py reads it */
	_Atomic uint64_t total;	/* that it sends in the end */
	_Atomic uint64_t sent, trying, got;	/* trying: sent, if the call under way is counted in */
	_Atomic uint32_t port, calls;
	_Atomic int32_t err;	/* errno that it ended by */
	_Atomic uint32_t ended;	/* 1: by all that it had to do; 2: by an error; 3: the octets are wrong */
	_Atomic uint32_t eof;	/* it has read the other's end */
	uint8_t wrong[12];	/* what it read instead of the other's, from got on */
};

static struct end *me;
static unsigned int seed[2];	/* mine, theirs */
static unsigned int nap_us, row;

static uint8_t octet(uint64_t pos, unsigned int s)
{
	return (uint8_t)((pos * 0x9e3779b97f4a7c15ull + s) >> 56);
}

static int over(uint32_t how, int err)
{
	me->err = err;
	me->ended = how;
	return 0;
}

static int fresh(const char *addr, bool client)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), fd;

	inet_pton(AF_INET, addr, &a.sin_addr);
	if (client) {
		while (!me[1].port)
			usleep(100);
		a.sin_port = htons((uint16_t)me[1].port);
		return connect(l, (void *)&a, len) ? -1 : l;
	}
	if (bind(l, (void *)&a, len) || listen(l, 1) || getsockname(l, (void *)&a, &len))
		return -1;
	me->port = ntohs(a.sin_port);
	fd = accept(l, NULL, NULL);
	close(l);
	return fd;
}

static bool may_send(void)
{
	return me->sent < me->total && (me->eof || me->sent > SMALL || me->sent < me->got + AHEAD);
}

static int say(int fd, unsigned int *r, bool small)
{
	static uint8_t buf[65536];
	uint64_t n;
	ssize_t k;

	if (me->sent < SMALL && nap_us)
		usleep((unsigned int)rand_r(r) % nap_us);
	n = 1 + (uint64_t)rand_r(r) % (me->sent < SMALL ? AHEAD : small ? 300 : sizeof(buf));
	if (n > me->total - me->sent)
		n = me->total - me->sent;
	for (uint64_t i = 0; i < n; i++)
		buf[i] = octet(me->sent + i, seed[0]);
	me->trying = me->sent + n;
	me->calls++;
	k = send(fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (k < 0 && errno != EAGAIN)
		return -errno;
	me->sent += k > 0 ? (uint64_t)k : 0;
	me->trying = me->sent;
	if (me->sent == me->total && shutdown(fd, SHUT_WR) && errno != ENOTCONN)	/* reset meanwhile: the next recv() says so */
		return -errno;
	return 0;
}

static int say_row(int fd, unsigned int *r)
{
	unsigned int n = row && me->sent >= SMALL && rand_r(r) % 2 ? (unsigned int)rand_r(r) % row : 0;
	int ret;

	do {
		ret = say(fd, r, n);
	} while (!ret && n-- && me->sent < me->total);
	return ret;
}

/* 0, or -errno; -EILSEQ: they are not the other's. */
static int hear(int fd)
{
	static uint8_t buf[65536];
	ssize_t k = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

	me->calls++;
	if (k < 0)
		return errno == EAGAIN ? 0 : -errno;
	for (ssize_t i = 0; i < k; i++)
		if (buf[i] != octet(me->got + (uint64_t)i, seed[1])) {
			me->got += (uint64_t)i;
			memcpy(me->wrong, buf + i, (size_t)(k - i) < sizeof(me->wrong) ? (size_t)(k - i) : sizeof(me->wrong));
			return -EILSEQ;
		}
	me->got += (uint64_t)k;
	me->eof = !k;
	return 0;
}

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR | O_CLOEXEC), fd, ret = 0;
	bool client = argv[2][0] == '0';
	unsigned int r = (unsigned int)atoi(argv[4]);
	struct end *both = mmap(NULL, 2 * sizeof(*both), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	close(file);
	me = &both[!client];
	nap_us = (unsigned int)atoi(argv[5]);
	row = argc > 6 ? (unsigned int)atoi(argv[6]) : 0;
	seed[0] = r + !client;
	seed[1] = r + client;
	fd = fresh(argv[3], client);
	if (fd < 0)
		return over(2, errno);
	while (!ret && !(me->eof && me->sent == me->total)) {
		struct pollfd p = { .fd = fd, .events = (short)((me->eof ? 0 : POLLIN) | (may_send() ? POLLOUT : 0)) };

		if (poll(&p, 1, -1) < 0)
			return over(2, errno);
		if (p.revents & POLLOUT)
			ret = say_row(fd, &r);
		if (!ret && p.revents & (POLLIN | POLLERR | POLLHUP) && !me->eof)
			ret = hear(fd);
		else if (!ret && p.revents & (POLLERR | POLLHUP))	/* its end was read, and it is gone */
			ret = may_send() ? say_row(fd, &r) : -ECONNRESET;
	}
	close(fd);
	return over(ret == -EILSEQ ? 3 : ret ? 2 : 1, -ret);
}
