// SPDX-License-Identifier: MIT
/* What was sent first on one host is reported first, on whichever connection it is, once the set has had nothing: a server does what its clients asked in that order. By rings, while both ends have them. */
#include "../sock.h"

#define CONNS	6
#define ROUNDS	300
#define LEN	4

/* The kernel keeps that order between two sockets of one host; what comes through daemons, or is switched meanwhile, need not: there it all has to come. */
static bool in_order(void)
{
	const char *a = getenv("IW_TEST_NETNS_SERVER"), *b = getenv("IW_TEST_NETNS_CLIENT"), *conf = getenv("IWSOCK_CONF");
	bool library = getenv("IW_TEST_PRELOAD_SERVER") || getenv("IW_TEST_PRELOAD_CLIENT"), rings = false;
	char line[128];
	FILE *f = library && conf ? fopen(conf, "re") : NULL;

	while (f && fgets(line, sizeof(line), f))
		rings |= !strncmp(line, "rings always", 12);
	if (f)
		fclose(f);
	return !(a && b && strcmp(a, b)) && (!library || rings);
}

static void answer(int fd, const char b[LEN])
{
	if (b[0] == 'a')
		must(send(fd, b, LEN, 0) == LEN);
}

/* All at once; how many are not where they were sent. */
static int at_once(int ep, const int fd[CONNS], const uint8_t order[CONNS])
{
	struct epoll_event ev[CONNS];
	int n = epoll_wait(ep, ev, CONNS, T_WAIT_MS), wrong = 0;
	char b[LEN];

	must(n == CONNS);
	for (int i = 0; i < n; i++)
		wrong += ev[i].data.u32 != order[i];
	for (int i = 0; i < n; i++) {
		must(recv_all(fd[ev[i].data.u32], b, LEN) == LEN);
		answer(fd[ev[i].data.u32], b);
	}
	return wrong;
}

/* As it comes; an edge may be told again by a switch. */
static void by_and_by(int ep, const int fd[CONNS])
{
	struct epoll_event ev[CONNS];
	char b[LEN];

	for (int seen = 0; seen < CONNS; ) {
		int n = epoll_wait(ep, ev, CONNS, T_WAIT_MS);

		must(n > 0);
		for (int i = 0; i < n; i++) {
			ssize_t r = recv(fd[ev[i].data.u32], b, LEN, MSG_DONTWAIT);

			must(r == LEN || (r == -1 && errno == EAGAIN));
			if (r != LEN)
				continue;
			answer(fd[ev[i].data.u32], b);
			seen++;
		}
	}
}

static void talk(int fd, bool first)
{
	char b[LEN] = "talk";

	for (int i = 0; i < 40; i++, first = !first)
		if (first)
			must(send(fd, b, LEN, 0) == LEN);
		else
			must(recv_all(fd, b, LEN) == LEN);
}

static void server(void)
{
	int l, fd[CONNS], ep = (int)ok(epoll_create1(EPOLL_CLOEXEC)), wrong = 0;
	struct epoll_event ev[CONNS];
	bool ordered = in_order();

	l = t_listen(0);
	for (int i = 0; i < CONNS; i++) {
		fd[i] = t_accept(l);
		talk(fd[i], false);
		ev[0] = (struct epoll_event){ .events = EPOLLIN | (i % 2 ? EPOLLET : 0), .data.u32 = (uint32_t)i };
		ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd[i], ev));
	}
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t order[CONNS];
		int n;

		while (ordered && (n = epoll_wait(ep, ev, CONNS, 0)))
			must(n > 0 && round == 0);	/* edges of what was there when they were put in */
		t_sync();
		t_get(order, sizeof(order));
		if (ordered)
			wrong += at_once(ep, fd, order);
		else
			by_and_by(ep, fd);
	}
	say("out of order: %d", wrong);
	t_sync();
}

static void client(void)
{
	struct sockaddr_storage ss;
	unsigned int seed = (unsigned int)getpid();
	int fd[CONNS];

	t_peer(&ss);
	for (int i = 0; i < CONNS; i++) {
		fd[i] = t_connect_to(&ss);
		ok(set_int(fd[i], IPPROTO_TCP, TCP_NODELAY, 1));
		talk(fd[i], true);
	}
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t order[CONNS];
		char b[LEN], answered[CONNS];

		for (int i = 0; i < CONNS; i++) {
			int k = (int)(rand_r(&seed) % (unsigned int)(i + 1));

			order[i] = order[k];
			order[k] = (uint8_t)i;
		}
		t_sync();
		for (int i = 0; i < CONNS; i++) {
			answered[i] = rand_r(&seed) % 2 ? 'a' : 'n';
			b[0] = answered[i];
			must(send(fd[order[i]], b, LEN, 0) == LEN);
		}
		t_put(order, sizeof(order));
		for (int i = 0; i < CONNS; i++)
			if (answered[i] == 'a')
				must(recv_all(fd[order[i]], b, LEN) == LEN);
	}
	t_sync();
}

SOCK_ROLES(server, client)
