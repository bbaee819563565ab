// SPDX-License-Identifier: MIT
/* A worker: begins streams, accepts others', gets ends from others, and goes on until it is told to end. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "opsoak.h"

#define UNKNOWN	64

_Atomic int threads_running;
static int me, listener, passes;
static struct { int fd, port; uint64_t since; } unknown[UNKNOWN];
static int unknowns;

struct start { struct hold *h; int readers; };

static void *thread_main(void *arg)
{
	struct start st = *(struct start *)arg;

	free(arg);
	if (st.readers && !st.h->e->walk.over)
		run_threads(st.h, st.readers);
	run(st.h);
	hold_free(st.h);
	free(st.h);
	threads_running--;
	return NULL;
}

/* h is the thread's from now on */
void start_threads(struct hold *h, int readers)
{
	struct start *st = malloc(sizeof(*st));
	pthread_attr_t a;
	pthread_t t;

	*st = (struct start){ h, readers };
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&a, 256 << 10);
	threads_running++;
	if (!readers)
		set_nonblock(h, one_in(&h->e->cr, 5), false);
	if (pthread_create(&t, &a, thread_main, st))
		hfail(h, "pthread_create: %s", strerror(errno));
	pthread_attr_destroy(&a);
}

/* An end is here, and how it is used from now on is settled. */
void adopt(struct hold *h)
{
	uint32_t k = below(&h->e->cr, 10);

	if (k == 9 && hand(h, OP_fork)) {
		hold_free(h);
		free(h);
	} else if (k >= 5 && shm->threads) {
		start_threads(h, k == 7 ? 1 : k == 8 ? 2 : 0);
	} else {
		loop_add(h);
	}
}

static void begun(struct stream *s, int end, int fd)
{
	struct hold *h = malloc(sizeof(*h));
	int fl = fcntl(fd, F_GETFL);

	hold_init(h, s, end, fd);
	h->nonblock = fl & O_NONBLOCK;
	note(h, end ? OP_accept : OP_connect, s->port, 0, 0, 0);
	adopt(h);
}

static void nothing(struct stream *s)
{
	end_over(s, 1, END_DEAD);
	end_over(s, 0, END_DEAD);
}

/* Connected, by a call that waits or one that does not; 0, or an errno */
static int connected(struct stream *s, int fd, bool wait, const struct sockaddr_in *to)
{
	int err = 0;
	socklen_t n = sizeof(err);

	if (connect(fd, (const struct sockaddr *)to, sizeof(*to))) {
		if (errno != EINTR && (errno != EINPROGRESS || wait))
			return errno;
		while (poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, 1000) <= 0)
			s->moved_ms = now_ms();
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n))
			return errno;
	}
	return err;
}

static int local_port(int fd)
{
	struct sockaddr_in a;
	socklen_t n = sizeof(a);

	return getsockname(fd, (struct sockaddr *)&a, &n) ? -1 : ntohs(a.sin_port);
}

static void connect_one(struct stream *s, int server, int port, struct rng *r)
{
	bool wait = one_in(r, 2);
	const struct place *there = &shm->place[server % shm->sides];
	int fd = socket(AF_INET, SOCK_STREAM | (wait ? 0 : SOCK_NONBLOCK) | (one_in(r, 2) ? SOCK_CLOEXEC : 0), 0), err, size = 20000;
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) }, any = { .sin_family = AF_INET };

	inet_pton(AF_INET, there->addr, &to.sin_addr);
	if (one_in(r, 8))
		setsockopt(fd, SOL_SOCKET, one_in(r, 2) ? SO_SNDBUF : SO_RCVBUF, &size, sizeof(size));
	if (one_in(r, 4)) {
		if (bind(fd, (struct sockaddr *)&any, sizeof(any)))
			fail(s, 0, "bind: %s", strerror(errno));
		s->port = local_port(fd);
	}
	err = connected(s, fd, wait, &to);
	if (err == ECONNRESET && s->may & (MAY_LINGER | MAY_UNREAD)) {	/* it is over before this one has looked */
		close(fd);
		end_over(s, 0, END_DONE);
		return;
	}
	if (err) {
		if (!(s->may & MAY_KILLED) && shm->listening[server] == port)
			fail(s, 0, "connect to worker %d: %s", server, strerror(err));
		close(fd);
		nothing(s);
		return;
	}
	s->port = local_port(fd);
	begun(s, 0, fd);
}

/* The next stream in this place, as soon as the one before is over. */
static void begin_one(int k)
{
	struct stream *s = &shm->streams[me * BEGUN + k];
	struct rng r;
	uint64_t id;
	int server, port, n;

	if (s->used || shm->pause & 1)
		return;
	id = (uint64_t)(me * BEGUN + k) << 32 | shm->begun[me][k];
	r.s = mix(mix(shm->seed, id), 77);
	if (shm->sides == 1)
		server = (int)below(&r, (uint32_t)shm->workers);
	else
		server = (int)below(&r, (uint32_t)shm->workers / 2) * 2 + !(me % 2);
	port = shm->listening[server];
	n = shm->worker_proc[server];
	if (!port)
		return;
	shm->begun[me][k]++;
	self->handing++;
	stream_begin(s, id, server, self_n, n);
	if (self->doomed || shm->procs[n].doomed || shm->worker_proc[server] != n) {
		nothing(s);
		self->handing--;
		return;
	}
	self->handing--;
	connect_one(s, server, port, &r);
}

static struct stream *by_port(int port)
{
	for (int i = 0; i < shm->workers * BEGUN; i++) {
		struct stream *s = &shm->streams[i];

		if (s->used && s->server == me && s->port == port && !s->accepted)
			return s;
	}
	return NULL;
}

/* Of whom it is may be known a moment later only, or never, if he was killed. */
static void sort_unknown(void)
{
	for (int i = 0; i < unknowns; i++) {
		struct stream *s = by_port(unknown[i].port);
		int fd = unknown[i].fd;

		if (!s && now_ms() - unknown[i].since < 10000)
			continue;
		unknown[i--] = unknown[--unknowns];
		if (!s) {
			close(fd);
			continue;
		}
		s->accepted = 1;
		begun(s, 1, fd);
	}
	for (int i = 0; i < shm->workers * BEGUN; i++) {
		struct stream *s = &shm->streams[i];

		if (s->used && s->server == me && !s->accepted && s->end[0].state == END_DEAD && s->end[1].state == END_LIVE && s->end[1].holder == self_n) {
			s->accepted = 1;
			end_over(s, 1, END_DEAD);
		}
	}
}

static void accept_all(void)
{
	static const int flags[] = { 0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK };
	static unsigned int n;
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int fd;

	while (unknowns < UNKNOWN && (fd = accept4(listener, (struct sockaddr *)&a, &len, flags[n++ % 4])) >= 0) {
		unknown[unknowns].fd = fd;
		unknown[unknowns].port = ntohs(a.sin_port);
		unknown[unknowns++].since = now_ms();
		len = sizeof(a);
	}
}

/* Ends that others give to this worker */
static void take(void)
{
	struct passed what;
	struct iovec v = { &what, sizeof(what) };
	union { char b[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } ctl;
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl.b, .msg_controllen = sizeof(ctl.b) };
	struct cmsghdr *c;
	struct hold *h;
	int fd;

	while (m.msg_controllen = sizeof(ctl.b), recvmsg(passes, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == sizeof(what)) {
		c = CMSG_FIRSTHDR(&m);
		if (!c || c->cmsg_type != SCM_RIGHTS)
			fail(&shm->streams[what.stream], what.end, "SCM_RIGHTS without a descriptor");
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		h = malloc(sizeof(*h));
		hold_init(h, &shm->streams[what.stream], what.end, fd);
		learn(h);
		note(h, OP_taken, me, 0, 0, h->e->rpos);
		handed(self);
		adopt(h);
	}
}

/* children that have ended; those that a thread waits for are its own */
void reap_own(void)
{
	int st;

	for (int i = 0; i < PROCS; i++) {
		struct proc *p = &shm->procs[i];
		pid_t pid = p->pid;

		if (p->state > PROC_NEW && p->parent == self_n && p->worker < 0 && pid > 0 && waitpid(pid, &st, WNOHANG) == pid)
			proc_reaped(pid, st);
	}
}

static bool children(void)
{
	for (int i = 0; i < PROCS; i++)
		if (shm->procs[i].state != PROC_FREE && shm->procs[i].parent == self_n && shm->procs[i].worker < 0)
			return true;
	return false;
}

static void listen_now(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct sockaddr_un un;
	socklen_t n;

	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	passes = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	pass_address(me, (struct sockaddr *)&un, &n);
	inet_pton(AF_INET, shm->place[me % shm->sides].addr, &a.sin_addr);
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) || listen(listener, 100))
		fail(NULL, 0, "listener: %s", strerror(errno));
	for (int i = 0; bind(passes, (struct sockaddr *)&un, n); i++) {	/* a child of the one before, who was killed, may have it for a moment */
		if (errno != EADDRINUSE || i > 10000)
			fail(NULL, 0, "address for passing: %s", strerror(errno));
		usleep(1000);
	}
}

int worker_main(int w, int n)
{
	static const enum op kinds[] = { OP_epoll, OP_poll, OP_epoll_et, OP_select, OP_epoll_oneshot, OP_ppoll, OP_pselect };
	static int generation;
	int what;

	me = w;
	self_n = n;
	self = &shm->procs[n];
	generation = (int)(shm->begun[me][0] & 0xffff);
	listen_now();
	loop_init(kinds[(unsigned int)(me + generation) % 7], listener, passes);
	self->pid = getpid();
	self->state = PROC_LIVE;
	shm->listening[me] = local_port(listener);
	for (;;) {
		for (int k = 0; k < BEGUN; k++)
			begin_one(k);
		what = loop_wait(20);
		if (what & 1)
			accept_all();
		if (what & 2)
			take();
		sort_unknown();
		loop_turns();
		reap_own();
		if (shm->pause & 1 && self->still != shm->pause && !loop_count() && !threads_running && !unknowns && !self->handing && !children()) {
			leaks();
			self->still = shm->pause;
		}
		if (shm->quit)
			proc_leave();
	}
}
