// SPDX-License-Identifier: MIT
/* A register of which epoll sets hold which streams, so that a registration can move between a TCP socket, its carrier, and what maps it. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "deadline.h"
#include "fdinfo.h"
#include "fdtab.h"
#include "internal.h"
#include "lock.h"
#include "ready.h"
#include "reg_priv.h"
#include "stream.h"
#include "sys.h"

struct iw_regs *iw_regs;
uint64_t iw_reg_tag;
uint32_t iw_reg_used;
static uint32_t free_list;
static bool overflow;
_Atomic uint32_t iw_reg_swaps = 1, iw_reg_apart;
_Atomic bool iw_reg_mapped, iw_reg_nested;

static uint32_t *bucket(int epfd, uint64_t data)
{
	uint64_t h = (data ^ (uint64_t)(uint32_t)epfd << 40) * 0x9e3779b97f4a7c15ull;

	return &iw_regs->by_data[h >> 48];
}

bool iw_regs_map(void)
{
	long p;

	if (iw_regs)
		return true;
	p = IW_SYS(mmap, NULL, sizeof(*iw_regs), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p < 0 && p > -4096)
		return false;
	if (IW_SYS(getrandom, &iw_reg_tag, sizeof(iw_reg_tag), 0) != sizeof(iw_reg_tag))
		iw_reg_tag = (uint64_t)iw_mono_ns() << 32 ^ (uint64_t)p;
	iw_reg_tag &= ~(2ull * IW_REGS - 1);
	__atomic_store_n(&iw_regs, (struct iw_regs *)p, __ATOMIC_RELEASE);
	return true;
}

struct iw_reg *iw_reg_find(int fd, int epfd)
{
	uint32_t i = iw_regs ? iw_regs->by_fd[fd] : 0;

	for (; i; i = iw_regs->r[i - 1].next_fd)
		if (iw_regs->r[i - 1].epfd == epfd && !iw_regs->r[i - 1].left)
			return &iw_regs->r[i - 1];
	return NULL;
}

struct iw_reg *iw_reg_at(uint32_t index)
{
	return &iw_regs->r[index];
}

uint32_t iw_reg_index(const struct iw_reg *r)
{
	return (uint32_t)(r - iw_regs->r);
}

uint32_t iw_reg_end(void)
{
	return __atomic_load_n(&iw_reg_used, __ATOMIC_RELAXED);
}

struct iw_reg *iw_reg_next(int fd, const struct iw_reg *last)
{
	uint32_t i = last ? last->next_fd : iw_regs ? iw_regs->by_fd[fd] : 0;

	return i ? &iw_regs->r[i - 1] : NULL;
}

struct iw_reg *iw_reg_of(uint64_t data)
{
	struct iw_regs *all = __atomic_load_n(&iw_regs, __ATOMIC_ACQUIRE);
	uint64_t i = data ^ iw_reg_tag;

	if (!all || i > IW_REGS)
		return NULL;
	return i < IW_REGS ? &all->r[i] : &iw_reg_kicker;
}

static void hash_in(struct iw_reg *r)
{
	uint32_t *b = bucket(r->epfd, r->data);

	r->next_hash = *b;
	*b = (uint32_t)(r - iw_regs->r) + 1;
}

static void hash_out(struct iw_reg *r)
{
	uint32_t idx = (uint32_t)(r - iw_regs->r) + 1, *p = bucket(r->epfd, r->data);

	while (*p && *p != idx)
		p = &iw_regs->r[*p - 1].next_hash;
	if (*p)
		*p = r->next_hash;
}

struct iw_reg *iw_reg_by_data(int epfd, uint64_t data, const struct iw_reg *last)
{
	uint32_t i = last ? last->next_hash : iw_regs ? *bucket(epfd, data) : 0;

	for (; i; i = iw_regs->r[i - 1].next_hash)
		if (iw_regs->r[i - 1].epfd == epfd && iw_regs->r[i - 1].data == data)
			return &iw_regs->r[i - 1];
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

	if (!iw_regs_map() || (!free_list && iw_reg_used == IW_REGS)) {
		overflow = true;
		return;
	}
	i = free_list ? free_list : ++iw_reg_used;
	r = &iw_regs->r[i - 1];
	if (free_list)
		free_list = r->next_fd;
	*r = (struct iw_reg){ .data = ev->data.u64, .fd = fd, .epfd = epfd, .at = at_of(fd), .events = ev->events, .next_fd = iw_regs->by_fd[fd] };
	__atomic_store_n(&iw_regs->by_fd[fd], i, __ATOMIC_RELAXED);
	hash_in(r);
	stands(r);
}

void iw_reg_change(struct iw_reg *r, const struct epoll_event *ev)
{
	hash_out(r);
	r->events = ev->events;
	r->raw = r->fired = false;
	r->data = ev->data.u64;
	hash_in(r);
	if (iw_reg_is_mapped(r)) {
		r->spent = false;
		iw_ready_armed(r);
	}
}

bool iw_reg_owns(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	bool own = iw_room_of(fd) || iw_kicker_is(fd);

	iw_unlock(&iw_tab_lock, sigs);
	return own;
}

void iw_reg_make_way(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_reg *r = iw_room_of(fd);
	long place = r ? IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0) : -1;	/* so that the new one is elsewhere */

	if (r) {
		iw_reg_room_drop(r);
		IW_SYS(dup3, place, fd, O_CLOEXEC);
		iw_reg_room_update(r);
		IW_SYS(close, fd);
	} else if (iw_kicker_is(fd)) {
		iw_kicker_move();
	}
	if (place >= 0)
		IW_SYS(close, place);
	iw_unlock(&iw_tab_lock, sigs);
}

/* It is known to be apart before it is. */
static long take_apart(struct iw_reg *r)
{
	r->apart = true;
	atomic_fetch_add(&iw_reg_apart, 1);
	return iw_reg_ctl(r, EPOLL_CTL_DEL);
}

static void is_together(struct iw_reg *r)
{
	if (r->apart)
		atomic_fetch_sub(&iw_reg_apart, 1);
	r->apart = false;
}

void iw_reg_del(struct iw_reg *r)
{
	uint32_t idx = (uint32_t)(r - iw_regs->r) + 1, *p = &iw_regs->by_fd[r->fd];

	is_together(r);
	iw_reg_room_drop(r);
	hash_out(r);
	while (*p && *p != idx)
		p = &iw_regs->r[*p - 1].next_fd;
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
	while (iw_regs && iw_regs->by_fd[fd])
		iw_reg_del(&iw_regs->r[iw_regs->by_fd[fd] - 1]);
}

/* Who closes fd is the last to use the number: what it looks at without the lock, nobody changes meanwhile. */
void iw_reg_forget(int fd)
{
	struct iw_regs *all = __atomic_load_n(&iw_regs, __ATOMIC_ACQUIRE);
	uint64_t sigs;

	if (!all || !__atomic_load_n(&all->by_fd[fd], __ATOMIC_RELAXED))
		return;
	sigs = iw_lock(&iw_tab_lock);
	iw_reg_drop_fd(fd);
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_reg_set_gone(int epfd, bool aliased, int other)
{
	for (uint32_t i = 0; i < iw_reg_used; i++) {
		struct iw_reg *r = &iw_regs->r[i];

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
		ev.data.u64 = iw_reg_tag ^ iw_reg_index(r);
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
	for (i = iw_regs ? iw_regs->by_fd[fd] : 0; i; i = iw_regs->r[i - 1].next_fd) {
		iw_reg_room_drop(&iw_regs->r[i - 1]);
		if (!iw_regs->r[i - 1].parked && take_apart(&iw_regs->r[i - 1]) < 0)
			break;
	}
	if (!i)
		return 0;
	for (j = iw_regs->by_fd[fd]; j != i; j = iw_regs->r[j - 1].next_fd) {
		iw_reg_ctl(&iw_regs->r[j - 1], EPOLL_CTL_ADD);
		is_together(&iw_regs->r[j - 1]);
	}
	is_together(&iw_regs->r[i - 1]);
	return -EBUSY;
}

/* ADD fails only for want of memory that the DEL has just given back. */
void iw_reg_attach(int fd, bool other)
{
	uint32_t seq = atomic_fetch_add(&iw_reg_swaps, 1) + 1;

	for (uint32_t i = iw_regs ? iw_regs->by_fd[fd] : 0; i; i = iw_regs->r[i - 1].next_fd) {
		struct iw_reg *r = &iw_regs->r[i - 1];

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
		is_together(r);
	}
}

bool iw_reg_was_apart(uint32_t seq)
{
	if (iw_likely(!atomic_load(&iw_reg_apart) && atomic_load(&iw_reg_swaps) == seq))
		return false;
	iw_unlock(&iw_tab_lock, iw_lock(&iw_tab_lock));
	return true;
}

void iw_reg_look_again(int fd)
{
	uint64_t sigs;

	if ((unsigned int)fd >= IW_FD_MAX || !iw_regs)
		return;
	sigs = iw_lock(&iw_tab_lock);
	for (uint32_t i = iw_regs->by_fd[fd]; i; i = iw_regs->r[i - 1].next_fd) {
		struct iw_reg *r = &iw_regs->r[i - 1];

		if (r->parked && !r->fired && iw_reg_ctl(r, EPOLL_CTL_ADD) >= 0)
			r->parked = false;
	}
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

static bool may_map(struct iw_reg *r)
{
	if (r->raw || (r->parked && !r->fired) || r->epfd < 0 || !iw_set_may_map(r->epfd))
		return false;
	r->moving = true;
	r->fired = r->parked;
	return !(r->events & EPOLLONESHOT) || r->parked || iw_reg_is_mapped(r) || look_up(r);
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
	for (uint32_t i = iw_regs ? iw_regs->by_fd[fd] : 0; i; i = iw_regs->r[i - 1].next_fd)
		if (iw_regs->r[i - 1].parked || iw_regs->r[i - 1].raw || (iw_regs->r[i - 1].events & EPOLLONESHOT))
			return false;
	return true;
}

