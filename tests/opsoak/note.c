// SPDX-License-Identifier: MIT
/* What was done is noted, what was wrong is said once, and whether a signal may have come between is known. */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>

#include "opsoak.h"

struct shm *shm;
const uint8_t *table;
struct proc *self;
int self_n;

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t now_ms(void)
{
	return now_us() / 1000;
}

void count(enum op op)
{
	shm->count[op]++;
}

void note(struct hold *h, enum op op, int64_t asked, int64_t got, int err, uint64_t at)
{
	struct line *l = &h->e->line[h->e->lines++ % LINES];

	*l = (struct line){ now_us(), gettid(), (int)op, h->fd, err, asked, got, at };
	h->s->moved_ms = now_ms();
	count(op);
}

/* The first one is what the report says; its process stays as it is until somebody ends it. */
void fail(struct stream *s, int me, const char *fmt, ...)
{
	int none = 0;
	va_list ap;

	if (atomic_compare_exchange_strong(&shm->failed, &none, 1)) {
		int n = snprintf(shm->why, sizeof(shm->why), "process %d: ", getpid());

		va_start(ap, fmt);
		vsnprintf(shm->why + n, sizeof(shm->why) - (size_t)n, fmt, ap);
		va_end(ap);
		shm->fail_stream = s ? (int)(s - shm->streams) : -1;
		shm->fail_end = me;
		shm->failed = 2;
	}
	while (!kill(shm->main, 0))
		usleep(100000);
	_exit(3);
}

void call_begin(struct call *c)
{
	c->late = self->sent != self->handled;
	c->stops = self->stops;
	c->sent = self->sent;
	c->rude = self->rude;
	c->us = now_us();
}

/*
 * Whether a signal, or a stop, may have come since: a stop ends waits, and MSG_WAITALL with part of the octets, on any TCP. Who stops says so before and
 * after: the number is odd meanwhile, since a call may begin and end in there. A signal that was sent may come to any thread, later, until it was handled.
 */
bool cut(const struct call *c)
{
	return c->late || c->stops & 1 || self->stops != c->stops || self->sent != c->sent;
}

bool cut_rudely(const struct call *c)
{
	return c->late || self->rude != c->rude;
}

static void mask(int how, int a, int b)
{
	sigset_t m;

	sigemptyset(&m);
	sigaddset(&m, a);
	if (b)
		sigaddset(&m, b);
	pthread_sigmask(how, &m, NULL);
}

void block_rude(bool on)
{
	mask(on ? SIG_BLOCK : SIG_UNBLOCK, SIGUSR2, 0);
}

/* Both, while there are no handlers: around exec. */
void block_signals(bool on)
{
	mask(on ? SIG_BLOCK : SIG_UNBLOCK, SIGUSR1, SIGUSR2);
}

/*
 * Nobody is told of his children. SIGCHLD is ignored by default, but not where it finds a thread that has it blocked for a moment, as libc does
 * within fork and pthread_create: then another thread is woken for it, and its epoll_wait() says EINTR.
 */
void block_children(void)
{
	mask(SIG_BLOCK, SIGCHLD, 0);
}

void wait_mask(sigset_t *m, int sig)
{
	sigemptyset(m);
	sigaddset(m, SIGCHLD);
	if (sig)
		sigaddset(m, sig);
}
