// SPDX-License-Identifier: MIT
/* Closing descriptors whose close may wait: closing.h. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "closing.h"
#include "fdinfo.h"
#include "list.h"
#include "engine.h"
#include "log.h"

#define GUARD_NS	100000
#define AGAIN_NS	2000000	/* where a signal takes longer than this nothing would go on: strace, emulation */
#define PENDING_MAX	64u	/* closes of one user that wait */

struct pending {
	struct op op;
	struct list node;
	uint32_t uid;
	int fd;
};

static struct list pending = { &pending, &pending };

/* ---- sockets ---- */

static void guard_rang(int sig)
{
}

/* A signal to this thread again and again, which ends any wait of a close. The engine has one thread. */
static timer_t *guard(void)
{
	static timer_t timer;
	static bool tried, ok;
	struct sigevent e = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
	struct sigaction a = { .sa_handler = guard_rang };
	sigset_t set;

	if (!tried) {
		tried = true;
		e._sigev_un._tid = gettid();
		sigemptyset(&set);
		sigaddset(&set, SIGRTMIN);
		sigprocmask(SIG_UNBLOCK, &set, NULL);	/* whoever started us may have blocked it */
		ok = !sigaction(SIGRTMIN, &a, NULL) && !timer_create(CLOCK_MONOTONIC, &e, &timer);
		if (!ok)
			log_warn("no timer: %s; an application's SO_LINGER can hold the daemon up", strerror(errno));
	}
	return ok ? &timer : NULL;
}

void close_socket(int fd)
{
	const struct itimerspec on = { .it_value.tv_nsec = GUARD_NS, .it_interval.tv_nsec = AGAIN_NS }, off = { 0 };
	timer_t *t = guard();

	if (t)
		timer_settime(*t, 0, &on, NULL);
	close(fd);
	if (t)
		timer_settime(*t, 0, &off, NULL);
}

/* ---- anything ---- */

static void pending_done(struct op *op, int res, bool more)
{
	struct pending *p = container_of(op, struct pending, op);

	if (res == -EBADF)	/* of a kind that io_uring does not close: no file behind it that could wait */
		close(p->fd);
	list_del(&p->node);
	free(p);
}

static int int_of(int fd, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, name, &v, &len) ? -1 : v;
}

/* Descriptors in a unix socket that nobody has received: closed with it, whatever they are. */
static bool holds_none(int fd)
{
	return !fdinfo_number(fd, "scm_fds:");
}

/* Is this a socket whose close waits for nothing but SO_LINGER? Others take their time, such as those that wait for all processors. */
static bool closes_at_once(int fd)
{
	int domain = int_of(fd, SO_DOMAIN);

	if (domain == AF_INET || domain == AF_INET6)
		return int_of(fd, SO_PROTOCOL) == IPPROTO_TCP || int_of(fd, SO_PROTOCOL) == IPPROTO_UDP;
	/* of one that listens, what lies in connections that nobody has accepted is not told */
	return domain == AF_UNIX && !int_of(fd, SO_ACCEPTCONN) && holds_none(fd);
}

void close_passed(int fd, uint32_t uid)
{
	struct io_uring_sqe *sqe;
	struct pending *p;

	if (closes_at_once(fd)) {
		close_socket(fd);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		log_err("out of memory: a descriptor of user %u stays open", (unsigned int)uid);
		return;
	}
	p->fd = fd;
	p->uid = uid;
	p->op.fn = pending_done;
	list_add_tail(&pending, &p->node);
	sqe = engine_sqe();
	io_uring_prep_close(sqe, fd);
	engine_submit(sqe, &p->op);
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

unsigned int passed_take(struct msghdr *m, int *fds, unsigned int max, uint32_t uid)
{
	unsigned int n = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		size_t k;

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		k = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < k; i++, n++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
			if (n < max)
				fds[n] = fd;
			else
				close_passed(fd, uid);
		}
	}
	return n;
}

bool closing_too_many(uint32_t uid)
{
	unsigned int n = 0;

	list_each(node, nxt, &pending)
		n += list_entry(node, struct pending, node)->uid == uid;
	return n > PENDING_MAX;
}
