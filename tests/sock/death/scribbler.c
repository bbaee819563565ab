// SPDX-License-Identifier: MIT
/*
 * One end writes by chance into all memory that it shares with the other one, which goes on with whatever calls: none of them crashes, sleeps
 * for longer than it was told to, or touches what is beside its buffer, and another connection between the two is not disturbed. On plain TCP there is
 * no such memory. IW_SEED repeats what chance did.
 */
#include <sys/mman.h>

#include "../sock.h"

#define TURNS	300
#define MS	1500
#define GUARD	64u

static uint64_t rnd_ = 88172645463325252u;

static unsigned int rnd(unsigned int n)
{
	rnd_ ^= rnd_ << 13;
	rnd_ ^= rnd_ >> 7;
	rnd_ ^= rnd_ << 17;
	return (unsigned int)(rnd_ >> 33) % n;
}

static void seeded(void)
{
	const char *given = getenv("IW_SEED");
	unsigned int seed = given ? (unsigned int)atoi(given) : (unsigned int)getpid();

	fprintf(stderr, "# IW_SEED=%u\n", seed);
	rnd_ += seed * 2654435761u;
}

/* ---- who scribbles ---- */

static struct { uint8_t *at; size_t len; } shared[16];
static unsigned int many;
static _Atomic bool over;

static void find_shared(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];

	must(f);
	while (fgets(line, sizeof(line), f) && many < 16) {
		unsigned long a, b;

		if (sscanf(line, "%lx-%lx rw-s", &a, &b) != 2 || !strstr(line, "memfd:iwsock ") || b - a <= 4096)
			continue;
		shared[many].at = mremap((void *)a, 0, b - a, MREMAP_MAYMOVE);	/* once more: it may be unmapped */
		must(shared[many].at != MAP_FAILED);
		shared[many++].len = b - a;
	}
	fclose(f);
}

/* Words more than octets, and those at the beginning of a page more than others. */
static void *scribbles(void *unused)
{
	while (!over && many) {
		unsigned int i = rnd(many);
		size_t page = rnd((unsigned int)(shared[i].len / 4096)) * 4096ul;
		uint64_t v = rnd(3) ? (uint64_t)rnd(1 << 20) << rnd(4) : (uint64_t)rnd(1u << 31) * rnd(1u << 31);

		if (!rnd(3))
			page = 4096 % shared[i].len;
		if (rnd(4))
			*(volatile uint64_t *)(shared[i].at + page + rnd(40) * 8) = v;
		else
			shared[i].at[page + rnd(4096)] = (uint8_t)v;
		if (!rnd(50))
			usleep(rnd(300));
	}
	return NULL;
}

static void bad(int fd)
{
	char b[2000];
	long end = t_ms() + MS;

	while (t_ms() < end) {
		if (rnd(2))
			(void)!send(fd, b, 1 + rnd(sizeof(b)), MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			(void)!recv(fd, b, 1 + rnd(sizeof(b)), MSG_DONTWAIT);
		if (!rnd(20))
			usleep(rnd(200));
	}
}

/* ---- who has to bear it ---- */

static void any_call(int fd, int set)
{
	static uint8_t b[8192 + 2 * GUARD];
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	struct epoll_event ev;
	size_t n = 1 + rnd(rnd(3) ? 200 : 8192);
	int q;

	memset(b, 0xa5, sizeof(b));
	switch (rnd(9)) {
	case 0:
		(void)!send(fd, b + GUARD, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	case 1:
		(void)!recv(fd, b + GUARD, n, 0);
		break;
	case 2:
		(void)!recv(fd, b + GUARD, n, MSG_DONTWAIT);
		break;
	case 3:
		(void)!recv(fd, b + GUARD, n, MSG_PEEK | MSG_DONTWAIT);
		break;
	case 4:
		(void)!poll(&p, 1, (int)rnd(3));
		break;
	case 5:
		(void)!epoll_wait(set, &ev, 1, (int)rnd(3));
		break;
	case 6:
		(void)!ioctl(fd, FIONREAD, &q);
		break;
	case 7:
		(void)!recv(fd, b + GUARD, n, MSG_WAITALL);
		break;
	default:
		(void)!send(fd, b + GUARD, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	for (unsigned int i = 0; i < GUARD; i++)
		must(b[i] == 0xa5 && b[GUARD + n + i] == 0xa5);
}

static void turns(int fd, bool client)
{
	char c = 'x';

	for (int i = 0; i < TURNS; i++) {
		if (client)
			must(send(fd, &c, 1, 0) == 1);
		must(recv(fd, &c, 1, 0) == 1 && c == 'x');
		if (!client)
			must(send(fd, &c, 1, 0) == 1);
	}
}

static void server(void)
{
	int l = t_listen(0), fd = t_accept(l), other;
	pthread_t t;

	seeded();
	turns(fd, false);
	find_shared();
	other = t_accept(l);
	turns(other, false);
	t_sync();
	must(!pthread_create(&t, NULL, scribbles, NULL));
	bad(fd);
	over = true;
	must(!pthread_join(t, NULL));
	t_sync();
	turns(other, false);
	say("the other connection goes on");
}

static void client(void)
{
	struct timeval tv = { 0, 50000 };
	struct epoll_event ev = { .events = EPOLLIN };
	int fd, other, set = (int)ok(epoll_create1(0));
	struct sockaddr_storage ss;
	long end, began, most = 0;

	seeded();
	t_peer(&ss);
	fd = t_connect_to(&ss);
	turns(fd, true);
	other = t_connect_to(&ss);
	turns(other, true);
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	ok(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
	t_sync();
	for (end = t_ms() + MS; t_ms() < end;) {
		began = t_ms();
		any_call(fd, set);
		if (t_ms() - began > most)
			most = t_ms() - began;
	}
	must(most < 20000);	/* 50 ms, on whatever machine */
	t_sync();
	turns(other, true);
	close(fd);
	say("the other connection goes on");
}

SOCK_ROLES(server, client)
