// SPDX-License-Identifier: MIT
/*
 * Pairs of this host outlive the daemon. They need none, but for what only it has: the witness sockets, which answer for options and for the
 * connection, the segment for who is given an end, and the set that tells of the close. These lie in the service manager's store, and what is to be said
 * of them in a table that the applications never had, in the store as well.
 */
#include "keep_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "life.h"
#include "local.h"
#include "stream_priv.h"
#include "table.h"

#define MAGIC	0x4957504bu	/* "IWPK" */
#define SLOTS	65536u		/* only what is used takes memory */

struct slot {
	uint64_t id;		/* written last; 0: free */
	uint64_t since_ms, tcp;	/* tcp: the cookie of end 0's witness */
	uint32_t next_free;
	uint32_t client;
	int watched[2];
	struct {
		struct iw_tuple tuple;
		uint64_t cookie;
		pid_t pid;
		uint32_t uid;
		int fd;
		uint32_t counted;
		char program[STREAM_PROGRAM];
	} end[2];
};

static struct table {
	uint32_t magic, slots, slot_size;
	uint32_t used;		/* so many from the beginning were taken at some time: beyond them nothing is looked at, as that would take memory */
	uint32_t pad[12];
	struct slot slot[SLOTS];
} *pairs;
static uint32_t free_slot;	/* the first of a list, number + 1 */

/* ---- the table ---- */

/* A descriptor of it is in the store as long as there is one. */
static bool table_make(void)
{
	int fd;

	if (pairs)
		return true;
	fd = memfd_create("iwsock-pairs", MFD_CLOEXEC);
	if (fd >= 0 && !ftruncate(fd, sizeof(*pairs)))
		pairs = mmap(NULL, sizeof(*pairs), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pairs == MAP_FAILED)
		pairs = NULL;
	if (pairs) {
		pairs->magic = MAGIC;
		pairs->slots = SLOTS;
		pairs->slot_size = sizeof(struct slot);
		if (notify_keep(KEEP_PAIRS, &fd, 1) < 0) {
			munmap(pairs, sizeof(*pairs));
			pairs = NULL;
		}
	}
	if (fd >= 0)
		close(fd);
	return pairs;
}

static uint32_t slot_take(void)
{
	uint32_t n = free_slot;

	if (n)
		free_slot = pairs->slot[n - 1].next_free;
	else if (pairs->used < SLOTS)
		n = ++pairs->used;
	return n;
}

static void slot_put(uint32_t n)
{
	pairs->slot[n - 1].id = 0;
	pairs->slot[n - 1].next_free = free_slot;
	free_slot = n;
}

static void name_of(const struct stream *st, char name[NOTIFY_NAME])
{
	snprintf(name, NOTIFY_NAME, KEEP_PAIR "%u-%016llx", st->keep_slot, (unsigned long long)st->id);
}

static int tcp_cookie(int fd, uint64_t *cookie)
{
	socklen_t len = sizeof(*cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &len);
}

bool keep_pair(struct stream *st)
{
	const int fds[] = { st->end[0].tcp, st->end[1].tcp, st->segment, st->watch };
	char name[NOTIFY_NAME];
	struct slot *s;

	if (st->keep_slot || !notify_keeps())
		return true;
	if (!table_make() || !(st->keep_slot = slot_take()))
		return false;
	s = &pairs->slot[st->keep_slot - 1];
	*s = (struct slot){ .since_ms = st->since_ms, .client = st->client, .watched = { st->watched[0], st->watched[1] } };
	for (unsigned int e = 0; e < 2; e++) {
		const struct stream_end *end = &st->end[e];

		s->end[e].tuple = end->tuple;
		s->end[e].cookie = end->cookie;
		s->end[e].pid = end->pid;
		s->end[e].uid = end->uid;
		s->end[e].fd = end->fd;
		s->end[e].counted = end->counted;
		memcpy(s->end[e].program, end->program, sizeof(s->end[e].program));
	}
	name_of(st, name);
	if (!tcp_cookie(st->end[0].tcp, &s->tcp) && notify_keep(name, fds, sizeof(fds) / sizeof(fds[0])) >= 0) {
		s->id = st->id;
		return true;
	}
	slot_put(st->keep_slot);
	st->keep_slot = 0;
	return false;
}

void keep_pair_end(const struct stream *st, unsigned int e)
{
	if (!st->keep_slot)
		return;
	pairs->slot[st->keep_slot - 1].watched[e] = st->watched[e];
	pairs->slot[st->keep_slot - 1].end[e].cookie = st->end[e].cookie;
	pairs->slot[st->keep_slot - 1].end[e].counted = st->end[e].counted;
}

void keep_pair_not(struct stream *st)
{
	char name[NOTIFY_NAME];

	if (!st->keep_slot)
		return;
	name_of(st, name);
	notify_forget(name);
	slot_put(st->keep_slot);
	st->keep_slot = 0;
}

/* ---- the next daemon ---- */

int keep_pairs_table(int fd)
{
	struct stat st;
	void *p;

	if (pairs || fstat(fd, &st) || st.st_size != sizeof(*pairs))
		return -EINVAL;
	p = mmap(NULL, sizeof(*pairs), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	pairs = p;
	if (pairs->magic == MAGIC && pairs->slots == SLOTS && pairs->slot_size == sizeof(struct slot) && pairs->used <= SLOTS)
		return 0;
	munmap(p, sizeof(*pairs));
	pairs = NULL;
	return -EPROTO;
}

/* What was taken on has its slot; the others are free. */
void keep_pairs_done(void)
{
	for (uint32_t n = pairs ? pairs->used : 0; n; n--) {
		const struct stream *st = stream_find(pairs->slot[n - 1].id);

		if (!st || st->keep_slot != n)
			slot_put(n);
	}
}

enum { TCP, THEIR_TCP, SEGMENT, WATCH, FDS };

/* Which of them it is. FDS: none. */
static unsigned int place(const struct slot *s, int fd)
{
	char at[32], to[32] = "";
	struct stat st;
	uint64_t cookie;

	if (fstat(fd, &st))
		return FDS;
	if (S_ISREG(st.st_mode))
		return SEGMENT;
	if (S_ISSOCK(st.st_mode))
		return tcp_cookie(fd, &cookie) ? FDS : cookie == s->tcp ? TCP : THEIR_TCP;
	snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	return readlink(at, to, sizeof(to) - 1) > 0 && !strcmp(to, "anon_inode:[eventpoll]") ? WATCH : FDS;
}

static int again(uint32_t n, const struct slot *s, int fd[FDS])
{
	struct stream_owner o[2];
	struct stream *st;
	struct stat seg;

	for (unsigned int i = 0; i < FDS; i++)
		if (fd[i] < 0)
			return -ENOENT;
	for (unsigned int e = 0; e < 2; e++)
		o[e] = (struct stream_owner){ .pid = s->end[e].pid, .uid = s->end[e].uid, .fd = s->end[e].fd, .program = s->end[e].program };
	st = fstat(fd[SEGMENT], &seg) ? NULL : stream_revive_pair(s->id, (const struct iw_tuple[]){ s->end[0].tuple, s->end[1].tuple }, o,
		(const bool[]){ s->end[0].counted, s->end[1].counted }, fd[SEGMENT], (size_t)seg.st_size);
	if (!st)
		return -EINVAL;
	st->keep_slot = n;
	st->client = s->client;
	st->since_ms = st->active_ms = s->since_ms;
	st->watch = fd[WATCH];
	for (unsigned int e = 0; e < 2; e++) {
		st->watched[e] = s->watched[e];
		st->end[e].cookie = s->end[e].cookie;
		st->end[e].tcp = fd[TCP + e];
	}
	memset(fd, -1, FDS * sizeof(*fd));
	table_add(st);
	table_add_end(st, 1);
	local_start(st);
	return 0;
}

void keep_pair_revive(const char *name, const int *fds, unsigned int n)
{
	struct slot s = { 0 };
	unsigned long long id;
	int fd[FDS + 1], ret = -ENOENT;
	unsigned int at;

	memset(fd, -1, sizeof(fd));
	if (pairs && sscanf(name, KEEP_PAIR "%u-%llx", &at, &id) == 2 && at - 1 < pairs->used && id && pairs->slot[at - 1].id == id)
		s = pairs->slot[at - 1];
	s.end[0].program[STREAM_PROGRAM - 1] = s.end[1].program[STREAM_PROGRAM - 1] = 0;
	for (unsigned int i = 0; i < n; i++) {
		int *p = &fd[place(&s, fds[i])];

		if (*p >= 0)
			close(*p);
		*p = fds[i];
	}
	if (s.id)
		ret = again(at, &s, fd);
	for (unsigned int i = 0; i <= FDS; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	if (!ret)
		return;
	log_warn("%s, a pair that a daemon before this one had, is not shown, and has no socket for its options any more: %s", name, strerror(-ret));
	notify_forget(name);
}
