// SPDX-License-Identifier: MIT
/* Of each end one thread reads by recv, another one writes by calls that the library does not see: no octet is lost, whenever the ends are switched. */
#include "../sock.h"

#define ROUNDS	48
#define PIECES	120
#define MOST	300u

static const char *const ways[] = { "stdio", "dprintf", "the system call", "stdout", "some by each" };
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

struct end {
	int fd, round;
	unsigned int seed;	/* of what it writes */
};

static size_t length(int round, int i)
{
	return 1 + (size_t)(round * 7919 + i * 104729) % MOST;
}

static void raw(int fd, const char *p, size_t n)
{
	while (n) {
		long r = t_sys(SYS_write, fd, p, n);

		must(r > 0);
		p += r;
		n -= (size_t)r;
	}
}

/* Text, so that dprintf can write it. */
static void piece(char *b, size_t n, uint64_t pos, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		b[i] = (char)('a' + t_octet(pos + i, seed) % 26);
	b[n] = 0;
}

static void put(const struct end *e, FILE *f, int i, const char *b, size_t n)
{
	switch (e->round % WAYS == 4 ? i % 3 : e->round % WAYS) {
	case 0:
	case 3:
		must(fwrite(b, 1, n, f) == n && !fflush(f));
		break;
	case 1:
		must(dprintf(e->fd, "%s", b) == (int)n);
		break;
	default:
		raw(e->fd, b, n);
	}
}

/* As a program that was started with the socket as its standard output: nobody told libc of it. */
static FILE *file(const struct end *e)
{
	FILE *f;

	if (e->round % WAYS == 3) {
		ok(dup2(e->fd, 1));
		return stdout;
	}
	f = e->round % WAYS == 1 || e->round % WAYS == 2 ? NULL : fdopen((int)ok(dup(e->fd)), "w");
	must(f || e->round % WAYS == 1 || e->round % WAYS == 2);
	return f;
}

static void *writer(void *arg)
{
	const struct end *e = arg;
	FILE *f = file(e);
	char b[MOST + 1];
	uint64_t pos = 0;

	for (int i = 0; i < PIECES; i++) {
		size_t n = length(e->round, i);

		piece(b, n, pos, e->seed);
		put(e, f, i, b, n);
		pos += n;
		if (i % 8 == 7)
			usleep(100);
	}
	if (f && f != stdout)
		fclose(f);
	return NULL;
}

static void reader(const struct end *e)
{
	char b[1000], want[sizeof(b) + 1];
	uint64_t all = 0, pos = 0;

	for (int i = 0; i < PIECES; i++)
		all += length(e->round, i);
	while (pos < all) {
		ssize_t n;

		if (!t_poll(e->fd, POLLIN, 10000)) {
			fprintf(stderr, "%s, %s: octets %llu to %llu did not come\n", t_role, ways[e->round % WAYS], (unsigned long long)pos,
				(unsigned long long)all);
			t_fail("unseen_threads.c", __LINE__, "octets were lost");
		}
		n = recv(e->fd, b, sizeof(b), 0);
		must(n > 0 && pos + (uint64_t)n <= all);
		piece(want, (size_t)n, pos, !e->seed);
		must(!memcmp(b, want, (size_t)n));
		pos += (uint64_t)n;
	}
}

static void one(int fd, int round, unsigned int seed)
{
	struct end e = { fd, round, seed };
	int out = round % WAYS == 3 ? (int)ok(dup(1)) : -1;
	pthread_t t;

	must(!pthread_create(&t, NULL, writer, &e));
	reader(&e);
	must(!pthread_join(t, NULL));
	if (out >= 0) {
		ok(dup2(out, 1));
		close(out);
	}
	close(fd);
}

static void server(void)
{
	int lfd = t_listen(0);

	for (int i = 0; i < ROUNDS; i++)
		one(t_accept(lfd), i, 0);
	say("all of them");
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < ROUNDS; i++)
		one(t_connect_to(&ss), i, 1);
	say("all of them");
}

SOCK_ROLES(server, client)
