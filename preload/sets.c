// SPDX-License-Identifier: MIT
/*
 * Epoll sets and io_uring of this process as the kernel knows them. Their numbers are found by a look at each that the table of fds says
 * nothing of: once, since it knows afterwards, unless the number gets another file by calls that nobody sees.
 */
#include <linux/kcmp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "fdinfo.h"
#include "fdtab.h"
#include "quiet.h"
#include "reg.h"
#include "sets.h"
#include "sys.h"

#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif

#define GAP	16		/* behind so many closed numbers in a row those that are not known are looked at when there must be one */
#define FAR	16		/* of these so many are known all the same */
#define TURNS	16		/* or each so many times where the kernel does not say how many there are (before Linux 6.2) */
#define MOST	8192		/* entries of a set that is looked through */

/* ---- the numbers ---- */

static bool is_one_of(const int *fds, unsigned int n, int fd)
{
	for (unsigned int i = 0; i < n; i++)
		if (fds[i] == fd)
			return true;
	return false;
}

static uint64_t cookie_of(int fd, long *err)
{
	uint64_t c = 0;
	socklen_t l = sizeof(c);

	*err = IW_SYS(getsockopt, fd, SOL_SOCKET, SO_COOKIE, &c, &l);
	return *err < 0 ? 0 : c;
}

static char *append_number(char *end, int n)
{
	do
		*--end = (char)('0' + n % 10);
	while (n /= 10);
	return end;
}

#define RING "anon_inode:[io_uring]"

/* What an anonymous file is called. */
static bool is_called(int fd, const char *name)
{
	static const char dir[] = "/proc/thread-self/fd/";
	char path[sizeof(dir) + 11], is[40], *p = path + sizeof(path) - 1;
	size_t len = strlen(name);

	*p = 0;
	p = append_number(p, fd) - (sizeof(dir) - 1);
	memcpy(p, dir, sizeof(dir) - 1);
	return IW_SYS(readlinkat, AT_FDCWD, p, is, sizeof(is)) == (long)len && !memcmp(is, name, len);
}

static bool is_ring(int fd)
{
	return is_called(fd, RING);
}

static bool is_no_socket(int fd)
{
	long err;

	cookie_of(fd, &err);
	return err == -ENOTSOCK;
}

bool iw_is_set(int fd)
{
	return is_called(fd, "anon_inode:[eventpoll]");
}

static void note(struct iw_files *v, int fd, int *list, unsigned int *n, unsigned int max)
{
	if (*n == max)
		v->many = true;
	else
		list[(*n)++] = fd;
}

/* false: there is none. */
static bool look_at(struct iw_files *v, int fd)
{
	uint64_t cookie;
	long err;

	cookie = cookie_of(fd, &err);
	if (err == -EBADF)
		return false;
	if (err != -ENOTSOCK) {		/* may be a carrier: nothing is noted of it */
		v->unknown |= err < 0 || cookie == v->cookie;
		return true;
	}
	if (iw_is_set(fd)) {
		iw_set_seen(fd);
		note(v, fd, v->set, &v->sets, IW_SETS);
	} else if (is_ring(fd)) {
		iw_word_found(fd, IW_OTHER_RING, is_ring);
		note(v, fd, v->ring, &v->rings, IW_RINGS);
	} else {
		iw_word_found(fd, IW_OTHER_SEEN, is_no_socket);
	}
	return true;
}

/* The number of a line, or -1: it says something else. */
static long value(const char *line, const char *name)
{
	size_t len = strlen(name);
	long v = 0;

	if (strncmp(line, name, len))
		return -1;
	for (line += len; *line == '\t' || *line == ' '; line++)
		;
	if (*line < '0' || *line > '9')
		return -1;
	for (; *line >= '0' && *line <= '9' && v < INT32_MAX; line++)
		v = v * 10 + (*line - '0');
	return v;
}

#define KEPT	32u	/* octets, more than a name has */

/* A number of /proc/thread-self/status, or -1. */
static long status(const char *name)
{
	char buf[512];	/* the stack may be small */
	int fd = (int)IW_SYS(openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC, 0);
	const char *line = NULL;
	size_t have = 0;
	long n;

	if (fd < 0)
		return -1;
	while (!(line && strchr(line + 1, '\n')) && (n = IW_SYS(read, fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
		have += (size_t)n;
		buf[have] = 0;
		line = strstr(buf, name);
		if (!line && have > KEPT) {	/* the name may be there in part */
			memmove(buf, buf + have - KEPT, KEPT);
			have = KEPT;
		} else if (line) {
			have -= (size_t)(line - buf);
			line = memmove(buf, line, have + 1);
		}
	}
	IW_SYS(close, fd);
	return line ? value(line, name) : -1;
}

/* Size of the kernel's table: no number is above it. -1: unknown. */
static long table_size(void)
{
	return status("\nFDSize:");
}

/* A filter of system calls may kill whoever makes one that it does not expect. */
static bool filtered(void)
{
	return status("\nSeccomp:") != 0;
}

/* The table says what it is, or it is looked at. */
static bool one_number(struct iw_files *v, int fd)
{
	uint32_t w = iw_word(fd);

	if (w == IW_OTHER_RING && !is_ring(fd)) {	/* its library closes it by itself */
		iw_word_cas(fd, w, 0);
		w = 0;
	}
	if (!w && !is_one_of(v->fds, v->n, fd))
		return look_at(v, fd);
	if (iw_word_kind(w) == IW_FD_EPOLL)
		note(v, fd, v->set, &v->sets, IW_SETS);
	else if (w == IW_OTHER_RING)
		note(v, fd, v->ring, &v->rings, IW_RINGS);
	return true;
}

/* How many descriptors are open; -1: unknown. */
static long open_count(void)
{
	int dir = (int)IW_SYS(openat, AT_FDCWD, "/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	struct stat st = { .st_size = 0 };

	if (dir < 0)
		return -1;
	IW_SYS(fstat, dir, &st);
	IW_SYS(close, dir);
	return st.st_size > 0 ? st.st_size - 1 : -1;
}

/* Numbers + 1 of sockets behind a gap that the table says nothing of, as one that was inherited: they are looked at each time. */
static _Atomic int behind[FAR];

static _Atomic int *far_slot(int n)
{
	for (unsigned int i = 0; i < FAR; i++)
		if (atomic_load(&behind[i]) == n)
			return &behind[i];
	return NULL;
}

/* Where there is no room for it, all are looked at until there is. */
static void keep_far(int fd, bool is_open)
{
	_Atomic int *slot = far_slot(fd + 1);
	int none = 0;

	if (slot && !is_open)
		atomic_store(slot, 0);
	else if (!slot && is_open && (slot = far_slot(0)))
		atomic_compare_exchange_strong(slot, &none, fd + 1);
}

static int last_far(void)
{
	int last = -1;

	for (unsigned int i = 0; i < FAR; i++)
		if (atomic_load(&behind[i]) - 1 > last)
			last = atomic_load(&behind[i]) - 1;
	return last;
}

/* All below end, and what seems to be all. How many there are, as far as is known. */
static long scan(struct iw_files *v, long end)
{
	int closed = 0, last = last_far();
	long open = 0;

	v->sets = v->rings = 0;
	v->many = v->unknown = false;
	if (last < atomic_load(&iw_fd_high))
		last = atomic_load(&iw_fd_high);
	for (int fd = 0; fd < IW_FD_MAX && (fd < end || fd <= last || closed < GAP); fd++) {
		bool is_far = closed >= GAP && !iw_word(fd), is_open;

		if (is_far && fd >= end && !far_slot(fd + 1))
			continue;
		is_open = one_number(v, fd);
		open += is_open;
		if (is_far)
			keep_far(fd, is_open && !iw_word(fd));
		else
			closed = is_open ? 0 : closed + 1;
	}
	return open;
}

/* The table may know of numbers that were closed behind its back: what counts is that the difference is the one of last time. */
void iw_files_look(struct iw_files *v, const int *fds, unsigned int n)
{
	static _Atomic unsigned int turns;
	static _Atomic long known = 0;
	long open = open_count(), missing, err;

	v->fds = fds;
	v->n = n;
	v->cookie = cookie_of(fds[0], &err);
	if (open < 0) {
		scan(v, atomic_fetch_add(&turns, 1) % TURNS ? 0 : table_size());
		return;
	}
	missing = open - scan(v, 0);
	if (missing != atomic_load(&known))
		atomic_store(&known, open - scan(v, table_size()));
}

/* ---- what is in a set ---- */

/* How many entries a set had when it was last looked through: a hint. */
static _Atomic uint64_t sizes[64];	/* number of the set + 1; above it, its entries */
static _Atomic int64_t next_us;		/* sets that may be large are not looked through before */

static int64_t size_of(int epfd)
{
	uint64_t s = atomic_load(&sizes[epfd % 64]);

	return (uint32_t)s == (uint32_t)epfd + 1 ? (int64_t)(s >> 32) : -1;
}

static bool is_large(int epfd)
{
	return size_of(epfd) > IW_SET_SMALL;
}

static int64_t now_us(void)
{
	struct timespec t = { 0, 0 };

	IW_SYS(clock_gettime, CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

struct search {
	const struct iw_files *files;
	struct stat st;		/* of the file */
	const struct iw_in_set *known;
	struct iw_in_set *found;
	unsigned int nfound, max;
	bool may_walk;		/* sets that are large, or may be */
	int64_t walked;		/* us that it took */
};

static int add(struct search *s, const struct iw_in_set *e)
{
	if (s->nfound == s->max)
		return -E2BIG;
	s->found[s->nfound++] = *e;
	return 0;
}

#define PRIVATE_BITS (EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE)	/* what is left of one that has fired */

static int one_line(struct search *s, int epfd, const char *line, uint32_t *entries)
{
	struct iw_tfd t;

	if (!iw_tfd_parse(line, &t))
		return 0;
	++*entries;
	if (t.ino != s->st.st_ino || t.dev != s->st.st_dev)
		return 0;
	if (!is_one_of(s->files->fds, s->files->n, t.fd))
		return -EBUSY;
	return add(s, &(struct iw_in_set){ epfd, t.fd, t.events, t.data, (t.events & EPOLLONESHOT) && !(t.events & ~(uint32_t)PRIVATE_BITS) });
}

static int by_list(struct search *s, int epfd)
{
	int64_t begin = now_us();
	uint32_t entries = 0;
	struct iw_fdinfo f;
	const char *line;
	int r;

	if (size_of(epfd) > MOST)
		return -E2BIG;
	if ((is_large(epfd) || size_of(epfd) < 0) && !s->may_walk)
		return -EAGAIN;
	r = iw_fdinfo_open(&f, epfd);
	if (r)
		return r == -ENOENT ? 0 : -EACCES;	/* closed by calls that nobody sees */
	while (!r && (line = iw_fdinfo_line(&f)))
		r = one_line(s, epfd, line, &entries);
	iw_fdinfo_close(&f);
	if (r)
		return r;
	atomic_store(&sizes[epfd % 64], (uint64_t)entries << 32 | ((uint32_t)epfd + 1));
	if (entries > IW_SET_SMALL)
		s->walked += now_us() - begin;
	return 0;
}

/* 1: the set has the file under this number; 0: not; -errno: the kernel does not say. It is a walk through the set, but a fast one. */
static int has(int epfd, int fd, int pid)
{
	struct kcmp_epoll_slot slot = { .efd = (uint32_t)epfd, .tfd = (uint32_t)fd };
	long r;

	do		/* the number may have had other files, which the set has still */
		r = IW_SYS(kcmp, pid, pid, KCMP_EPOLL_TFD, fd, &slot);
	while (r > 0 && slot.toff++ < 16);
	return r >= 0 ? r == 0 : r == -ENOENT ? 0 : (int)r;
}

/* A large set. */
static int by_number(struct search *s, int epfd, int pid)
{
	bool expected = false;

	for (unsigned int i = 0; i < s->files->n; i++) {
		int fd = s->files->fds[i], r = has(epfd, fd, pid);
		bool known = s->known && s->known->epfd == epfd && s->known->fd == fd;

		if (r < 0 || r != known || (known && (s->known->events & EPOLLONESHOT)))
			return by_list(s, epfd);
		expected |= known;
	}
	return expected ? add(s, s->known) : 0;
}

/* The same registration by two numbers of one set: it is there once. Nobody can tell without kcmp. */
static int join(struct search *s, int pid)
{
	for (unsigned int i = 0; i < s->nfound; i++)
		for (unsigned int j = i + 1; j < s->nfound;) {
			struct iw_in_set *a = &s->found[i], *b = &s->found[j];
			long r = 1;

			if (a->fd == b->fd && a->data == b->data && a->events == b->events)
				r = filtered() ? -EPERM : IW_SYS(kcmp, pid, pid, KCMP_FILE, a->epfd, b->epfd);
			if (r < 0)
				return -EACCES;
			if (r)
				j++;
			else
				*b = s->found[--s->nfound];
		}
	return 0;
}

int iw_sets_of(const struct iw_files *v, const struct iw_in_set *known, struct iw_in_set *found, unsigned int max)
{
	struct search s = { .files = v, .known = known, .found = found, .max = max };
	int pid = (int)IW_SYS(getpid), r = 0, compare = -1;

	if (v->many)
		return -E2BIG;
	if (IW_SYS(fstat, v->fds[0], &s.st) < 0)
		return -EACCES;
	s.may_walk = now_us() >= atomic_load(&next_us);
	for (unsigned int i = 0; !r && i < v->sets; i++) {
		if (is_large(v->set[i]) && compare < 0)
			compare = !filtered();
		r = is_large(v->set[i]) && compare ? by_number(&s, v->set[i], pid) : by_list(&s, v->set[i]);
	}
	if (s.walked)
		atomic_store(&next_us, now_us() + 20 * s.walked);
	if (!r)
		r = join(&s, pid);
	return r ? r : (int)s.nfound;
}

/* ---- io_uring ---- */

/* "    2: socket:[4711]" */
static bool is_socket(const char *line, uint64_t ino)
{
	const char *p = strstr(line, ": socket:[");
	uint64_t v = 0;

	if (*line != ' ' || !p)
		return false;
	for (p += 10; *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (uint64_t)(*p - '0');
	return v == ino;
}

/* What a ring says of itself. */
struct ring {
	long submitted, taken, entries;		/* of the submission queue; -1: it did not say */
	bool files, polls, lists;		/* in the list of files, of polls; the latter is there */
	bool busy;
};

static void ring_line(struct ring *r, const char *line, uint64_t ino)
{
	long v;

	if (*line != ' ')
		r->files = r->polls = false;
	if ((v = value(line, "SqTail:")) >= 0)
		r->submitted = v;
	else if ((v = value(line, "SqHead:")) >= 0)
		r->taken = v;
	else if ((v = value(line, "SQEs:")) >= 0)
		r->entries = v;
	else if (value(line, "UserFiles:") >= 0)
		r->files = true;
	else if (!strncmp(line, "PollList:", 9))
		r->polls = r->lists = true;
	else if ((r->polls && *line == ' ') || (r->files && is_socket(line, ino)))
		r->busy = true;
}

/* One that is in use at this moment leaves lists out. */
static bool ring_quiet(int fd, uint64_t ino)
{
	for (int tries = 4; tries; tries--) {
		struct ring r = { -1, -1, -1, .lists = false };
		struct iw_fdinfo f;
		const char *line;

		if (iw_fdinfo_open(&f, fd))
			return false;
		while ((line = iw_fdinfo_line(&f)))
			ring_line(&r, line, ino);
		iw_fdinfo_close(&f);
		if (r.busy || r.entries > 0 || r.submitted < 0 || r.submitted != r.taken)
			return false;
		if (r.lists)
			return true;
		IW_SYS(sched_yield);
	}
	return false;
}

static bool is_worker(int dir, int tid)
{
	char name[32], comm[16], *p = name + sizeof(name) - sizeof("/comm");
	long n;
	int fd;

	memcpy(p, "/comm", sizeof("/comm"));
	p = append_number(p, tid);
	fd = (int)IW_SYS(openat, dir, p, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd != -ENOENT && fd != -ESRCH;
	n = IW_SYS(read, fd, comm, sizeof(comm));
	IW_SYS(close, fd);
	return n >= 8 && !memcmp(comm, "iou-wrk-", 8);
}

/* Operations that wait in a thread of the kernel's stand in no list. */
static bool workers(void)
{
	int tids[IW_QUIET_THREADS], dir, n;
	bool any;

	dir = (int)IW_SYS(openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir < 0)
		return true;
	n = iw_threads(dir, tids);
	any = n < 0;
	for (int i = 0; i < n && !any; i++)
		any = is_worker(dir, tids[i]);
	IW_SYS(close, dir);
	return any;
}

bool iw_uring_quiet(const struct iw_files *v)
{
	struct stat st;

	if (!v->rings)
		return !v->many;
	if (v->many || IW_SYS(fstat, v->fds[0], &st) < 0)
		return false;
	for (unsigned int i = 0; i < v->rings; i++)
		if (!ring_quiet(v->ring[i], st.st_ino))
			return false;
	return !workers();
}
