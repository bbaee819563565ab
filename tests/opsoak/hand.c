// SPDX-License-Identifier: MIT
/* An end goes to another process: by fork, exec, both, posix_spawn, or SCM_RIGHTS to another worker. Or to a thread. */
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "opsoak.h"

extern char **environ;

void hold_init(struct hold *h, struct stream *s, int me, int fd)
{
	*h = (struct hold){ .s = s, .e = &s->end[me], .peer = &s->end[!me], .me = me, .fd = fd, .ep = -1 };
	h->buf = malloc(MOST + 8192);
	if (!h->buf)
		hfail(h, "no memory");
	h->e->fd = fd;
}

void hold_free(struct hold *h)
{
	wait_forget(h);
	free(h->buf);
	h->buf = NULL;
}

/* What the description says of itself, for who gets it. */
void learn(struct hold *h)
{
	struct timeval t[2] = { 0 };
	socklen_t n = sizeof(t[0]);
	int fl = fcntl(h->fd, F_GETFL), ty = 0;

	h->nonblock = fl >= 0 && fl & O_NONBLOCK;
	if (getsockopt(h->fd, SOL_SOCKET, SO_RCVTIMEO, &t[0], &n) || getsockopt(h->fd, SOL_SOCKET, SO_SNDTIMEO, &t[1], &n))
		hfail(h, "SO_xTIMEO: %s", strerror(errno));
	h->rtimeo = (int)(t[0].tv_sec * 1000 + t[0].tv_usec / 1000);
	h->stimeo = (int)(t[1].tv_sec * 1000 + t[1].tv_usec / 1000);
	n = sizeof(ty);
	if (getsockopt(h->fd, SOL_SOCKET, SO_DOMAIN, &ty, &n))
		hfail(h, "handed on: SO_DOMAIN: %s", strerror(errno));
	if (ty == AF_INET)
		return;
	if (!shm->without[OP_taken] || !(h->peer->fin || h->s->may))
		hfail(h, "handed on: SO_DOMAIN is %d", ty);
	h->s->may |= MAY_DAEMON;
	h->e->reset = 1;
}

int proc_new(int worker, int side)
{
	for (int i = 0; i < PROCS; i++) {
		struct proc *p = &shm->procs[i];
		int none = PROC_FREE;

		if (!atomic_compare_exchange_strong(&p->state, &none, PROC_NEW))
			continue;
		p->pid = 0;
		p->worker = worker;
		p->parent = self_n;
		p->side = side;
		p->doomed = p->handing = p->still = 0;
		p->stops = p->sent = p->handled = p->rude = 0;
		return i;
	}
	return -1;
}

/* Ends this process, unless somebody is about to send it a signal. */
void proc_leave(void)
{
	int live = PROC_LIVE;

	while (!atomic_compare_exchange_strong(&self->state, &live, PROC_LEAVING)) {
		live = PROC_LIVE;
		usleep(1000);
	}
	_exit(0);
}

/* One has ended: what it held has ended with it, if it was killed. */
void proc_reaped(pid_t pid, int status)
{
	for (int i = 0; i < PROCS; i++) {
		struct proc *p = &shm->procs[i];

		if (p->pid != pid || p->state == PROC_FREE)
			continue;
		for (int k = 0; k < 2 * STREAMS; k++) {
			struct stream *s = &shm->streams[k / 2];

			if (!s->used || s->end[k % 2].holder != i || s->end[k % 2].state != END_LIVE)
				continue;
			if (!p->doomed)
				fail(s, k % 2, "its process %d ended with status %#x", pid, status);
			end_over(s, k % 2, END_DEAD);
		}
		if (status && !p->doomed && !shm->quit)
			fail(NULL, 0, "process %d ended with status %#x", pid, status);
		p->state = PROC_FREE;
		return;
	}
}

void handed(struct proc *p)
{
	p->handing--;
	shm->handing--;
}

/*
 * Begun: the end's holder is another one. It goes on until both have said handed(), the giver and the receiver; neither is killed meanwhile, and no daemon
 * ends. False: not now, somebody is to be killed, or daemons come and go.
 */
static bool begin(struct hold *h, int to)
{
	struct proc *p = &shm->procs[to];

	self->handing++;
	p->handing++;
	shm->handing += 2;
	/*
	 * A pair, or a mapped stream, that a daemon before this one set up cannot be handed on without a store of descriptors (docs/semantics.md, 1): what the
	 * receiver then has is no connection.
	 */
	if (!self->doomed && !p->doomed && !(shm->epoch & 1) && !(shm->without[OP_taken] && (h->peer->fin || h->s->may)) && h->s->epoch == shm->epoch) {
		h->s->handed = 1;
		h->e->holder = to;
		if (!self->doomed && !p->doomed)
			return true;
		h->e->holder = self_n;
	}
	handed(self);
	handed(p);
	return false;
}

static void dropped(struct hold *h)
{
	wait_forget(h);
	loop_del(h);
	close(h->fd);
	h->gone = true;
}

/* In a child: nothing of the parent's but this end. */
static void child_begin(struct hold *h, int n)
{
	self_n = n;
	self = &shm->procs[n];
	self->pid = getpid();
	handed(self);
	threads_running = 0;
	loop_now = NULL;
	close_range(TABLE_FD + 1, (unsigned int)h->fd - 1, 0);
	close_range((unsigned int)h->fd + 1, ~0u, 0);
	h->ep = -1;
	h->alone = true;
	self->state = PROC_LIVE;
}

static void child_run(struct hold *h)
{
	note(h, OP_went_on, getpid(), 0, 0, h->e->rpos);
	set_nonblock(h, one_in(&h->e->cr, 4), false);
	if (one_in(&h->e->cr, 5) && !h->e->walk.over)
		run_threads(h, 1);
	run(h);
	proc_leave();
}

static void exec_args(struct hold *h, int n, char arg[5][16])
{
	strcpy(arg[0], "opsoak");
	strcpy(arg[1], "-E");
	snprintf(arg[2], 16, "%d", (int)(h->s - shm->streams) * 2 + h->me);
	snprintf(arg[3], 16, "%d", h->fd);
	snprintf(arg[4], 16, "%d", n);
}

static void exec_self(struct hold *h, int n)
{
	char a[5][16], *argv[] = { a[0], a[1], a[2], a[3], a[4], NULL };

	exec_args(h, n, a);
	fcntl(h->fd, F_SETFD, 0);
	block_signals(true);
	execv("/proc/self/exe", argv);
	hfail(h, "exec: %s", strerror(errno));
}

/* The new program of proc_exec_end(): opsoak -E STREAM-AND-END FD PROC */
int proc_exec_end(int argc, char **argv)
{
	static struct hold h;
	int k = atoi(argv[2]), fd = atoi(argv[3]), n = atoi(argv[4]);

	self = &shm->procs[n];
	block_signals(false);
	hold_init(&h, &shm->streams[k / 2], k % 2, fd);
	learn(&h);
	child_begin(&h, n);
	child_run(&h);
	return 0;
}

static bool by_fork(struct hold *h, enum op how, int n)
{
	pid_t p = fork();

	if (p < 0)
		hfail(h, "fork: %s", strerror(errno));
	if (!p) {
		if (how == OP_fork) {
			child_begin(h, n);
			child_run(h);
		}
		self = &shm->procs[n];
		self->pid = getpid();
		exec_self(h, n);
	}
	return true;
}

static bool by_spawn(struct hold *h, int n)
{
	char a[5][16], *argv[] = { a[0], a[1], a[2], a[3], a[4], NULL };
	pid_t p;	/* it says so itself */
	int err;

	exec_args(h, n, a);
	fcntl(h->fd, F_SETFD, 0);
	err = posix_spawn(&p, "/proc/self/exe", NULL, NULL, argv, environ);
	if (err)
		hfail(h, "posix_spawn: %s", strerror(err));
	return true;
}

/* A child that closes what it got and ends; the end stays here. Others of this process' descriptors go by its exit. */
static bool fork_back(struct hold *h)
{
	int st;
	pid_t p = fork();

	if (!p) {
		if (one_in(&h->e->cr, 2))
			close(h->fd);
		_exit(0);
	}
	while (p > 0 && waitpid(p, &st, 0) != p)
		if (errno != EINTR)
			hfail(h, "waitpid: %s", strerror(errno));
	if (p < 0 || st)
		hfail(h, "a child that only closes: %d, status %#x", p, st);
	return true;
}

void pass_address(int worker, struct sockaddr *sa, socklen_t *len)
{
	struct sockaddr_un *un = (struct sockaddr_un *)sa;

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
		(size_t)snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "opsoak.%d.%d", shm->main, worker));
}

static bool pass(struct hold *h, int worker)
{
	struct sockaddr_un un;
	struct passed what = { (int)(h->s - shm->streams), h->me };
	struct iovec v = { &what, sizeof(what) };
	union { char b[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } ctl = { .b = "" };
	struct msghdr m = { .msg_name = &un, .msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl.b, .msg_controllen = sizeof(ctl.b) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	pass_address(worker, (struct sockaddr *)&un, &m.msg_namelen);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &h->fd, sizeof(int));
	note(h, OP_pass, worker, 0, 0, h->e->rpos);
	r = sendmsg(s, &m, MSG_DONTWAIT) == sizeof(what) ? 0 : errno;
	close(s);
	if (r && r != EAGAIN && r != ECONNREFUSED)
		hfail(h, "SCM_RIGHTS: %s", strerror(r));
	return !r;
}

static bool passes(struct hold *h)
{
	int w, n;
	bool ok;

	w = (int)below(&h->e->cr, (uint32_t)(shm->workers / shm->sides)) * shm->sides + self->side;
	n = shm->worker_proc[w];
	if (shm->procs[n].state != PROC_LIVE || shm->procs[n].worker != w || !begin(h, n))
		return false;
	ok = pass(h, w);
	if (ok)
		dropped(h);
	else {
		h->e->holder = self_n;
		handed(&shm->procs[n]);
	}
	handed(self);
	return ok;
}

/* To somebody else, in this way; what is not possible here is done in another one, or not at all. True: the end is not here any more. */
bool hand(struct hold *h, enum op how)
{
	int n;

	if (shm->without[how])
		return false;
	if (h->e->before && wants(h) & POLLIN)
		poll(&(struct pollfd){ .fd = h->fd, .events = POLLIN }, 1, 20);
	if (how == OP_give_thread) {
		if (h == loop_now && shm->threads) {
			loop_del(h);
			loop_now = NULL;
			note(h, how, 0, 0, 0, h->e->rpos);
			start_threads(h, (int)below(&h->e->cr, 3));
			return true;
		}
		how = OP_fork_back;
		if (shm->without[how])
			return false;
	}
	if (how == OP_pass)
		return passes(h);
	if (how == OP_exec && h->alone) {
		if (!begin(h, self_n))
			return false;
		handed(self);
		wait_forget(h);
		note(h, how, 0, 0, 0, h->e->rpos);
		exec_self(h, self_n);
	}
	if (how == OP_fork_back) {
		if (!begin(h, self_n))
			return false;
		note(h, how, 0, 0, 0, h->e->rpos);
		fork_back(h);
		handed(self);
		handed(self);
		return false;
	}
	n = proc_new(-1, self->side);
	if (n < 0)
		return false;
	if (!begin(h, n)) {
		shm->procs[n].state = PROC_FREE;
		return false;
	}
	note(h, how, n, 0, 0, h->e->rpos);
	loop_del(h);
	if (how == OP_spawn)
		by_spawn(h, n);
	else
		by_fork(h, how == OP_exec ? OP_fork_exec : how, n);
	dropped(h);
	handed(self);
	return true;
}
