// SPDX-License-Identifier: MIT
/*
 * Octets that came while their reader was awake, others behind them that came while it was not; a duplicate is made, or a child, and then the first
 * call is none that reads: they are spliced into a pipe, others are sent, flags are asked for. All come, in order, and no flag is lost.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define OCTETS	3000
#define HALF	(OCTETS / 2)
#define PIPE	65536

enum deed { SPLICED, ANSWERED, SPLICED_FULL, NONBLOCK, NONBLOCK_FORK, DEEDS };
static const char *const names[DEEDS] = { "spliced", "others are sent", "spliced into a full pipe", "does not wait", "does not wait, over a fork" };

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
	must(fcntl(fd, F_GETFL) & O_NONBLOCK);
	must(recv_all(fd, buf, OCTETS) == OCTETS);
	must(read(fd, buf, 1) == -1 && errno == EAGAIN);
	set_nonblock(fd, false);
}

static void server(int fd)
{
	for (int deed = 0; deed < DEEDS; deed++) {
		for (int i = 0; i < TURNS; i++) {
			must(recv(fd, buf, 1, 0) == 1);
			must(send(fd, buf, 1, 0) == 1);
		}
		set_nonblock(fd, deed >= NONBLOCK);
		t_sync();
		t_readable(fd, HALF);
		t_until(fd, POLLIN);	/* what comes then comes by the carrier */
		t_sync();
		t_sync();
		t_readable(fd, OCTETS);
		if (deed == NONBLOCK_FORK)
			a_child_comes_and_goes();
		else
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
		default:
			does_not_wait(fd);
		}
		t_same(buf, OCTETS, 0, (unsigned int)deed);
		say("%s: all come", names[deed]);
		t_sync();
	}
	close(fd);
}

static void client(int fd)
{
	for (int deed = 0; deed < DEEDS; deed++) {
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
		t_sync();
	}
	must(recv(fd, buf, 1, 0) == 0);
	close(fd);
}

SOCK_PAIR(server, client)
