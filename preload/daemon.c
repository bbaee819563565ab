/* SPDX-License-Identifier: MIT */
/*
 * The control connection to the daemon: one per process, opened when first needed, never shared with a child.
 *
 * Its number stays the same for life: a new connection is put over the dead one. So a one-way message needs no lock: at
 * worst it reaches a dead socket. Before each use the inode is checked, since applications close fds they do not know.
 */
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "proto/ctlmsg.h"
#include "proto/page.h"
#include "daemon.h"
#include "daemon_io.h"
#include "deadline.h"
#include "fdtab.h"
#include "init.h"
#include "internal.h"
#include "lock.h"
#include "proc.h"
#include "sys.h"

#define RETRY_MS	1000u	/* between attempts to find a daemon */
#define REFUSED_MS	10000u	/* after a daemon that refused or hung */
#define PATIENT_MS	10000u	/* for an answer that a connection depends on */
#define AGAIN_NS	10000000	/* between two looks for the next daemon */
#define ANSWER_MS	20u	/* until the daemon says what it takes */

static struct iw_lock ctl_lock;
static _Atomic int ctl_fd = -1;
static _Atomic uint64_t ctl_ino, next_try;
static _Atomic uint32_t ctl_generation, ctl_is_up, answer_ms = ANSWER_MS, next_conn_id;
static uint32_t seq;

/* A request that waits for its reply; on the stack of its thread. Whoever waits first reads for all. */
struct waiter {
	struct waiter *next;
	_Atomic uint32_t state;		/* WAITER_DONE, and a count of kicks above it */
	uint32_t seq;
	int ret;
	size_t size;
	void *reply;
	int *fds;
	uint64_t from, until;		/* when it is given up: if the daemon stands still, or anyway */
	uint64_t granted;		/* stream whose STREAM is here already: the ACK has to follow */
};
#define WAITER_DONE	1u
#define WAITER_KICK	2u

static struct waiter *waiters;		/* these two under ctl_lock */
static bool reading;

const struct iw_peers *_Atomic iw_peers;
struct iw_proc *_Atomic iw_proc_page;

bool iw_daemon_up(void)
{
	return atomic_load_explicit(&ctl_is_up, memory_order_acquire);
}

uint32_t iw_daemon_gen(void)
{
	return atomic_load(&ctl_generation);
}

uint32_t iw_daemon_conn_id(void)
{
	uint32_t id;

	do	/* 32 bits: it has to fit into a word of iw_proc.go */
		id = atomic_fetch_add(&next_conn_id, 1) + 1;
	while (!id);
	return id;
}

static bool ours(int fd)
{
	return fd >= 0 && iw_fd_kind(fd) == IW_FD_INTERNAL && iw_fd_ino(fd) == atomic_load(&ctl_ino);
}

bool iw_daemon_owns(int fd)
{
	return fd == atomic_load(&ctl_fd) && ours(fd);
}

static void waiter_done(struct waiter *w, int ret)
{
	for (struct waiter **p = &waiters; *p; p = &(*p)->next)
		if (*p == w) {
			*p = w->next;
			break;
		}
	w->ret = ret;
	atomic_fetch_or(&w->state, WAITER_DONE);
	iw_futex_wake(&w->state, 1);
}

/* The number is kept, so that nobody else gets it while a one-way message is on its way there. */
static void drop(unsigned int retry_ms)
{
	int fd = atomic_load(&ctl_fd);

	atomic_store(&ctl_is_up, 0);
	if (ours(fd))
		IW_SYS(shutdown, fd, SHUT_RDWR);
	atomic_store(&next_try, iw_now_ms() + retry_ms);
	while (waiters)
		waiter_done(waiters, -ENOTCONN);
}

static uint64_t deadline(uint32_t grace_ms)
{
	return iw_now_ms() + atomic_load(&answer_ms) + grace_ms;
}

static uint64_t grace(const struct waiter *w)
{
	return w->until - w->from;
}

/* Who gives up breaks the connection for all: not while somebody waits who has more to lose, and gives up later. */
static uint64_t until_of(const struct waiter *w)
{
	uint64_t until = w->until;

	for (const struct waiter *o = waiters; o; o = o->next)
		if (grace(o) > grace(w) && o->until > until)
			until = o->until;
	return until;
}

/* Ask and wait for the answer while nobody else can: caller holds ctl_lock, no request is waiting. */
static int exchange(int fd, void *msg, int fd_in, void *reply, size_t size, int fds[2])
{
	uint64_t until = deadline(IW_DAEMON_GRACE_MS);
	struct iw_ctl_hdr *h = msg;
	union iw_daemon_in in;
	int ret;

	h->seq = ++seq;
	ret = iw_daemon_io_send_until(fd, msg, fd_in, until);
	while (!ret && (ret = iw_daemon_io_receive(fd, &in, fds)) == -EAGAIN)
		ret = iw_daemon_io_wait_answer(fd, POLLIN, until - IW_DAEMON_GRACE_MS, until);
	if (ret)
		return ret;
	if (in.h.seq != h->seq || in.h.len != size) {
		iw_daemon_fds_close(fds);
		return -EPROTO;
	}
	memcpy(reply, &in, size);
	return 0;
}

/* Of a daemon, to this process and to all. */
static const struct daemon_page {
	size_t size;
	int prot;
	uint32_t magic;		/* the first that is there */
} pages[2] = {
	{ sizeof(struct iw_proc), PROT_READ | PROT_WRITE, IW_PROC_MAGIC },
	{ sizeof(struct iw_peers), PROT_READ, IW_PEERS_MAGIC },
};

static uint32_t *map_page(const struct daemon_page *p, int fd)
{
	struct stat st;
	long at;

	if (fd < 0 || IW_SYS(fstat, fd, &st) < 0 || st.st_size < (off_t)p->size)
		return NULL;
	at = IW_SYS(mmap, NULL, p->size, p->prot, MAP_SHARED, fd, 0);
	return at < 0 && at > -4096 ? NULL : (uint32_t *)at;
}

/* Each in the place of the one before, as other threads may be looking at that: the first stay where they were mapped. What is NULL after it is there. */
static bool put_pages(uint32_t *at[2])
{
	static uint32_t *place[2];

	for (unsigned int i = 0; i < 2; i++) {
		if (!place[i])
			place[i] = at[i];
		else if (IW_SYS(mremap, at[i], pages[i].size, pages[i].size, MREMAP_MAYMOVE | MREMAP_FIXED, place[i]) < 0)
			return false;
		at[i] = NULL;
	}
	atomic_store(&iw_proc_page, (struct iw_proc *)place[0]);
	atomic_store(&iw_peers, (const struct iw_peers *)place[1]);
	return true;
}

/* Hand-shake. */
static int hello(int fd)
{
	struct iw_ctl_hello m;
	struct iw_ctl_hello_ack a;
	int fds[2] = { -1, -1 }, ret;
	uint32_t *p[2];

	iw_ctl_init(&m, IW_CTL_HELLO, 0);
	for (size_t i = 0; i + 1 < sizeof(m.program) && iw_program()[i]; i++)
		m.program[i] = iw_program()[i];
	ret = exchange(fd, &m, -1, &a, sizeof(a), fds);
	if (ret)
		return ret;
	ret = -EPROTO;
	if (a.result) {
		ret = -EACCES;
		goto out;
	}
	for (unsigned int i = 0; i < 2; i++)
		p[i] = map_page(&pages[i], fds[i]);
	if (p[0] && p[1] && *p[0] == pages[0].magic && *p[1] == pages[1].magic && put_pages(p)) {
		atomic_store(&answer_ms, a.answer_ms < 10000 ? a.answer_ms : 10000);
		ret = 0;
	}
	for (unsigned int i = 0; i < 2; i++)
		if (p[i])
			IW_SYS(munmap, p[i], pages[i].size);
out:
	iw_daemon_fds_close(fds);
	return ret;
}

/*
 * Descriptors are given away there, and answers believed: to root, to who we are, and to whom the directory belongs, when nobody else can
 * have put the socket into it.
 */
static bool trusted(int fd, const char *dir)
{
	struct ucred c;
	socklen_t len = sizeof(c);
	struct stat st;

	if (IW_SYS(getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &c, &len) < 0)
		return false;
	if (!c.uid || c.uid == (uid_t)IW_SYS(geteuid))
		return true;
	return IW_SYS(newfstatat, AT_FDCWD, dir, &st, 0) >= 0 && st.st_uid == c.uid && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* A full queue, of a daemon that is busy: with `waits` there is room in it as soon as an answer could be there, or never. */
static int dial_one(const char *dir, bool waits)
{
	uint32_t ms = atomic_load(&answer_ms);
	struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t n = strlen(dir);
	long fd, r;

	if (n + sizeof("/" IW_CTL_SOCK) > sizeof(un.sun_path))
		return -ENAMETOOLONG;
	memcpy(un.sun_path, dir, n);
	memcpy(un.sun_path + n, "/" IW_CTL_SOCK, sizeof("/" IW_CTL_SOCK));
	fd = IW_SYS(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return (int)fd;
	r = IW_SYS(connect, fd, &un, sizeof(un));
	if (r == -EAGAIN && waits && IW_SYS(setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) >= 0 && IW_SYS(fcntl, fd, F_SETFL, 0) >= 0)
		r = IW_SYS(connect, fd, &un, sizeof(un));
	if (r >= 0 && !trusted((int)fd, dir))
		r = -EPERM;
	if (r < 0) {
		IW_SYS(close, fd);
		return (int)r;
	}
	return (int)fd;
}

/* Put a new connection where the old one was, or at a number of its own. */
static int install(int fd)
{
	int at = atomic_load(&ctl_fd);
	long r;

	if (ours(at)) {
		r = IW_SYS(dup3, fd, at, O_CLOEXEC);
		IW_SYS(close, fd);
	} else {
		if (at >= 0)	/* closed behind our back: the number is the application's now */
			iw_word_cas(at, iw_word_make(IW_FD_INTERNAL, 1), 0);
		r = iw_fd_hide(fd);
	}
	if (r < 0)
		return (int)r;
	atomic_store(&ctl_ino, iw_fd_ino((int)r));
	atomic_store(&ctl_fd, (int)r);
	return (int)r;
}

/* Caller holds ctl_lock. */
static int open_held(void)
{
	int fd = -ENOENT, r;

	if (iw_daemon_up())
		return 0;
	if (iw_now_ms() < atomic_load(&next_try))
		return -ENOTCONN;
	for (int i = 0; iw_rundir(i) && fd < 0; i++)
		fd = dial_one(iw_rundir(i), false);
	if (fd >= 0)
		fd = install(fd);
	if (fd < 0) {
		atomic_store(&next_try, iw_now_ms() + RETRY_MS);
		return -ENOTCONN;
	}
	r = hello(fd);
	if (r) {
		drop(REFUSED_MS);
		return -ENOTCONN;
	}
	atomic_fetch_add(&ctl_generation, 1);
	atomic_store_explicit(&ctl_is_up, 1, memory_order_release);
	return 0;
}

bool iw_daemon_ready(void)
{
	const struct iw_peers *p;
	uint64_t sigs;
	char c;
	long r;

	if (!atomic_load(&iw_on))
		return false;
	if (iw_daemon_up()) {
		r = IW_SYS(recvfrom, atomic_load(&ctl_fd), &c, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
		p = atomic_load(&iw_peers);
		if ((r == -EAGAIN || r > 0) && !atomic_load(&p->dead))
			return true;
	} else if (iw_now_ms() < atomic_load(&next_try)) {
		return false;
	}
	if (iw_in_vfork())
		return false;
	sigs = iw_lock(&ctl_lock);
	if (iw_daemon_up()) {
		/* look again: somebody else may have dialled in the meantime */
		r = IW_SYS(recvfrom, atomic_load(&ctl_fd), &c, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
		if ((r != -EAGAIN && r <= 0) || atomic_load(&atomic_load(&iw_peers)->dead))
			drop(0);
	}
	r = open_held();
	iw_unlock(&ctl_lock, sigs);
	return r == 0;
}

bool iw_daemon_dialled(void)
{
	atomic_store(&next_try, 0);
	return iw_daemon_ready();
}

/* Part of the answer to w. 1: it is complete, 0: there is more to come, -EPROTO. Takes fds when not negative. */
static int answer(struct waiter *w, const union iw_daemon_in *in, const int fds[2])
{
	const struct iw_ctl_stream *s = (const void *)in;

	if (w->granted)
		return in->h.type == IW_CTL_ACK && ((const struct iw_ctl_ack *)in)->id == w->granted ? 1 : -EPROTO;
	if (w->size != in->h.len)
		return -EPROTO;
	memcpy(w->reply, in, w->size);
	w->fds[0] = fds[0];
	w->fds[1] = fds[1];
	if (in->h.type == IW_CTL_STREAM && !s->result)
		w->granted = s->stream_id;
	return !w->granted;
}

/* Something can be read: give it to the request it answers. Caller holds ctl_lock. */
static void dispatch(int fd)
{
	int fds[2] = { -1, -1 }, ret;
	struct waiter *w = waiters;
	union iw_daemon_in in;

	ret = iw_daemon_io_receive(fd, &in, fds);
	if (ret == -EAGAIN)
		return;
	while (!ret && w && w->seq != in.h.seq)
		w = w->next;
	if (!ret)
		ret = w ? answer(w, &in, fds) : -EPROTO;
	if (ret < 0) {
		iw_daemon_fds_close(fds);
		drop(ret == -ENOTCONN ? 0 : REFUSED_MS);
		return;
	}
	if (ret)
		waiter_done(w, 0);
}

/* One turn of a waiting thread: read for all, or sleep while another one does. Caller does not hold ctl_lock. */
static void wait_turn(struct waiter *w)
{
	uint64_t sigs = iw_lock(&ctl_lock), now = iw_now_ms(), until = until_of(w);
	uint32_t state = atomic_load(&w->state);
	int fd = atomic_load(&ctl_fd), ret;

	if (!(state & WAITER_DONE) && now >= until) {
		drop(REFUSED_MS);
		w->ret = -ETIMEDOUT;
		state = WAITER_DONE;
	}
	if ((state & WAITER_DONE) || reading) {
		iw_unlock(&ctl_lock, sigs);
		if (!(state & WAITER_DONE))
			iw_futex_wait(&w->state, state, (unsigned int)(until - now));
		return;
	}
	reading = true;
	iw_unlock(&ctl_lock, sigs);
	ret = iw_daemon_io_wait_answer(fd, POLLIN, w->from, until);
	sigs = iw_lock(&ctl_lock);
	reading = false;
	if (ret == -ETIMEDOUT && !(atomic_load(&w->state) & WAITER_DONE)) {
		drop(REFUSED_MS);
		w->ret = -ETIMEDOUT;
	} else if (!ret && iw_daemon_up()) {	/* else somebody dropped it, which woke us up */
		dispatch(fd);
	}
	for (struct waiter *o = waiters; o; o = o->next) {	/* one of them reads on */
		atomic_fetch_add(&o->state, WAITER_KICK);
		iw_futex_wake(&o->state, 1);
	}
	iw_unlock(&ctl_lock, sigs);
}

static int request(void *msg, int fd_in, struct waiter *w, uint32_t grace_ms, uint64_t gen)
{
	uint64_t sigs = iw_lock(&ctl_lock);
	struct iw_ctl_hdr *h = msg;
	int ret = gen ? 0 : open_held();

	if (gen && (gen != iw_daemon_gen() || !iw_daemon_up()))
		ret = -ENOTCONN;
	if (!ret && !ours(atomic_load(&ctl_fd)))
		ret = -ENOTCONN;
	if (!ret) {
		w->from = deadline(0);
		w->until = w->from + grace_ms;
		h->seq = w->seq = ++seq;
		ret = iw_daemon_io_send_until(atomic_load(&ctl_fd), msg, fd_in, w->from + IW_DAEMON_GRACE_MS);	/* who has less to lose waits for the lock */
		if (ret)
			drop(ret == -ENOTCONN ? 0 : REFUSED_MS);
	}
	if (!ret) {
		w->next = waiters;
		waiters = w;
	}
	iw_unlock(&ctl_lock, sigs);
	if (ret)
		return ret;
	while (!(atomic_load(&w->state) & WAITER_DONE))
		wait_turn(w);
	if (w->ret)
		iw_daemon_fds_close(w->fds);
	return w->ret;
}

/* Requests of several threads wait side by side. */
static int ask(uint32_t grace_ms, void *msg, int fd_in, void *reply, size_t reply_size, int fds_out[2], uint64_t gen)
{
	int none[2], *fds = fds_out ? fds_out : none, r = -ENOTCONN;
	uint64_t sigs;

	fds[0] = fds[1] = -1;
	if (!atomic_load(&iw_on) || iw_in_vfork())
		return -ENOTCONN;
	sigs = iw_sig_block();
	for (int attempt = 0; attempt < (gen ? 1 : 2) && r == -ENOTCONN; attempt++) {
		struct waiter w = { .size = reply_size, .reply = reply, .fds = fds };

		r = request(msg, fd_in, &w, grace_ms, gen);
	}
	iw_sig_restore(sigs);
	if (!fds_out)
		iw_daemon_fds_close(fds);
	return r;
}

int iw_daemon_ask(void *msg, int fd_in, void *reply, size_t reply_size, int fds_out[2], uint64_t gen)
{
	return ask(IW_DAEMON_GRACE_MS, msg, fd_in, reply, reply_size, fds_out, gen);
}

int iw_daemon_ask_patiently(uint32_t again_ms, void *msg, int fd_in, void *reply, size_t reply_size, int fds_out[2])
{
	uint64_t until = iw_now_ms() + again_ms;
	int r = -ENOTCONN;

	if (!atomic_load(&iw_on) || iw_in_vfork())
		return r;
	for (;;) {
		if (iw_daemon_dialled())
			r = ask(PATIENT_MS, msg, fd_in, reply, reply_size, fds_out, 0);
		if (r != -ENOTCONN || iw_now_ms() >= until)
			return r;
		IW_SYS(ppoll, NULL, 0, &(struct timespec){ .tv_nsec = AGAIN_NS }, NULL, 8);
	}
}

/*
 * No lock: a packet is sent whole or not at all. A full queue means a daemon that does not read: IW_DAEMON_MUST waits as long as for
 * an answer, then breaks the connection, so that the daemon knows that it missed something.
 */
bool iw_daemon_tell(void *msg, int fd_in, int flags)
{
	int fd = atomic_load(&ctl_fd);
	struct iw_ctl_hdr *h = msg;
	long r;

	h->seq = 0;
	if (!iw_daemon_up() || iw_in_vfork() || !ours(fd))
		return false;
	r = iw_daemon_io_send(fd, msg, fd_in);
	if (r != -EAGAIN || !(flags & IW_DAEMON_MUST))
		return r >= 0;
	if (!iw_daemon_io_wait(fd, POLLOUT, iw_now_ms() + atomic_load(&answer_ms)))
		r = iw_daemon_io_send(fd, msg, fd_in);
	if (r < 0 && ours(fd))
		IW_SYS(shutdown, fd, SHUT_RDWR);
	return r >= 0;
}

void iw_daemon_hint(void *msg)
{
	struct iw_ctl_hdr *h = msg;
	int fd = -ENOENT;

	h->seq = 0;
	if (!atomic_load(&iw_on) || iw_in_vfork())
		return;
	for (int i = 0; iw_rundir(i) && fd < 0; i++)
		fd = dial_one(iw_rundir(i), true);
	if (fd < 0)
		return;
	iw_daemon_io_send(fd, msg, -1);
	IW_SYS(close, fd);
}

/* Everything told before has been done when this returns, unless the daemon is gone. */
void iw_daemon_sync(void)
{
	struct iw_ctl_hdr h;
	struct iw_ctl_ack a;
	int saved = errno;

	iw_ctl_init(&h, IW_CTL_SYNC, 0);
	if (iw_daemon_up())
		iw_daemon_ask(&h, -1, &a, sizeof(a), NULL, 0);
	errno = saved;
}

bool iw_daemon_tell_id(enum iw_ctl_type type, uint64_t id, enum iw_reason reason, int fd)
{
	struct iw_ctl_id m;

	iw_ctl_init(&m, type, 0);
	m.id = id;
	m.reason = reason;
	m.fd = fd;
	return iw_daemon_tell(&m, -1, type == IW_CTL_ABANDON || type == IW_CTL_SWITCHED ? IW_DAEMON_MUST : 0);
}

void iw_daemon_closing_internal(int fd)
{
	uint64_t sigs = iw_lock(&ctl_lock);
	long n;

	if (fd == atomic_load(&ctl_fd) && ours(fd)) {
		n = IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, fd + 1);
		if (n >= 0 && n < IW_FD_MAX) {
			iw_word_set((int)n, iw_word_make(IW_FD_INTERNAL, 1));
			atomic_store(&ctl_fd, (int)n);
		} else {
			drop(0);
		}
	}
	iw_word_cas(fd, iw_word_make(IW_FD_INTERNAL, 1), 0);
	iw_unlock(&ctl_lock, sigs);
}

/* The parent's connection is the parent's: this process opens its own when it needs one. */
void iw_daemon_forked_child(void)
{
	int fd = atomic_load(&ctl_fd);

	atomic_store(&ctl_lock.v, 0);
	waiters = NULL;
	reading = false;
	if (ours(fd))
		IW_SYS(close, fd);
	if (fd >= 0)
		iw_word_cas(fd, iw_word_make(IW_FD_INTERNAL, 1), 0);
	atomic_store(&ctl_fd, -1);
	atomic_store(&ctl_is_up, 0);
	atomic_store(&next_try, 0);
	atomic_store(&iw_proc_page, NULL);
	atomic_fetch_add(&ctl_generation, 1);
}
