// SPDX-License-Identifier: MIT
/*
 * A register of which epoll sets hold which streams, so that a registration can move between a TCP socket and its carrier. Of a candidate
 * no more than a note is kept (candidate.h), which costs neither a lock nor a system call; when it is switched, the note, or the kernel,
 * says what is to be registered.
 */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "candidate.h"
#include "deadline.h"
#include "fdinfo.h"
#include "fdtab.h"
#include "internal.h"
#include "kinds.h"
#include "lock.h"
#include "path.h"
#include "proc.h"
#include "quiet.h"
#include "ready.h"
#include "reg.h"
#include "stream.h"
#include "sys.h"

#define REGS	(1u << 18)
#define HASH	(1u << 16)
#define TOGETHER	16u		/* registrations of one file that are moved together */

/* One mapping, made at the first registration; only what is used takes memory. */
static struct regs {
	uint32_t by_fd[IW_FD_MAX];	/* index + 1 */
	uint32_t by_data[HASH];
	_Atomic uint32_t waited[IW_FD_MAX];	/* of which set it was, when it was waited for */
	_Atomic uint32_t kicked[IW_FD_MAX];	/* which set of this number has the kicker in it */
	struct iw_reg r[REGS];
} *regs;
/*
 * What the kernel has as data of ours: the index of a registration, REGS for the kicker, in its lowest bits. Programs have data of all kinds, such as
 * addresses, which need not be those of anything: half of an epoll_data_t is whatever lay there. Not what was drawn by lot.
 */
static uint64_t tag;
static uint32_t free_list, used;
static bool overflow;
_Atomic uint32_t iw_reg_swaps = 1, iw_reg_rooms;
_Atomic bool iw_reg_mapped, iw_reg_nested;
struct iw_reg iw_reg_kicker;
static _Atomic int kicker;		/* always readable, in each set with mapped ones; 0: none yet */
static uint64_t kicker_ino;

static uint32_t *bucket(int epfd, uint64_t data)
{
	uint64_t h = (data ^ (uint64_t)(uint32_t)epfd << 40) * 0x9e3779b97f4a7c15ull;

	return &regs->by_data[h >> 48];
}

static bool regs_map(void)
{
	long p;

	if (regs)
		return true;
	p = IW_SYS(mmap, NULL, sizeof(*regs), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p < 0 && p > -4096)
		return false;
	if (IW_SYS(getrandom, &tag, sizeof(tag), 0) != sizeof(tag))
		tag = (uint64_t)iw_mono_ns() << 32 ^ (uint64_t)p;
	tag &= ~(2ull * REGS - 1);
	__atomic_store_n(&regs, (struct regs *)p, __ATOMIC_RELEASE);
	return true;
}

struct iw_reg *iw_reg_find(int fd, int epfd)
{
	uint32_t i = regs ? regs->by_fd[fd] : 0;

	for (; i; i = regs->r[i - 1].next_fd)
		if (regs->r[i - 1].epfd == epfd && !regs->r[i - 1].left)
			return &regs->r[i - 1];
	return NULL;
}

struct iw_reg *iw_reg_at(uint32_t index)
{
	return &regs->r[index];
}

uint32_t iw_reg_index(const struct iw_reg *r)
{
	return (uint32_t)(r - regs->r);
}

uint32_t iw_reg_end(void)
{
	return __atomic_load_n(&used, __ATOMIC_RELAXED);
}

struct iw_reg *iw_reg_next(int fd, const struct iw_reg *last)
{
	uint32_t i = last ? last->next_fd : regs ? regs->by_fd[fd] : 0;

	return i ? &regs->r[i - 1] : NULL;
}

struct iw_reg *iw_reg_of(uint64_t data)
{
	struct regs *all = __atomic_load_n(&regs, __ATOMIC_ACQUIRE);
	uint64_t i = data ^ tag;

	if (!all || i > REGS)
		return NULL;
	return i < REGS ? &all->r[i] : &iw_reg_kicker;
}

static void hash_in(struct iw_reg *r)
{
	uint32_t *b = bucket(r->epfd, r->data);

	r->next_hash = *b;
	*b = (uint32_t)(r - regs->r) + 1;
}

static void hash_out(struct iw_reg *r)
{
	uint32_t idx = (uint32_t)(r - regs->r) + 1, *p = bucket(r->epfd, r->data);

	while (*p && *p != idx)
		p = &regs->r[*p - 1].next_hash;
	if (*p)
		*p = r->next_hash;
}

struct iw_reg *iw_reg_by_data(int epfd, uint64_t data, const struct iw_reg *last)
{
	uint32_t i = last ? last->next_hash : regs ? *bucket(epfd, data) : 0;

	for (; i; i = regs->r[i - 1].next_hash)
		if (regs->r[i - 1].epfd == epfd && regs->r[i - 1].data == data)
			return &regs->r[i - 1];
	return NULL;
}

/* Also behind the gate. */
static struct iw_stream *stream_of(int fd)
{
	uint32_t w = iw_word(fd);

	if (iw_word_kind(w) == IW_FD_SWITCHING)
		w = iw_word_ungated(w);
	return iw_word_kind(w) == IW_FD_STREAM ? iw_stream_at(iw_word_val(w)) : NULL;
}

static int at_of(int fd)
{
	struct iw_stream *s = stream_of(fd);

	return s ? iw_stream_wait_fd(s, fd) : fd;
}

/* ---- mapped ones ---- */

/* All of a stream's, which has one fd. */
static void count_mapped(struct iw_stream *s, int fd)
{
	uint32_t one = 0;

	for (struct iw_reg *r = NULL; (r = iw_reg_next(fd, r));)
		if (iw_reg_is_mapped(r))
			one = one ? IW_REG_MANY : iw_reg_index(r) + 1;
	atomic_store(&s->reg, one);
}

/* What the kernel has, or will have, under r->at. */
static void stands(struct iw_reg *r)
{
	struct iw_stream *s = stream_of(r->fd);

	if (!s)
		return;
	if (iw_reg_is_mapped(r)) {
		r->s = s;
		r->set = iw_set_of(r->epfd);
		r->spent = r->parked;
		iw_ready_armed(r);
	} else {
		iw_ready_gone(r);
	}
	count_mapped(s, r->fd);
}

static bool kicker_there(void)
{
	int fd = atomic_load(&kicker);

	return fd && iw_fd_kind(fd) == IW_FD_INTERNAL && iw_fd_ino(fd) == kicker_ino;
}

static bool kicker_make(void)
{
	int fd;

	if (kicker_there())
		return true;
	fd = (int)IW_SYS(eventfd2, 1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd >= 0)
		fd = iw_fd_hide(fd);
	if (fd < 0)
		return false;
	for (int i = 0; kicker_ino && i <= atomic_load(&iw_fd_high); i++)
		if (atomic_load_explicit(&regs->kicked[i], memory_order_relaxed))
			atomic_store(&regs->kicked[i], 0);
	kicker_ino = iw_fd_ino(fd);
	atomic_store(&kicker, fd);
	return true;
}

static long kicker_ctl(int epfd, int op, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = tag ^ REGS };

	return IW_SYS(epoll_ctl, epfd, op, atomic_load(&kicker), &ev);
}

static bool kicker_add(int epfd)
{
	long r = kicker_ctl(epfd, EPOLL_CTL_ADD, 0);

	if (r < 0 && r != -EEXIST)
		return false;
	atomic_store(&regs->kicked[epfd], iw_set_of(epfd));
	return true;
}

/* To be seen by one that waits, once. */
void iw_reg_kick(int epfd)
{
	kicker_ctl(epfd, EPOLL_CTL_MOD, EPOLLIN | EPOLLONESHOT);
}

void iw_reg_unkick(int epfd)
{
	kicker_ctl(epfd, EPOLL_CTL_MOD, 0);
}

/* Another one in its place. */
static void kicker_move(void)
{
	int old = atomic_exchange(&kicker, 0);

	kicker_make();
	for (uint32_t i = 0; i < used; i++)
		if (regs->r[i].fd >= 0 && iw_reg_is_mapped(&regs->r[i])) {
			IW_SYS(epoll_ctl, regs->r[i].epfd, EPOLL_CTL_DEL, old, NULL);
			kicker_add(regs->r[i].epfd);
		}
	iw_fd_unhide_close(old);
}

void iw_reg_sync(struct iw_reg *r, bool again)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	if (r->fd >= 0 && iw_reg_is_mapped(r) && !r->parked && !r->spent && (again || iw_ready_asks(r) != r->asked)) {
		if (r->events & EPOLLEXCLUSIVE)
			iw_reg_ctl(r, EPOLL_CTL_DEL);
		iw_reg_ctl(r, r->events & EPOLLEXCLUSIVE ? EPOLL_CTL_ADD : EPOLL_CTL_MOD);
	}
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_reg_add(int fd, int epfd, const struct epoll_event *ev)
{
	struct iw_reg *r;
	uint32_t i;

	if (!regs_map() || (!free_list && used == REGS)) {
		overflow = true;
		return;
	}
	i = free_list ? free_list : ++used;
	r = &regs->r[i - 1];
	if (free_list)
		free_list = r->next_fd;
	*r = (struct iw_reg){ .data = ev->data.u64, .fd = fd, .epfd = epfd, .at = at_of(fd), .events = ev->events, .next_fd = regs->by_fd[fd] };
	__atomic_store_n(&regs->by_fd[fd], i, __ATOMIC_RELAXED);
	hash_in(r);
	stands(r);
}

void iw_reg_change(struct iw_reg *r, const struct epoll_event *ev)
{
	hash_out(r);
	r->events = ev->events;
	r->raw = false;
	r->data = ev->data.u64;
	hash_in(r);
	if (iw_reg_is_mapped(r)) {
		r->spent = false;
		iw_ready_armed(r);
	}
}

/*
 * A stream that is shut for writing is writable on TCP, and nobody writes any more. Where its carrier is full, another socket, which is
 * always writable, stands beside it in the set, with the program's data, and is what reports EPOLLOUT.
 */
void iw_reg_room_drop(struct iw_reg *r)
{
	if (!r->room)
		return;
	if (iw_fd_kind(r->room) == IW_FD_INTERNAL && iw_fd_ino(r->room) == r->room_ino) {
		IW_SYS(epoll_ctl, r->epfd, EPOLL_CTL_DEL, r->room, NULL);
		iw_fd_unhide_close(r->room);
	}
	r->room = 0;
	atomic_fetch_sub(&iw_reg_rooms, 1);
}

static bool room_wanted(const struct iw_reg *r)
{
	struct iw_stream *s = r->parked || iw_reg_is_mapped(r) ? NULL : iw_stream_of(r->fd);

	return s && (r->events & (EPOLLOUT | EPOLLWRNORM)) && (atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_WR) &&
	       !(iw_path(s)->bits(s, r->fd, POLLOUT) & POLLOUT);
}

/* After each change of the registration. */
void iw_reg_room_update(struct iw_reg *r)
{
	struct epoll_event ev = { .data.u64 = r->data };
	int fd;

	iw_reg_room_drop(r);
	if (!room_wanted(r))
		return;
	fd = (int)IW_SYS(socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		fd = iw_fd_hide(fd);
	if (fd < 0)
		return;
	ev.events = r->events & (EPOLLOUT | EPOLLWRNORM | EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP);
	r->room_ino = iw_fd_ino(fd);
	r->room = fd;
	atomic_fetch_add(&iw_reg_rooms, 1);
	if (IW_SYS(epoll_ctl, r->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		iw_reg_room_drop(r);
}

static struct iw_reg *reg_of_room(int fd)
{
	if (atomic_load(&iw_reg_rooms))
		for (uint32_t i = 0; i < used; i++)
			if (regs->r[i].fd >= 0 && regs->r[i].room == fd && iw_fd_ino(fd) == regs->r[i].room_ino)
				return &regs->r[i];
	return NULL;
}

bool iw_reg_owns(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	bool own = reg_of_room(fd) || (fd == atomic_load(&kicker) && kicker_there());

	iw_unlock(&iw_tab_lock, sigs);
	return own;
}

void iw_reg_make_way(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_reg *r = reg_of_room(fd);
	long place = r ? IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0) : -1;	/* so that the new one is elsewhere */

	if (r) {
		iw_reg_room_drop(r);
		IW_SYS(dup3, place, fd, O_CLOEXEC);
		iw_reg_room_update(r);
		IW_SYS(close, fd);
	} else if (fd == atomic_load(&kicker)) {
		kicker_move();
	}
	if (place >= 0)
		IW_SYS(close, place);
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_reg_del(struct iw_reg *r)
{
	uint32_t idx = (uint32_t)(r - regs->r) + 1, *p = &regs->by_fd[r->fd];

	iw_reg_room_drop(r);
	hash_out(r);
	while (*p && *p != idx)
		p = &regs->r[*p - 1].next_fd;
	if (*p)
		__atomic_store_n(p, r->next_fd, __ATOMIC_RELAXED);
	if (iw_reg_is_mapped(r)) {
		if (!r->parked)
			IW_SYS(epoll_ctl, r->epfd, EPOLL_CTL_DEL, r->at, NULL);	/* the file has other numbers */
		count_mapped(r->s, r->fd);
		r->at = r->fd;
		iw_ready_gone(r);
	}
	r->at = -1;
	r->fd = -1;
	r->left = false;
	r->next_fd = free_list;
	free_list = idx;
}

/* The kernel has an entry that stays as it is, in this set and not in one that got the number behind our back. */
static bool has_entry(const struct iw_reg *r)
{
	return !r->parked && iw_reg_is_level(r->events) && r->set == iw_set_of(r->epfd);
}

bool iw_reg_stands(const struct iw_reg *r)
{
	return has_entry(r) && iw_ready_asks(r) == r->asked;
}

bool iw_reg_leave(struct iw_reg *r)
{
	if (!has_entry(r) || r->spent || !iw_ready_counted(r->set))
		return false;
	r->spent = r->left = true;
	hash_out(r);
	iw_ready_gone(r);
	return true;
}

static struct iw_reg *left_one(int fd, int epfd)
{
	struct iw_reg *r = NULL;

	while ((r = iw_reg_next(fd, r)) && !(r->left && (r->epfd == epfd || epfd < 0)))
		;
	return r;
}

bool iw_reg_enter(int fd, int epfd, const struct epoll_event *ev)
{
	struct iw_reg *r = left_one(fd, epfd);

	if (!r)
		return false;
	if (ev && iw_reg_is_level(ev->events)) {
		r->left = false;
		iw_reg_change(r, ev);
		if (iw_reg_stands(r) || iw_reg_ctl(r, EPOLL_CTL_MOD) >= 0)
			return true;
	}
	iw_reg_del(r);
	return false;
}

void iw_reg_left(struct iw_reg *r)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	if (r->left)
		iw_reg_del(r);
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_reg_drop_fd(int fd)
{
	while (regs && regs->by_fd[fd])
		iw_reg_del(&regs->r[regs->by_fd[fd] - 1]);
}

/* Who closes fd is the last to use the number: what it looks at without the lock, nobody changes meanwhile. */
void iw_reg_forget(int fd)
{
	struct regs *all = __atomic_load_n(&regs, __ATOMIC_ACQUIRE);
	uint64_t sigs;

	if (!all || !__atomic_load_n(&all->by_fd[fd], __ATOMIC_RELAXED))
		return;
	sigs = iw_lock(&iw_tab_lock);
	iw_reg_drop_fd(fd);
	iw_unlock(&iw_tab_lock, sigs);
}

/* The word of an epoll set: a serial number, so that a note knows whether it is the same one; above it whether it may have more numbers. */
#define SERIALS		(1u << 27)
#define ALIASED		SERIALS
#define SERVED		(1u << 31)	/* in regs.waited: who sleeps in it has said so, or is known to be a stranger */

static uint32_t set_word(uint32_t aliased)
{
	static _Atomic uint32_t serial;

	return iw_word_make(IW_FD_EPOLL, (atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed) & (SERIALS - 1)) | aliased);
}

static uint32_t set_serial(uint32_t w)
{
	return iw_word_kind(w) == IW_FD_EPOLL ? iw_word_val(w) & (SERIALS - 1) : UINT32_MAX;
}

uint32_t iw_set_of(int epfd)
{
	uint32_t serial = set_serial(iw_word(epfd));

	return serial == UINT32_MAX ? 0 : serial + 1;
}

void iw_set_waited(int epfd, uint32_t set)
{
	struct regs *all = __atomic_load_n(&regs, __ATOMIC_ACQUIRE);

	if (all && set && (atomic_load_explicit(&all->waited[epfd], memory_order_relaxed) & ~SERVED) != set)
		atomic_store_explicit(&all->waited[epfd], set, memory_order_relaxed);
}

static int another_number(uint32_t w)
{
	int high = atomic_load(&iw_fd_high);

	for (int fd = 0; fd <= high; fd++)
		if (set_serial(iw_word(fd)) == set_serial(w))
			return fd;
	return -1;
}

/* The number of an epoll set goes. If it was duplicated the set may live on, perhaps with registrations out of our reach. */
static void drop_epfd(int epfd, uint32_t w)
{
	bool aliased = iw_word_val(w) & ALIASED;
	int other = aliased ? another_number(w) : -1;

	for (uint32_t i = 0; i < used; i++) {
		struct iw_reg *r = &regs->r[i];

		if (r->fd < 0 || r->epfd != epfd)
			continue;
		if (!aliased) {
			iw_reg_del(r);
			continue;
		}
		iw_reg_room_drop(r);
		hash_out(r);
		r->epfd = other;
		hash_in(r);
		if (r->left && other >= 0)
			iw_reg_del(r);
		r->left = false;
	}
}

bool iw_reg_lost(int fd)
{
	return overflow || iw_reg_find(fd, -1);
}

/* A mapped one says by its data which it is: those of programs need not differ. */
long iw_reg_ctl(struct iw_reg *r, int op)
{
	struct epoll_event ev = { .events = r->events, .data.u64 = r->data };
	uint32_t had = r->asked;
	long ret;

	if (iw_reg_is_mapped(r)) {
		ev.events = iw_ready_asks(r);
		r->asked = ev.events;
		ev.data.u64 = tag ^ iw_reg_index(r);
	}
	ret = IW_SYS(epoll_ctl, r->epfd, op, r->at, &ev);
	if (ret < 0)
		r->asked = had;
	return ret;
}

int iw_reg_detach(int fd)
{
	struct iw_reg *left;
	uint32_t i, j;

	while ((left = left_one(fd, -1)))
		iw_reg_del(left);
	for (i = regs ? regs->by_fd[fd] : 0; i; i = regs->r[i - 1].next_fd) {
		iw_reg_room_drop(&regs->r[i - 1]);
		if (!regs->r[i - 1].parked && iw_reg_ctl(&regs->r[i - 1], EPOLL_CTL_DEL) < 0)
			break;
	}
	if (!i)
		return 0;
	for (j = regs->by_fd[fd]; j != i; j = regs->r[j - 1].next_fd)
		iw_reg_ctl(&regs->r[j - 1], EPOLL_CTL_ADD);
	return -EBUSY;
}

/* ADD fails only for want of memory that the DEL has just given back. */
void iw_reg_attach(int fd, bool other)
{
	uint32_t seq = atomic_fetch_add(&iw_reg_swaps, 1) + 1;

	for (uint32_t i = regs ? regs->by_fd[fd] : 0; i; i = regs->r[i - 1].next_fd) {
		struct iw_reg *r = &regs->r[i - 1];

		r->fired = (other || stream_of(fd)) && r->fired && r->moving;
		if (iw_reg_is_mapped(r) && at_of(fd) == fd)
			r->fired = atomic_exchange(&r->spent, true);	/* who is about to report it does not any more */
		r->parked = r->fired;
		r->moving = false;
		r->swapped = seq;
		r->at = at_of(fd);
		stands(r);
		if (!r->parked)
			iw_reg_ctl(r, EPOLL_CTL_ADD);
	}
}

void iw_set_born(int epfd)
{
	iw_fd_born(epfd, set_word(0));
}

/* One that was made elsewhere may have other numbers. */
void iw_set_seen(int epfd)
{
	if (!iw_word(epfd))
		iw_word_set(epfd, set_word(ALIASED));
}

static void forget(int epfd, uint32_t w)
{
	uint64_t sigs;

	if (!__atomic_load_n(&regs, __ATOMIC_ACQUIRE))
		return;
	sigs = iw_lock(&iw_tab_lock);
	iw_reg_drop_fd(epfd);
	drop_epfd(epfd, w);
	iw_unlock(&iw_tab_lock, sigs);
}

static uint32_t dup_epoll(int epfd, uint32_t w)
{
	w = iw_word_make(IW_FD_EPOLL, iw_word_val(w) | ALIASED);
	iw_word_set(epfd, w);
	return w;
}

const struct iw_kind_ops iw_epoll_ops = {
	.forget = forget,
	.dup = dup_epoll,
};

void iw_reg_look_again(int fd)
{
	uint64_t sigs;

	if ((unsigned int)fd >= IW_FD_MAX || !regs)
		return;
	sigs = iw_lock(&iw_tab_lock);
	for (uint32_t i = regs->by_fd[fd]; i; i = regs->r[i - 1].next_fd) {
		struct iw_reg *r = &regs->r[i - 1];

		if (r->parked && !r->fired && iw_reg_ctl(r, EPOLL_CTL_ADD) >= 0)
			r->parked = false;
	}
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_reg_room(int fd)
{
	uint64_t sigs;

	if ((unsigned int)fd >= IW_FD_MAX || !regs)
		return;
	sigs = iw_lock(&iw_tab_lock);
	for (uint32_t i = regs->by_fd[fd]; i; i = regs->r[i - 1].next_fd)
		iw_reg_room_update(&regs->r[i - 1]);
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_reg_nest(int epfd, int op, int inner, const struct epoll_event *ev)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_reg *r = iw_reg_find(inner, epfd);

	if (r && op == EPOLL_CTL_MOD) {
		iw_reg_change(r, ev);
	} else {
		if (r)
			iw_reg_del(r);
		if (op != EPOLL_CTL_DEL)
			iw_reg_add(inner, epfd, ev);
	}
	atomic_store(&iw_reg_nested, true);
	iw_ready_watched(iw_set_of(inner));
	iw_unlock(&iw_tab_lock, sigs);
}

/* ---- notes of candidates, and what a switch needs ---- */

/* What was done to a registration that the note has, or has no room for. Its owner has seq odd. */
void iw_note_change(struct iw_epoll_note *n, int epfd, int op, int fd, const struct epoll_event *ev)
{
	uint32_t set = set_serial(iw_word(epfd));
	bool same = n->fd == fd && n->epfd == epfd && n->set == set;

	if (op == EPOLL_CTL_DEL && same) {
		n->fd = -1;
	} else if (op == EPOLL_CTL_ADD ? n->fd < 0 : op == EPOLL_CTL_MOD && same) {
		n->fd = fd;
		n->epfd = epfd;
		n->set = set;
		n->events = ev->events;
		n->data = ev->data.u64;
		n->forks = atomic_load(&iw_forks);
	} else {
		atomic_store(&n->unsure, 1);
	}
}

static bool note_sure(const struct iw_epoll_note *n)
{
	return !(atomic_load(&n->seq) & 1) && !atomic_load(&n->unsure);
}

/* Registered before a fork in a set that we have closed: it may be a relative's, and the registration out of reach. */
static bool note_lost(const struct iw_epoll_note *n)
{
	if (n->forks == atomic_load(&iw_forks))
		return false;
	return !note_sure(n) || (n->fd >= 0 && n->set != set_serial(iw_word(n->epfd)));
}

#define STATES (EPOLLERR | EPOLLHUP)	/* which the kernel has in each */

static bool same_entry(const struct iw_in_set *a, const struct iw_in_set *b)
{
	return a->epfd == b->epfd && a->fd == b->fd && a->data == b->data && (a->fired || !((a->events ^ b->events) & ~(uint32_t)STATES));
}

/* What the program changes by calls that we do not see may fire while we look. */
static bool may_take(const struct iw_in_set *e, const struct iw_in_set *known)
{
	return !(e->events & EPOLLONESHOT) || (known && same_entry(e, known));
}

int iw_reg_learn(const struct iw_files *v, const struct iw_epoll_note *n)
{
	struct iw_in_set noted = { n->epfd, n->fd, n->events, n->data, false }, found[TOGETHER], *known = note_sure(n) && n->fd >= 0 ? &noted : NULL;
	int k = note_lost(n) ? -EBUSY : iw_sets_of(v, known, found, TOGETHER);
	uint64_t sigs;

	for (int i = 0; i < k; i++)
		if (!may_take(&found[i], known))
			k = -EBUSY;
	if (k <= 0)
		return k;
	sigs = iw_lock(&iw_tab_lock);
	for (int i = 0; i < k; i++) {
		bool as_noted = known && same_entry(&found[i], known);
		struct epoll_event ev = { .events = as_noted ? noted.events : found[i].events, .data.u64 = found[i].data };
		struct iw_reg *r;

		iw_reg_add(found[i].fd, found[i].epfd, &ev);
		r = iw_reg_find(found[i].fd, found[i].epfd);
		if (r) {
			r->raw = !as_noted;
			r->moving = true;
			r->fired = found[i].fired;
		}
	}
	iw_unlock(&iw_tab_lock, sigs);
	return 0;
}

/* Its entry, as the kernel has it. */
static bool look_up(struct iw_reg *r)
{
	struct iw_fdinfo f;
	const char *line;
	struct iw_tfd t;
	bool found = false;

	if (iw_fdinfo_open(&f, r->epfd))
		return false;
	while (!found && (line = iw_fdinfo_line(&f)))
		found = iw_tfd_parse(line, &t) && t.fd == r->at;
	iw_fdinfo_close(&f);
	if (found)
		r->fired |= !(t.events & 0xffffu);
	return found;
}

/* Whoever waits for this set can be told of what is ready. */
static bool serves(int epfd)
{
	uint32_t set = iw_set_of(epfd);

	if (!set || (iw_word_val(iw_word(epfd)) & ALIASED) || !regs_map() || !kicker_make() || !kicker_add(epfd))
		return false;
	if (atomic_load(&regs->waited[epfd]) != (set | SERVED) && !iw_quiet(epfd, NULL))
		iw_ready_strangers(set);
	return true;
}

/* Nothing was found against it before. */
static bool served(int epfd)
{
	struct regs *all = __atomic_load_n(&regs, __ATOMIC_ACQUIRE);
	uint32_t w = iw_word(epfd), set = set_serial(w) + 1;

	return all && iw_word_kind(w) == IW_FD_EPOLL && !(iw_word_val(w) & ALIASED) && atomic_load(&all->kicked[epfd]) == set &&
	       atomic_load(&all->waited[epfd]) == (set | SERVED);
}

bool iw_set_serves(int epfd)
{
	uint64_t sigs;
	bool does;

	if (served(epfd))
		return true;
	sigs = iw_lock(&iw_tab_lock);
	does = serves(epfd);
	iw_unlock(&iw_tab_lock, sigs);
	return does;
}

static bool may_map(struct iw_reg *r)
{
	if (r->raw || (r->parked && !r->fired) || r->epfd < 0 || !serves(r->epfd))
		return false;
	if ((atomic_load(&regs->waited[r->epfd]) & ~SERVED) != iw_set_of(r->epfd))
		return false;
	atomic_fetch_or(&regs->waited[r->epfd], SERVED);
	if (!(r->events & EPOLLONESHOT))
		return true;
	r->moving = true;
	r->fired = r->parked;
	return r->parked || iw_reg_is_mapped(r) || look_up(r);
}

bool iw_reg_may_map(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	bool may = !iw_reg_lost(fd);

	if (!atomic_exchange(&iw_reg_mapped, true))
		atomic_fetch_add(&iw_streams, 1);	/* from now on all that wait for a set say so */
	for (struct iw_reg *r = NULL; may && (r = iw_reg_next(fd, r));)
		may = may_map(r);
	iw_unlock(&iw_tab_lock, sigs);
	return may;
}

bool iw_reg_may_move(int fd)
{
	for (uint32_t i = regs ? regs->by_fd[fd] : 0; i; i = regs->r[i - 1].next_fd)
		if (regs->r[i - 1].parked || regs->r[i - 1].raw || (regs->r[i - 1].events & EPOLLONESHOT))
			return false;
	return true;
}

