// SPDX-License-Identifier: MIT
/* Signals at a high rate, in the middle of whatever: no octet is lost or comes twice, none of them is lost, and handlers may use the connection themselves. */
#include <pthread.h>
#include <sys/epoll.h>
#include "../sock.h"

#define OCTETS	(3u << 20)
#define TIMES	400

static int the_fd;
static volatile uint64_t came, asked;
static _Atomic uint32_t queued;

static void on_time(int sig)
{
	int e = errno, n;
	char b;

	came++;
	if (!(came % 3) && recv(the_fd, &b, 1, MSG_PEEK | MSG_DONTWAIT) >= -1 && ioctl(the_fd, FIONREAD, &n) >= -1)
		asked++;
	errno = e;
}

static void on_queue(int sig, siginfo_t *info, void *context)
{
	queued += (uint32_t)info->si_value.sival_int;
}

static timer_t storm(int flags)
{
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec it = { { 0, 50000 }, { 0, 50000 } };
	struct sigaction a = { .sa_handler = on_time, .sa_flags = flags };
	timer_t t;

	ok(sigaction(SIGUSR1, &a, NULL));
	ok(timer_create(CLOCK_MONOTONIC, &e, &t));
	ok(timer_settime(t, 0, &it, NULL));
	return t;
}

static uint8_t octet(uint64_t i)
{
	return (uint8_t)(i * 7 + (i >> 11));
}

/* Both ways at once, by epoll. */
static void both_ways(int fd)
{
	static uint8_t out[20000], in[30000];
	uint64_t sent = 0, got = 0;
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT };
	int ep = epoll_create1(0);
	unsigned int len = 1;

	ok(fcntl(fd, F_SETFL, O_NONBLOCK));
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	while (sent < OCTETS || got < OCTETS) {
		ssize_t n = epoll_wait(ep, &e, 1, T_WAIT_MS);

		must(n == 1 || (n < 0 && errno == EINTR));
		if (n < 0)
			continue;
		if (e.events & EPOLLOUT && sent < OCTETS) {
			len = (len * 5 + 3) % sizeof(out) + 1;
			if (len > OCTETS - sent)
				len = (unsigned int)(OCTETS - sent);
			for (unsigned int i = 0; i < len; i++)
				out[i] = octet(sent + i);
			n = send(fd, out, len, 0);
			must(n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
			sent += n > 0 ? (uint64_t)n : 0;
			if (sent == OCTETS) {
				struct epoll_event only = { .events = EPOLLIN };

				ok(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &only));
			}
		}
		if (!(e.events & EPOLLIN))
			continue;
		n = recv(fd, in, OCTETS - got < sizeof(in) ? OCTETS - got : sizeof(in), 0);	/* what the other role sends next is for later */
		must(n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
		for (ssize_t i = 0; i < n; i++)
			must(in[i] == octet(got + (uint64_t)i));
		got += n > 0 ? (uint64_t)n : 0;
	}
	close(ep);
	ok(fcntl(fd, F_SETFL, 0));
	say("octets %llu %llu", (unsigned long long)sent, (unsigned long long)got);
}

static void ten(ssize_t n, int turn)
{
	if (n != 10)
		say("%zd octets, errno %d, in turn %d", n, errno, turn);
	must(n == 10);
}

/* Requests and answers, blocking. */
static void turns(int fd, bool first)
{
	char b[64];

	for (int i = 0; i < TIMES; i++) {
		if (first)
			must(send(fd, "0123456789", 10, 0) == 10);
		ten(recv(fd, b, 10, MSG_WAITALL), i);
		if (!first)
			must(send(fd, "0123456789", 10, 0) == 10);
	}
	say("turns");
}

static void *sends_signals(void *p)
{
	pthread_t to = *(pthread_t *)p;

	for (int i = 1; i <= TIMES; ) {
		int e = pthread_sigqueue(to, SIGRTMIN + 3, (union sigval){ .sival_int = i });

		must(!e || e == EAGAIN);
		i += !e;
	}
	return NULL;
}

static void both(int fd, bool first)
{
	struct sigaction q = { .sa_sigaction = on_queue, .sa_flags = SA_SIGINFO | SA_RESTART };
	pthread_t me = pthread_self(), t;
	sigset_t one;
	timer_t timer;

	the_fd = fd;
	timer = storm(SA_RESTART);
	both_ways(fd);
	turns(fd, first);
	ok(sigaction(SIGRTMIN + 3, &q, NULL));
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	must(!pthread_sigmask(SIG_BLOCK, &one, NULL));
	must(!pthread_create(&t, NULL, sends_signals, &me));
	must(!pthread_sigmask(SIG_UNBLOCK, &one, NULL));
	turns(fd, first);
	must(!pthread_join(t, NULL));
	turns(fd, first);
	ok(timer_delete(timer));
	say("queued %u of %u, timer %d", queued, TIMES * (TIMES + 1) / 2, came > 100 && asked > 30);
	close(fd);
}

SOCK_BOTH(both)
