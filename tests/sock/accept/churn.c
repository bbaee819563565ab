// SPDX-License-Identifier: MIT
/* Threads that connect, register, duplicate, fork and close at random: every connection that is used carries its data. */
#include "../sock.h"

#define THREADS	4
#define ROUNDS	60
#define SIZE	4000

static struct sockaddr_storage peer;
static unsigned int seed;

/* ---- server: echo, a thread per connection, one epoll set with the listener ---- */

static void *echo(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char b[SIZE];
	ssize_t n;

	while ((n = recv(fd, b, sizeof(b), 0)) > 0)
		for (ssize_t o = 0, r; o < n; o += r)
			if ((r = send(fd, b + o, (size_t)(n - o), MSG_NOSIGNAL)) < 0) {
				close(fd);
				return NULL;
			}
	close(fd);
	return NULL;
}

static void server(void)
{
	int l = t_listen(0), ep = (int)ok(epoll_create1(EPOLL_CLOEXEC)), served = 0;
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = l }, got[2];

	set_nonblock(l, true);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, l, &ev));
	ev.data.fd = T_CHAN;
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, T_CHAN, &ev));
	for (bool done = false; !done;) {
		int n = (int)ok(epoll_wait(ep, got, 2, T_TIMEOUT_MS));

		must(n > 0);
		for (int i = 0; i < n; i++) {
			pthread_t t;
			int fd;

			if (got[i].data.fd == T_CHAN) {
				done = true;
				continue;
			}
			while ((fd = accept4(l, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
				must(!pthread_create(&t, NULL, echo, (void *)(intptr_t)fd));
				pthread_detach(t);
				served++;
			}
		}
	}
	must(served >= THREADS * ROUNDS / 2);
	say("served");
}

/* ---- client ---- */

static void wait_out(int fd, int how, int ep)
{
	struct epoll_event ev;
	fd_set w;

	switch (how % 3) {
	case 0:
		must(t_poll(fd, POLLOUT, T_WAIT_MS) & POLLOUT);
		break;
	case 1:
		FD_ZERO(&w);
		FD_SET(fd, &w);
		must(select(fd + 1, NULL, &w, NULL, &(struct timeval){ T_WAIT_MS / 1000, 0 }) == 1 && FD_ISSET(fd, &w));
		break;
	default:
		must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
		must(ev.events & EPOLLOUT && ev.data.u64 == ((uint64_t)fd << 32 | 77));
	}
}

static void arm(int ep, int op, int fd, int mode)
{
	struct epoll_event ev = { .data.u64 = (uint64_t)fd << 32 | 77 };

	ev.events = EPOLLOUT | (mode == 1 ? EPOLLET : mode == 2 ? EPOLLONESHOT : 0u);
	ok(epoll_ctl(ep, op, fd, &ev));
}

static int begin(unsigned int *rs, int ep)
{
	int fd = t_socket(), mode = rand_r(rs) % 3, before = rand_r(rs) % 2, how = rand_r(rs), err = 0, r;
	socklen_t len = sizeof(err);

	if (rand_r(rs) % 3 == 0) {
		ok(connect(fd, (void *)&peer, t_salen(&peer)));
		arm(ep, EPOLL_CTL_ADD, fd, mode);
		return fd;
	}
	if (rand_r(rs) % 8 == 0) {	/* shared: stays plain */
		int d = (int)ok(dup(fd));
		bool other = rand_r(rs) % 2;

		close(other ? fd : d);
		fd = other ? d : fd;
	}
	set_nonblock(fd, true);
	if (before)
		arm(ep, EPOLL_CTL_ADD, fd, mode);
	r = connect(fd, (void *)&peer, t_salen(&peer));
	must(r == 0 || errno == EINPROGRESS);
	if (!before)
		arm(ep, EPOLL_CTL_ADD, fd, mode);
	if (rand_r(rs) % 8 == 0) {	/* given up half-way */
		close(fd);
		return -1;
	}
	wait_out(fd, how, ep);
	ok(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	must(err == 0);
	set_nonblock(fd, false);
	return fd;
}

static int shuffle(unsigned int *rs, int fd)
{
	int d;

	switch (rand_r(rs) % 4) {
	case 0:
		d = (int)ok(dup(fd));
		close(fd);
		return d;
	case 1:
		d = (int)ok(fcntl(fd, F_DUPFD_CLOEXEC, 100));
		close(d);
		return fd;
	case 2:
		d = (int)ok(open("/dev/null", O_RDONLY));
		ok(dup2(fd, d));
		close(fd);
		return d;
	default:
		return fd;
	}
}

static void talk(unsigned int *rs, int fd)
{
	uint8_t out[SIZE], in[SIZE];
	size_t n = 1 + (size_t)rand_r(rs) % SIZE;
	unsigned int s = (unsigned int)rand_r(rs);

	t_fill(out, n, 0, s);
	send_all(fd, out, n);
	must(recv_all(fd, in, n) == n);
	t_same(in, n, 0, s);
}

static void *client_thread(void *arg)
{
	unsigned int rs = seed + (unsigned int)(intptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		/* a set of its own: a closed number of a duplicated socket stays in the set, on TCP as well */
		int ep = (int)ok(epoll_create1(EPOLL_CLOEXEC)), fd = begin(&rs, ep), st;
		pid_t pid;

		close(ep);
		if (fd < 0)
			continue;
		/* a fork of another thread may have come in between, then the connection is plain: the data is right all the same */
		talk(&rs, fd);
		fd = shuffle(&rs, fd);
		if (rand_r(&rs) % 16 == 0) {
			pid = (pid_t)ok(fork());
			if (!pid) {
				talk(&rs, fd);
				_exit(0);
			}
			ok(waitpid(pid, &st, 0));
			must(st == 0);
		}
		talk(&rs, fd);
		if (rand_r(&rs) % 2)
			ok(shutdown(fd, SHUT_WR));
		close(fd);
	}
	return NULL;
}

static void client(void)
{
	const char *given = getenv("IW_SEED");
	pthread_t t[THREADS];

	seed = given ? (unsigned int)strtoul(given, NULL, 0) : (unsigned int)time(NULL);
	fprintf(stderr, "# IW_SEED=%u\n", seed);
	t_peer(&peer);
	for (intptr_t i = 0; i < THREADS; i++)
		must(!pthread_create(&t[i], NULL, client_thread, (void *)i));
	for (int i = 0; i < THREADS; i++)
		must(!pthread_join(t[i], NULL));
	t_put("s", 1);
	say("done");
}

SOCK_ROLES(server, client)
