/* SPDX-License-Identifier: MIT */
/* Entries of CONNECTING fds, from the connect to the decision what carries it. What is guaranteed stands in connect.c. */
#include <netinet/tcp.h>
#include <string.h>

#include "proto/ctlmsg.h"
#include "proto/reason.h"
#include "connect.h"
#include "connecting.h"
#include "daemon.h"
#include "epoll.h"
#include "fdtab.h"
#include "internal.h"
#include "kinds.h"
#include "lib.h"
#include "lock.h"
#include "opts.h"
#include "proc.h"
#include "stream.h"
#include "swap.h"
#include "sys.h"
#include "tcp.h"

#define ENTRIES		4096u
#define DECIDE_MS	5000u	/* more than a connecting thread can need for its decision */

enum { FREE, PENDING, OFFERED };

struct iw_connecting {
	_Atomic uint32_t state;
	uint32_t giveup;	/* PENDING: reason why there must be no swap */
	bool seen;		/* the program waits for it by calls that pass through here */
	uint32_t sleepers;	/* poll and select calls that sleep on the old file */
	uint32_t tcp_word;	/* to go back to */
	uint32_t next;		/* free list: index + 1 */
	int fd, carrier;
	void *owner;		/* PENDING: the connecting thread */
	struct iw_stream *stream;
};

_Atomic uint32_t iw_connecting;

static struct iw_connecting entries[ENTRIES];
static uint32_t free_list, used;	/* index + 1; entries ever used */

static uint32_t word_of(const struct iw_connecting *c)
{
	return iw_word_make(IW_FD_CONNECTING, (uint32_t)(c - entries));
}

static void entry_free(struct iw_connecting *c)
{
	atomic_store(&c->state, FREE);
	iw_futex_wake(&c->state, INT32_MAX);
	c->stream = NULL;
	c->next = free_list;
	free_list = (uint32_t)(c - entries) + 1;
	atomic_fetch_sub(&iw_connecting, 1);
}

struct iw_connecting *iw_connecting_begin(int fd, uint32_t w)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_connecting *c = NULL;

	if (free_list)
		c = &entries[free_list - 1];
	else if (used < ENTRIES)
		c = &entries[used];
	if (!c || !iw_word_cas(fd, w, word_of(c))) {
		iw_unlock(&iw_tab_lock, sigs);
		return NULL;
	}
	if (free_list)
		free_list = c->next;
	else
		used++;
	c->giveup = 0;
	c->seen = iw_reg_any(fd);
	c->sleepers = 0;
	c->tcp_word = w;
	c->fd = fd;
	c->carrier = -1;
	c->stream = NULL;
	c->owner = __builtin_thread_pointer();
	atomic_store(&c->state, PENDING);
	atomic_fetch_add(&iw_connecting, 1);
	iw_unlock(&iw_tab_lock, sigs);
	return c;
}

void iw_connecting_undo(struct iw_connecting *c)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	uint32_t w = c->giveup ? iw_tcp_word(iw_tcp_serial(c->tcp_word), (enum iw_reason)c->giveup) : c->tcp_word;

	iw_word_cas(c->fd, word_of(c), w);
	entry_free(c);
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_connecting_plain(struct iw_connecting *c, uint32_t conn_id)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	iw_word_cas(c->fd, word_of(c), conn_id ? iw_word_make(IW_FD_PLAIN, conn_id) : IW_OTHER_SEEN);
	entry_free(c);
	iw_unlock(&iw_tab_lock, sigs);
}

/* ---- the decision; all of it under iw_tab_lock ---- */

static void carrier_close(int carrier)
{
	if (iw_fd_kind(carrier) == IW_FD_INTERNAL)
		iw_fd_unhide_close(carrier);
	else if (carrier >= 0)
		IW_SYS(close, carrier);
}

static bool abandoned;	/* and the daemon may not have heard it yet; under iw_tab_lock */

/* An abandoned socket is the application's alone again when this returns: its close must be the last one. */
static void unlock_told(uint64_t sigs)
{
	bool sync = abandoned;

	abandoned = false;
	iw_unlock(&iw_tab_lock, sigs);
	if (sync)
		iw_daemon_sync();
}

/* Not used after all. The daemon knows it by its stream and goes on listing it as plain when there is a reason. */
static void abandon(struct iw_connecting *c, struct iw_stream *s, int carrier, enum iw_reason why)
{
	uint32_t w = c->tcp_word;

	iw_daemon_tell_id(IW_CTL_ABANDON, s->stream_id, why, c->fd);
	abandoned = true;
	if (why)
		w = iw_word_make(IW_FD_PLAIN, (uint32_t)s->conn_id);
	iw_word_cas(c->fd, word_of(c), w);
	iw_stream_put_locked(s);
	carrier_close(carrier);
	entry_free(c);
}

static void switch_over(struct iw_connecting *c, struct iw_stream *s, int carrier, bool told)
{
	enum iw_reason why = (enum iw_reason)c->giveup;
	struct iw_opts o;
	int fd = c->fd;

	if (!why && iw_word(fd) != word_of(c))
		why = IW_REASON_SWAP_UNSAFE;	/* closed meanwhile: abandon() leaves the number alone */
	if (!why && c->sleepers)
		why = IW_REASON_SWAP_UNSAFE;
	if (!why && iw_fd_ino(carrier) != s->ino)
		why = IW_REASON_SWAP_UNSAFE;	/* the hidden fd was closed behind our back */
	if (!why) {
		iw_opts_read(fd, &o);	/* what keeps it plain was seen when it was set */
		iw_opts_write(s, carrier, &o);
	}
	if (!why && iw_swap(fd, carrier))
		why = IW_REASON_EPOLL_UNKNOWN;
	if (why) {
		abandon(c, s, carrier, why);
		return;
	}
	atomic_store(&s->connect_told, told);
	iw_word_set(fd, iw_stream_word(s));
	iw_daemon_tell_id(IW_CTL_COMMIT, s->stream_id, 0, fd);
	carrier_close(carrier);
	entry_free(c);
}

void iw_connecting_offered(struct iw_connecting *c, struct iw_stream *s, int carrier, bool established)
{
	uint64_t sigs;
	int hidden = carrier;

	if (!established)
		hidden = iw_fd_hide(carrier);
	sigs = iw_lock(&iw_tab_lock);
	if (hidden < 0) {
		abandon(c, s, -1, IW_REASON_RESOURCES);
	} else if (established) {
		switch_over(c, s, carrier, true);
	} else if (c->giveup || iw_word(c->fd) != word_of(c)) {
		abandon(c, s, hidden, c->giveup ? (enum iw_reason)c->giveup : 0);
	} else {
		c->stream = s;
		c->carrier = hidden;
		atomic_store(&c->state, OFFERED);
		iw_futex_wake(&c->state, INT32_MAX);
	}
	unlock_told(sigs);
}

/* ---- settling ---- */

enum tcp_is { TCP_IS_CONNECTING, TCP_IS_ESTABLISHED, TCP_IS_CLOSED };

static enum tcp_is tcp_is(int fd)
{
	uint8_t state = TCP_CLOSE;	/* tcpi_state is the first octet */
	socklen_t len = 1;

	if (IW_SYS(getsockopt, fd, IPPROTO_TCP, TCP_INFO, &state, &len) < 0 || state == TCP_CLOSE)
		return TCP_IS_CLOSED;
	return state == TCP_SYN_SENT || state == TCP_SYN_RECV ? TCP_IS_CONNECTING : TCP_IS_ESTABLISHED;
}

/* Caller holds the lock. -EAGAIN: the connecting thread is about to decide, wait for its entry. */
static int settle_held(struct iw_connecting *c)
{
	enum tcp_is is = tcp_is(c->fd);

	if (is == TCP_IS_CONNECTING)
		return 0;
	if (atomic_load(&c->state) == PENDING) {
		if (is == TCP_IS_CLOSED)
			return 0;
		if (c->owner != __builtin_thread_pointer())
			return -EAGAIN;
		c->giveup = IW_REASON_SWAP_UNSAFE;	/* a signal handler in the middle of connect() */
		return 0;
	}
	if (is == TCP_IS_CLOSED)	/* the application's own socket reports the error */
		abandon(c, c->stream, c->carrier, 0);
	else if (!c->seen)		/* it may be in a set that we did not see being filled, or in an io_uring */
		abandon(c, c->stream, c->carrier, IW_REASON_EPOLL_UNKNOWN);
	else
		switch_over(c, c->stream, c->carrier, false);
	return 0;
}

static struct iw_connecting *entry_of(int fd)
{
	uint32_t w = iw_word(fd);

	return iw_word_kind(w) == IW_FD_CONNECTING && iw_word_val(w) < ENTRIES ? &entries[iw_word_val(w)] : NULL;
}

enum iw_fd_kind iw_connecting_settle(int fd)
{
	struct iw_connecting *c = entry_of(fd);
	int saved = errno, r = 0;
	uint64_t sigs;

	if (iw_likely(!c))
		return iw_fd_kind(fd);
	if (iw_in_vfork())
		return IW_FD_OTHER;
	for (unsigned int waited = 0; c && waited < DECIDE_MS; waited += 50) {
		sigs = iw_lock(&iw_tab_lock);
		c = entry_of(fd);
		r = c ? settle_held(c) : 0;
		unlock_told(sigs);
		if (r != -EAGAIN)
			break;
		iw_futex_wait(&c->state, PENDING, 50);
	}
	errno = saved;
	return iw_fd_kind(fd);
}

void iw_connecting_seen(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_connecting *c = entry_of(fd);

	if (c)
		c->seen = true;
	iw_unlock(&iw_tab_lock, sigs);
}

enum iw_fd_kind iw_connecting_settle_seen(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_connecting *c = entry_of(fd);
	bool wait = c && !c->seen;

	iw_unlock(&iw_tab_lock, sigs);
	return wait ? IW_FD_CONNECTING : iw_connecting_settle(fd);
}

void iw_connecting_give_up(int fd, enum iw_reason why)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_connecting *c = entry_of(fd);

	if (c && atomic_load(&c->state) == PENDING)
		c->giveup = why;
	else if (c)
		abandon(c, c->stream, c->carrier, why);
	unlock_told(sigs);
}

int iw_connecting_data(int fd, int msg_flags)
{
	enum iw_fd_kind kind = iw_connecting_settle(fd);

	if (kind != IW_FD_CONNECTING)
		return kind;
	if ((msg_flags & MSG_DONTWAIT) || iw_is_nonblock(fd)) {
		errno = EAGAIN;
		return -1;
	}
	iw_connecting_give_up(fd, IW_REASON_SWAP_UNSAFE);
	return IW_FD_OTHER;
}

enum iw_fd_kind iw_connecting_wait_begin(int fd)
{
	enum iw_fd_kind kind;
	struct iw_connecting *c;
	uint64_t sigs;

	iw_connecting_seen(fd);
	kind = iw_connecting_settle(fd);
	if (kind != IW_FD_CONNECTING)
		return kind;
	sigs = iw_lock(&iw_tab_lock);
	c = entry_of(fd);
	if (c)
		c->sleepers++;
	iw_unlock(&iw_tab_lock, sigs);
	return c ? IW_FD_CONNECTING : iw_fd_kind(fd);
}

void iw_connecting_wait_end(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_connecting *c = entry_of(fd);

	if (c && c->sleepers)
		c->sleepers--;
	iw_unlock(&iw_tab_lock, sigs);
}

/* ---- close, fork ---- */

static void forget(int fd, uint32_t w)
{
	struct iw_connecting *c = &entries[iw_word_val(w) % ENTRIES];
	uint64_t sigs = iw_lock(&iw_tab_lock);

	if (c->fd == fd && atomic_load(&c->state) == OFFERED)
		abandon(c, c->stream, c->carrier, 0);
	iw_reg_drop_fd(fd);
	unlock_told(sigs);
}

static struct iw_connecting *entry_of_carrier(int fd)
{
	for (uint32_t i = 0; i < used; i++)
		if (atomic_load(&entries[i].state) == OFFERED && entries[i].carrier == fd)
			return &entries[i];
	return NULL;
}

bool iw_connecting_owns(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_connecting *c = entry_of_carrier(fd);
	bool own = c && iw_fd_ino(fd) == c->stream->ino;

	iw_unlock(&iw_tab_lock, sigs);
	return own;
}

/* The application wants this number: its offer is given up. */
void iw_connecting_closing_internal(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_connecting *c = entry_of_carrier(fd);

	if (c)
		abandon(c, c->stream, c->carrier, IW_REASON_RESOURCES);
	else
		iw_word_cas(fd, iw_word_make(IW_FD_INTERNAL, 1), 0);
	unlock_told(sigs);
}

static void before_fork(void)
{
	if (!atomic_load(&iw_connecting))
		return;
	for (uint32_t i = 0; i < used; i++) {
		struct iw_connecting *c = &entries[i];

		if (atomic_load(&c->state) == PENDING)
			c->giveup = IW_REASON_FD_SHARED;
		else if (atomic_load(&c->state) == OFFERED)
			abandon(c, c->stream, c->carrier, IW_REASON_FD_SHARED);
	}
}

/* The threads that were connecting do not exist here; their sockets are plain. */
static void forked_child(void)
{
	for (uint32_t i = 0; i < used; i++) {
		struct iw_connecting *c = &entries[i];

		if (atomic_load(&c->state) != FREE)
			iw_word_cas(c->fd, word_of(c), IW_OTHER_SEEN);
		if (atomic_load(&c->state) == OFFERED)
			carrier_close(c->carrier);
	}
	memset(entries, 0, sizeof(entries[0]) * used);
	free_list = used = 0;
	abandoned = false;
	atomic_store(&iw_connecting, 0);
}

/* A socket with two numbers cannot be swapped. */
static void before_dup(int fd)
{
	if (iw_connecting_settle(fd) == IW_FD_CONNECTING)
		iw_tcp_plain(fd, IW_REASON_FD_SHARED);
}

const struct iw_kind_ops iw_connecting_ops = {
	.forget = forget,
	.before_dup = before_dup,
	.connect = iw_connect_again,
	.fork = before_fork,
	.forked_child = forked_child,
};
