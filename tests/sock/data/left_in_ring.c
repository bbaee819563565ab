// SPDX-License-Identifier: MIT
/*
 * Octets that came while their reader was awake, others behind them that came while it was not; a duplicate is made, or a child, and then the first
 * call is none that reads: they are spliced into a pipe, others are sent, flags are asked for. All come, in order, and no flag is lost.
 */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define OCTETS	3000
#define HALF	(OCTETS / 2)
#define PIPE	65536

enum deed { SPLICED, ANSWERED, SPLICED_FULL, NONBLOCK, NONBLOCK_FORK, WATCHED, DEEDS };
static const char *const names[DEEDS] = { "spliced", "others are sent", "spliced into a full pipe", "does not wait", "does not wait, over a fork",
	"waited for, and a duplicate is stdio's" };

static char buf[OCTETS];

static void a_duplicate_comes_and_goes(int fd)
{
	int d = (int)ok(dup(fd));

	ok(close(d));
}

static void a_child_comes_and_goes(void)
{
	pid_t pid = (pid_t)ok(fork());
	int status;

	if (!pid)
		_exit(0);
	must(waitpid(pid, &status, 0) == pid && !status);
}

static void read_all(int fd, char *to, size_t n)
{
	while (n) {
		ssize_t r = read(fd, to, n);

		must(r > 0);
		to += r;
		n -= (size_t)r;
	}
}

static void *drain(void *arg)
{
	static char pipeful[PIPE];
	const int *p = arg;

	t_asleep(getpid());
	read_all(p[0], pipeful, PIPE);
	return NULL;
}

static void spliced(int fd, bool full)
{
	static char pipeful[PIPE];
	pthread_t t;
	size_t got = 0;
	int p[2];

	ok(pipe(p));
	if (full) {
		must(write(p[1], pipeful, PIPE) == PIPE);
		must(splice(fd, NULL, p[1], NULL, OCTETS, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN);
		must(!pthread_create(&t, NULL, drain, p));
	}
	while (got < OCTETS) {
		ssize_t n = splice(fd, NULL, p[1], NULL, 700, 0);

		must(n > 0);
		if (full) {
			must(!pthread_join(t, NULL));
			full = false;
		}
		read_all(p[0], buf + got, (size_t)n);
		got += (size_t)n;
	}
	close(p[0]);
	close(p[1]);
}

static void does_not_wait(int fd)
{
	char c;

	must(fcntl(fd, F_GETFL) & O_NONBLOCK);
	must(recv_all(fd, buf, OCTETS) == OCTETS);
	t_sync();
	must(read(fd, buf, 0) == 0 && recv(fd, &c, 1, 0) == -1 && errno == EAGAIN);
	t_sync();
	set_nonblock(fd, false);
}

/* Its registration is under the number that it had before. */
static void watched(int fd)
{
	int ep = (int)ok(epoll_create1(EPOLL_CLOEXEC)), d;
	struct epoll_event ev = { .events = EPOLLIN };
	FILE *f;

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
	d = (int)ok(dup(fd));
	f = fdopen(d, "r");
	must(f && !fclose(f));
	for (size_t got = 0; got < OCTETS; got += 500) {
		ev.events = EPOLLIN;
		ok(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
		must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1 && ev.events == EPOLLIN);
		must(recv_all(fd, buf + got, 500) == 500);
	}
	ok(close(ep));
}

static void server(void)
{
	int l = t_listen(0);
	char end;

	for (int deed = 0; deed < DEEDS; deed++) {
		int fd = t_accept(l);

		for (int i = 0; i < TURNS; i++) {
			must(recv(fd, buf, 1, 0) == 1);
			must(send(fd, buf, 1, 0) == 1);
		}
		set_nonblock(fd, deed == NONBLOCK || deed == NONBLOCK_FORK);
		t_sync();
		t_readable(fd, HALF);
		t_until(fd, POLLIN);	/* what comes then comes by the carrier */
		t_sync();
		t_sync();
		t_readable(fd, OCTETS);
		if (deed == NONBLOCK_FORK)
			a_child_comes_and_goes();
		else if (deed != WATCHED)
			a_duplicate_comes_and_goes(fd);
		memset(buf, 0, sizeof(buf));
		switch (deed) {
		case SPLICED:
		case SPLICED_FULL:
			spliced(fd, deed == SPLICED_FULL);
			break;
		case ANSWERED:
			for (int i = 0; i < TURNS; i++)
				must(send(fd, "b", 1, 0) == 1);
			must(recv_all(fd, buf, OCTETS) == OCTETS);
			break;
		case WATCHED:
			watched(fd);
			break;
		default:
			does_not_wait(fd);
		}
		t_same(buf, OCTETS, 0, (unsigned int)deed);
		must(recv(fd, &end, 1, 0) == 0);
		say("%s: all come", names[deed]);
		close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int deed = 0; deed < DEEDS; deed++) {
		int fd = t_connect_to(&ss);

		for (int i = 0; i < TURNS; i++) {
			must(send(fd, "a", 1, 0) == 1);
			must(recv(fd, buf, 1, 0) == 1);
		}
		t_fill(buf, OCTETS, 0, (unsigned int)deed);
		for (int at = 0; at < OCTETS; at += 100) {
			if (at == HALF) {
				t_sync();
				t_sync();
			}
			must(send(fd, buf + at, 100, 0) == 100);
		}
		t_sync();
		if (deed == ANSWERED)
			must(recv_all(fd, buf, TURNS) == TURNS);
		if (deed == NONBLOCK || deed == NONBLOCK_FORK) {
			t_sync();
			t_sync();
		}
		ok(shutdown(fd, SHUT_WR));
		must(recv(fd, buf, 1, 0) == 0);
		close(fd);
	}
}

SOCK_ROLES(server, client)
