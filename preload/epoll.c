// SPDX-License-Identifier: MIT
/*
 * epoll stays the kernel's. This keeps a register of which epoll sets hold which streams, so that a registration can move between a TCP
 * socket and its carrier, and corrects the few event bits in which a carrier differs from TCP. Of a candidate no more than a note is kept
 * (candidate.h), which costs neither a lock nor a system call; when it is switched, the note, or the kernel, says what is to be registered.
 *
 * An event that the old registration of a swapped fd left behind is dropped, and the new registration is armed again, so that
 * it reports by itself: no edge and no ONESHOT is lost, none is delivered twice.
 */
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "candidate.h"
#include "deadline.h"
#include "epoll.h"
#include "fdinfo.h"
#include "fdtab.h"
#include "init.h"
#include "internal.h"
#include "kinds.h"
#include "lib.h"
#include "lock.h"
#include "path.h"
#include "proc.h"
#include "real.h"
#include "stream.h"
#include "sys.h"
#include "tcpstate.h"
#include "turn.h"
#include "user.h"

IW_EXPORT int epoll_create(int size);
IW_EXPORT int epoll_create1(int flags);
IW_EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
IW_EXPORT int epoll_wait(int epfd, struct epoll_event *ev, int n, int ms);
IW_EXPORT int epoll_pwait(int epfd, struct epoll_event *ev, int n, int ms, const sigset_t *ss);
IW_EXPORT int epoll_pwait2(int epfd, struct epoll_event *ev, int n, const struct timespec *t, const sigset_t *ss);

#define REGS	(1u << 18)
#define HASH	(1u << 16)
#define BATCH	64
#define TOGETHER	16u		/* registrations of one file that are moved together */

struct reg {
	uint64_t data;
	int fd, epfd;		/* epfd -1: the set lives on under a number we do not know */
	uint32_t events;
	uint32_t swapped;	/* value of swap_seq when it moved to a carrier; 0 never */
	uint32_t next_fd, next_hash;	/* index + 1 */
	bool parked;		/* taken out of the kernel's set, because only bits that TCP would not show are ready */
	int room;		/* what says EPOLLOUT for a full carrier that was shut for writing; 0: nothing */
	uint64_t room_ino;
	bool fired;		/* the same, because it reports once and has done so */
	bool moving;		/* a candidate's, about to be moved; fired then: it has reported, and the kernel has it still */
	bool raw;		/* the program registers by other ways, which must find it in the kernel's set */
};

/* One mapping, made at the first registration; only what is used takes memory. */
static struct regs {
	uint32_t by_fd[IW_FD_MAX];	/* index + 1 */
	uint32_t by_data[HASH];
	struct reg r[REGS];
} *regs;
static uint32_t free_list, used;
static bool overflow;
static _Atomic uint32_t swap_seq = 1, rooms;	/* rooms: registrations with room */

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
	__atomic_store_n(&regs, (struct regs *)p, __ATOMIC_RELEASE);
	return true;
}

static struct reg *reg_find(int fd, int epfd)
{
	uint32_t i = regs ? regs->by_fd[fd] : 0;

	for (; i; i = regs->r[i - 1].next_fd)
		if (regs->r[i - 1].epfd == epfd)
			return &regs->r[i - 1];
	return NULL;
}

static void hash_in(struct reg *r)
{
	uint32_t *b = bucket(r->epfd, r->data);

	r->next_hash = *b;
	*b = (uint32_t)(r - regs->r) + 1;
}

static void hash_out(struct reg *r)
{
	uint32_t idx = (uint32_t)(r - regs->r) + 1, *p = bucket(r->epfd, r->data);

	while (*p && *p != idx)
		p = &regs->r[*p - 1].next_hash;
	if (*p)
		*p = r->next_hash;
}

static void reg_add(int fd, int epfd, const struct epoll_event *ev)
{
	struct reg *r;
	uint32_t i;

	if (!regs_map() || (!free_list && used == REGS)) {
		overflow = true;
		return;
	}
	i = free_list ? free_list : ++used;
	r = &regs->r[i - 1];
	if (free_list)
		free_list = r->next_fd;
	*r = (struct reg){ .data = ev->data.u64, .fd = fd, .epfd = epfd, .events = ev->events, .next_fd = regs->by_fd[fd] };
	__atomic_store_n(&regs->by_fd[fd], i, __ATOMIC_RELAXED);
	hash_in(r);
}

/*
 * A stream that is shut for writing is writable on TCP, and nobody writes any more. Where its carrier is full, another socket, which is
 * always writable, stands beside it in the set, with the program's data, and is what reports EPOLLOUT.
 */
static void room_drop(struct reg *r)
{
	if (!r->room)
		return;
	if (iw_fd_kind(r->room) == IW_FD_INTERNAL && iw_fd_ino(r->room) == r->room_ino) {
		IW_SYS(epoll_ctl, r->epfd, EPOLL_CTL_DEL, r->room, NULL);
		iw_fd_unhide_close(r->room);
	}
	r->room = 0;
	atomic_fetch_sub(&rooms, 1);
}

static bool room_wanted(const struct reg *r)
{
	struct iw_stream *s = r->parked ? NULL : iw_stream_of(r->fd);

	return s && (r->events & (EPOLLOUT | EPOLLWRNORM)) && (atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_WR) &&
	       !(iw_path(s)->bits(s, r->fd, POLLOUT) & POLLOUT);
}

/* After each change of the registration. */
static void room_update(struct reg *r)
{
	struct epoll_event ev = { .data.u64 = r->data };
	int fd;

	room_drop(r);
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
	atomic_fetch_add(&rooms, 1);
	if (IW_SYS(epoll_ctl, r->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		room_drop(r);
}

static struct reg *reg_of_room(int fd)
{
	if (atomic_load(&rooms))
		for (uint32_t i = 0; i < used; i++)
			if (regs->r[i].fd >= 0 && regs->r[i].room == fd && iw_fd_ino(fd) == regs->r[i].room_ino)
				return &regs->r[i];
	return NULL;
}

bool iw_reg_owns(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	bool own = reg_of_room(fd);

	iw_unlock(&iw_tab_lock, sigs);
	return own;
}

void iw_reg_make_way(int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct reg *r = reg_of_room(fd);
	long place = r ? IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0) : -1;	/* so that the new one is elsewhere */

	if (r) {
		room_drop(r);
		IW_SYS(dup3, place, fd, O_CLOEXEC);
		room_update(r);
		IW_SYS(close, fd);
	}
	if (place >= 0)
		IW_SYS(close, place);
	iw_unlock(&iw_tab_lock, sigs);
}

static void reg_del(struct reg *r)
{
	uint32_t idx = (uint32_t)(r - regs->r) + 1, *p = &regs->by_fd[r->fd];

	room_drop(r);
	hash_out(r);
	while (*p && *p != idx)
		p = &regs->r[*p - 1].next_fd;
	if (*p)
		__atomic_store_n(p, r->next_fd, __ATOMIC_RELAXED);
	r->fd = -1;
	r->next_fd = free_list;
	free_list = idx;
}

void iw_reg_drop_fd(int fd)
{
	while (regs && regs->by_fd[fd])
		reg_del(&regs->r[regs->by_fd[fd] - 1]);
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

/* The number of an epoll set goes. If it was duplicated the set may live on, with registrations out of our reach. */
static void drop_epfd(int epfd, bool aliased)
{
	for (uint32_t i = 0; i < used; i++) {
		struct reg *r = &regs->r[i];

		if (r->fd < 0 || r->epfd != epfd)
			continue;
		if (!aliased) {
			reg_del(r);
			continue;
		}
		room_drop(r);
		hash_out(r);
		r->epfd = -1;
		hash_in(r);
	}
}

bool iw_reg_lost(int fd)
{
	return overflow || reg_find(fd, -1);
}

static long reg_ctl(const struct reg *r, int op)
{
	struct epoll_event ev = { .events = r->events, .data.u64 = r->data };

	return IW_SYS(epoll_ctl, r->epfd, op, r->fd, &ev);
}

int iw_reg_detach(int fd)
{
	uint32_t i = regs ? regs->by_fd[fd] : 0, j;

	for (; i; i = regs->r[i - 1].next_fd) {
		room_drop(&regs->r[i - 1]);
		if (!regs->r[i - 1].parked && reg_ctl(&regs->r[i - 1], EPOLL_CTL_DEL) < 0)
			break;
	}
	if (!i)
		return 0;
	for (j = regs->by_fd[fd]; j != i; j = regs->r[j - 1].next_fd)
		reg_ctl(&regs->r[j - 1], EPOLL_CTL_ADD);
	return -EBUSY;
}

/* ADD fails only for want of memory that the DEL has just given back. */
void iw_reg_attach(int fd, bool other)
{
	uint32_t seq = atomic_fetch_add(&swap_seq, 1) + 1;

	for (uint32_t i = regs ? regs->by_fd[fd] : 0; i; i = regs->r[i - 1].next_fd) {
		struct reg *r = &regs->r[i - 1];

		r->parked = r->fired = other && r->fired && r->moving;
		r->moving = false;
		r->swapped = seq;
		if (!r->parked)
			reg_ctl(r, EPOLL_CTL_ADD);
	}
}

/* The word of an epoll set: a serial number, so that a note knows whether it is the same one; above it whether it may have more numbers. */
#define SERIALS		(1u << 27)
#define ALIASED		SERIALS

static uint32_t set_word(uint32_t aliased)
{
	static _Atomic uint32_t serial;

	return iw_word_make(IW_FD_EPOLL, (atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed) & (SERIALS - 1)) | aliased);
}

static uint32_t set_serial(uint32_t w)
{
	return iw_word_kind(w) == IW_FD_EPOLL ? iw_word_val(w) & (SERIALS - 1) : UINT32_MAX;
}

static void forget(int epfd, uint32_t w)
{
	uint64_t sigs;

	if (!__atomic_load_n(&regs, __ATOMIC_ACQUIRE))
		return;
	sigs = iw_lock(&iw_tab_lock);
	drop_epfd(epfd, iw_word_val(w) & ALIASED);
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

/* ---- epoll_create, epoll_ctl ---- */

static int created(int epfd)
{
	int saved = errno;

	if (epfd >= 0 && atomic_load(&iw_on))
		iw_fd_born(epfd, set_word(0));
	errno = saved;
	return epfd;
}

int epoll_create(int size)
{
	return created(iw_real.epoll_create(size));
}

int epoll_create1(int flags)
{
	return created(iw_real.epoll_create1(flags));
}

/* The kernel does not have a parked registration; the application thinks that it has. */
static int ctl_parked(struct reg *r, int op, struct epoll_event *ev)
{
	int ret;

	if (op == EPOLL_CTL_DEL) {
		reg_del(r);
		return 0;
	}
	if (op != EPOLL_CTL_MOD)
		return iw_fail(op != EPOLL_CTL_ADD ? EINVAL : iw_user_readable(ev, sizeof(*ev)) ? EEXIST : EFAULT);
	ret = iw_real.epoll_ctl(r->epfd, EPOLL_CTL_ADD, r->fd, ev);
	if (!ret)
		r->parked = r->fired = false;
	return ret;
}

static int ctl_known(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct reg *r = reg_find(fd, epfd);
	int ret;

	if (r && r->parked) {
		ret = ctl_parked(r, op, ev);
		if (op == EPOLL_CTL_DEL)
			return ret;
	} else {
		ret = iw_real.epoll_ctl(epfd, op, fd, ev);
	}
	if (ret)
		return ret;
	switch (op) {
	case EPOLL_CTL_ADD:
		if (r)		/* the old one went with a file that was closed behind our back */
			reg_del(r);
		reg_add(fd, epfd, ev);
		break;
	case EPOLL_CTL_MOD:
		if (!r) {
			reg_add(fd, epfd, ev);	/* was registered before we saw it */
			break;
		}
		hash_out(r);
		r->events = ev->events;
		r->raw = false;
		r->data = ev->data.u64;
		hash_in(r);
		break;
	case EPOLL_CTL_DEL:
		if (r)
			reg_del(r);
		break;
	}
	return 0;
}

static int ctl_held(int epfd, int op, int fd, struct epoll_event *ev)
{
	int ret = ctl_known(epfd, op, fd, ev);
	struct reg *r = ret || op == EPOLL_CTL_DEL ? NULL : reg_find(fd, epfd);

	if (r)
		room_update(r);
	return ret;
}

/* One that was made elsewhere may have other numbers. */
void iw_set_seen(int epfd)
{
	if (!iw_word(epfd))
		iw_word_set(epfd, set_word(ALIASED));
}

static int ctl_stream(int epfd, int op, int fd, struct epoll_event *ev)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	int ret = ctl_held(epfd, op, fd, ev);

	if (!ret)
		iw_set_seen(epfd);
	iw_unlock(&iw_tab_lock, sigs);
	return ret;
}

/* What was done to a registration that the note has, or has no room for. Its owner has seq odd. */
static void note_change(struct iw_epoll_note *n, int epfd, int op, int fd, const struct epoll_event *ev)
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

static int ctl_candidate(struct iw_candidate *c, int epfd, int op, int fd, struct epoll_event *ev)
{
	uint32_t seq = atomic_load(&c->note.seq);
	bool mine = !(seq & 1) && atomic_compare_exchange_strong(&c->note.seq, &seq, seq + 1);
	int ret = iw_real.epoll_ctl(epfd, op, fd, ev);

	if (!ret)
		iw_set_seen(epfd);
	if (!ret && mine)
		note_change(&c->note, epfd, op, fd, ev);
	else if (!ret)
		atomic_store(&c->note.unsure, 1);
	if (mine)
		atomic_store(&c->note.seq, seq + 2);
	if (!ret && op != EPOLL_CTL_DEL && (ev->events & EPOLLPRI))
		iw_candidate_flag(c, IW_CAND_URGENT);
	return ret;
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct iw_turn t;
	int ret;

	if ((unsigned int)epfd >= IW_FD_MAX || iw_in_vfork() || !iw_turn(&t, fd, IW_TURN_ASK))
		return iw_real.epoll_ctl(epfd, op, fd, ev);
	ret = t.c ? ctl_candidate(t.c, epfd, op, fd, ev) : ctl_stream(epfd, op, fd, ev);
	iw_turn_end();
	return ret;
}

/* ---- what a switch needs ---- */

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
		struct reg *r;

		reg_add(found[i].fd, found[i].epfd, &ev);
		r = reg_find(found[i].fd, found[i].epfd);
		if (r) {
			r->raw = !as_noted;
			r->moving = true;
			r->fired = found[i].fired;
		}
	}
	iw_unlock(&iw_tab_lock, sigs);
	return 0;
}

bool iw_reg_may_move(int fd)
{
	for (uint32_t i = regs ? regs->by_fd[fd] : 0; i; i = regs->r[i - 1].next_fd)
		if (regs->r[i - 1].parked || regs->r[i - 1].raw || (regs->r[i - 1].events & EPOLLONESHOT))
			return false;
	return true;
}

/* ---- waiting ---- */

struct hit {
	int fd;			/* -1: not ours */
	uint32_t swapped, mask;
	bool raw, room, fired;
};

#define CHANGED_BITS (EPOLLERR | EPOLLHUP | EPOLLRDHUP)

/* Can these events be those of this stream? The kernel says them by their data only, which may stand for several fds. */
static bool may_have(int fd, uint32_t events)
{
	struct iw_stream *s = iw_stream_of(fd);

	events &= CHANGED_BITS;
	return !events || !s || !(events & ~(uint32_t)(uint16_t)iw_path(s)->bits(s, fd, POLLRDHUP));
}

/* Which of our fds do these events belong to? With equal data for several, one that was just swapped. */
static void hits(int epfd, const struct epoll_event *ev, int n, uint32_t seq, struct hit *h)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	for (int i = 0; i < n; i++) {
		h[i] = (struct hit){ .fd = -1 };
		for (uint32_t j = regs ? *bucket(epfd, ev[i].data.u64) : 0; j; j = regs->r[j - 1].next_hash) {
			struct reg *r = &regs->r[j - 1];
			bool moved;

			if (r->epfd != epfd || r->data != ev[i].data.u64)
				continue;
			moved = (int32_t)(r->swapped - seq) > 0;
			if (!moved && !may_have(r->fd, ev[i].events))
				continue;
			r->fired |= r->moving && (r->events & EPOLLONESHOT);	/* this was its one event */
			h[i] = (struct hit){ r->fd, r->swapped, r->events, r->raw, r->room, r->fired };
			if (moved)
				break;
		}
	}
	iw_unlock(&iw_tab_lock, sigs);
}

/* Is some stream whose registrations we do not know hung up, so that an event that nobody explains may be its? */
static bool unexplained(int epfd)
{
	int high = atomic_load(&iw_fd_high);
	bool found = false;

	for (int fd = 0; fd <= high && !found; fd++) {
		struct iw_stream *s = iw_stream_of(fd);
		uint64_t sigs;

		if (!s || !(iw_path(s)->bits(s, fd, 0) & (POLLHUP | POLLERR)))
			continue;
		sigs = iw_lock(&iw_tab_lock);
		found = !reg_find(fd, epfd);
		iw_unlock(&iw_tab_lock, sigs);
	}
	return found;
}

/* One entry of a set as the kernel lists it: a registration made, and perhaps changed, by a raw system call or by io_uring. */
static void learn_line(int epfd, const char *line)
{
	struct iw_tfd t;
	struct epoll_event ev;
	struct reg *r;
	uint64_t sigs;

	if (!iw_tfd_parse(line, &t) || iw_fd_kind(t.fd) != IW_FD_STREAM || iw_fd_ino(t.fd) != t.ino)
		return;
	ev = (struct epoll_event){ .events = t.events, .data.u64 = t.data };
	sigs = iw_lock(&iw_tab_lock);
	r = reg_find(t.fd, epfd);
	if (!r || r->raw) {
		if (r)
			reg_del(r);
		reg_add(t.fd, epfd, &ev);
		r = reg_find(t.fd, epfd);
		if (r)
			r->raw = true;
	}
	iw_unlock(&iw_tab_lock, sigs);
}

/* The kernel is asked what is in the set. */
static bool learn(int epfd)
{
	struct iw_fdinfo f;
	const char *line;

	if (iw_fdinfo_open(&f, epfd))
		return false;
	while ((line = iw_fdinfo_line(&f)))
		learn_line(epfd, line);
	iw_fdinfo_close(&f);
	return true;
}

/* Report again whatever is ready. park: it is ready with nothing that TCP would show, so keep it out until something changes. */
static void rearm(int epfd, int fd, bool park)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct reg *r = reg_find(fd, epfd);

	if (r && r->raw && park && !(r->events & (EPOLLONESHOT | EPOLLEXCLUSIVE))) {
		r->events |= EPOLLET;	/* once more, then when something changes */
		reg_ctl(r, EPOLL_CTL_MOD);
	} else if (r && !r->parked) {
		if (park || (r->events & EPOLLEXCLUSIVE))
			reg_ctl(r, EPOLL_CTL_DEL);
		if (park) {
			room_drop(r);
			r->parked = true;
		}
		else
			reg_ctl(r, r->events & EPOLLEXCLUSIVE ? EPOLL_CTL_ADD : EPOLL_CTL_MOD);
	}
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_epoll_look_again(int fd)
{
	uint64_t sigs;

	if ((unsigned int)fd >= IW_FD_MAX || !regs)
		return;
	sigs = iw_lock(&iw_tab_lock);
	for (uint32_t i = regs->by_fd[fd]; i; i = regs->r[i - 1].next_fd) {
		struct reg *r = &regs->r[i - 1];

		if (r->parked && !r->fired && reg_ctl(r, EPOLL_CTL_ADD) >= 0)
			r->parked = false;
	}
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_epoll_room(int fd)
{
	uint64_t sigs;

	if ((unsigned int)fd >= IW_FD_MAX || !regs)
		return;
	sigs = iw_lock(&iw_tab_lock);
	for (uint32_t i = regs->by_fd[fd]; i; i = regs->r[i - 1].next_fd)
		room_update(&regs->r[i - 1]);
	iw_unlock(&iw_tab_lock, sigs);
}

enum verdict {
	DROPPED,
	KEPT,		/* with corrected bits */
	MOVED,		/* dropped; the carrier's registration reports by itself */
};

static enum verdict judge(int epfd, struct epoll_event *ev, const struct hit *h, uint32_t seq)
{
	uint32_t w = h->fd < 0 ? 0 : iw_word(h->fd), bits;
	bool swapped = (int32_t)(h->swapped - seq) > 0;
	struct iw_stream *s;

	if (iw_word_kind(w) == IW_FD_SWITCHING)
		w = iw_word_ungated(w);
	if (iw_word_kind(w) != IW_FD_STREAM)
		return KEPT;
	if (swapped && !h->fired) {
		rearm(epfd, h->fd, false);
		return MOVED;
	}
	s = ev->events & CHANGED_BITS ? iw_stream_of(h->fd) : NULL;
	if (!s || !iw_stream_verify(h->fd, s))
		return KEPT;
	bits = (uint16_t)iw_stream_fix_events(s, h->fd, (short)ev->events) & (h->mask | EPOLLERR | EPOLLHUP);
	if (bits) {
		ev->events = bits;
		return KEPT;
	}
	if (!(h->mask & EPOLLET) || (h->mask & EPOLLONESHOT))
		rearm(epfd, h->fd, true);
	return DROPPED;
}

static bool interesting(const struct epoll_event *ev, int n, uint32_t seq)
{
	if (atomic_load(&swap_seq) != seq || atomic_load(&rooms) || atomic_load(&iw_gates))
		return true;
	if (!atomic_load(&iw_streams))
		return false;
	for (int i = 0; i < n; i++)
		if (ev[i].events & CHANGED_BITS)
			return true;
	return false;
}

/* Is one of these events a stream's that we do not know, or of which the program may have changed what we know? */
static bool unknown(int epfd, const struct epoll_event *ev, const struct hit *h, int n)
{
	bool foreign = false;

	if (!atomic_load(&iw_streams))
		return false;
	for (int i = 0; i < n; i++) {
		if (!(ev[i].events & (EPOLLHUP | EPOLLERR)))
			continue;
		if (h[i].fd >= 0 && h[i].raw)
			return true;
		foreign |= h[i].fd < 0;
	}
	return foreign && unexplained(epfd);
}

static void fired(int epfd, int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct reg *r = reg_find(fd, epfd);

	if (r && !r->parked) {
		room_drop(r);
		reg_ctl(r, EPOLL_CTL_DEL);
		r->parked = r->fired = true;
	}
	iw_unlock(&iw_tab_lock, sigs);
}

/* Two descriptors report for one registration: their events are one, and what reports once has done so with either. */
static int keep_room(int epfd, struct epoll_event *ev, int kept, const struct epoll_event *e, const struct hit *h)
{
	int i = 0;

	if (h->mask & EPOLLONESHOT)
		fired(epfd, h->fd);
	while (i < kept && ev[i].data.u64 != e->data.u64)
		i++;
	if (i < kept)
		ev[i].events |= e->events;
	else
		ev[kept++] = *e;
	return kept;
}

static int judge_all(int epfd, struct epoll_event *ev, int n, uint32_t seq, int *moved)
{
	struct hit h[BATCH];
	int kept = 0;

	for (int i = 0; i < n; i += BATCH) {
		int k = n - i < BATCH ? n - i : BATCH;

		hits(epfd, ev + i, k, seq, h);
		if (unknown(epfd, ev + i, h, k) && learn(epfd))
			hits(epfd, ev + i, k, seq, h);
		for (int j = 0; j < k; j++) {
			enum verdict v = judge(epfd, &ev[i + j], &h[j], seq);

			if (v == KEPT && h[j].room)
				kept = keep_room(epfd, ev, kept, &ev[i + j], &h[j]);
			else if (v == KEPT)
				ev[kept++] = ev[i + j];
			*moved += v == MOVED;
		}
	}
	return kept;
}

/* To the events that are there add those behind them, but that of the same data is one. Returns how many there are then. */
static int join(struct epoll_event *ev, int have, int more)
{
	int n = have;

	for (int i = have; i < have + more; i++) {
		int j = 0;

		while (j < have && ev[j].data.u64 != ev[i].data.u64)
			j++;
		if (j < have)
			ev[j].events |= ev[i].events;
		else
			ev[n++] = ev[i];
	}
	return n;
}

/*
 * What the kernel said at the same time is said at the same time: the carriers of those that moved report now. Level-triggered ones that
 * were reported come again, in turn, so that as many are asked for as there is room left until all had theirs.
 */
static int with_moved(int epfd, struct epoll_event *ev, int kept, int max, int moved)
{
	int turns = kept / (max - kept) + 1, want = kept + moved, ignored = 0;

	while (turns-- > 0 && kept < want && kept < max) {
		uint32_t seq = atomic_load(&swap_seq);
		long n = IW_SYS(epoll_pwait, epfd, ev + kept, max - kept, 0, NULL, 8);

		if (n <= 0)
			break;
		kept = join(ev, kept, judge_all(epfd, ev + kept, (int)n, seq, &ignored));
	}
	return kept;
}

struct wait {
	enum { WAIT, PWAIT, PWAIT2 } call;
	int epfd, n;
	struct epoll_event *ev;
	int ms;
	const struct timespec *t;
	const sigset_t *ss;
	struct timespec left;	/* what t points to once we have waited */
};

static int review(const struct wait *w, int n, uint32_t seq)
{
	int saved = errno, moved = 0;

	if (!interesting(w->ev, n, seq))
		return n;
	n = judge_all(w->epfd, w->ev, n, seq, &moved);
	if (n && moved)
		n = with_moved(w->epfd, w->ev, n, w->n, moved);
	errno = saved;
	return n;
}

static int wait_once(const struct wait *w)
{
	switch (w->call) {
	case WAIT:
		return iw_real.epoll_wait(w->epfd, w->ev, w->n, w->ms);
	case PWAIT:
		return iw_real.epoll_pwait(w->epfd, w->ev, w->n, w->ms, w->ss);
	default:
		return iw_real.epoll_pwait2(w->epfd, w->ev, w->n, w->t, w->ss);
	}
}

/* Until something stands, or the kernel has nothing in the time that is left. */
static int wait_for(struct wait *w)
{
	struct iw_deadline d;
	uint32_t seq;
	int n;

	if (w->call != PWAIT2)
		iw_deadline_ms(&d, w->ms);
	else if ((w->t && iw_copy_in(&w->left, w->t, sizeof(w->left))) || !iw_deadline_ts(&d, w->t ? &w->left : NULL))
		return wait_once(w);
	for (;;) {
		seq = atomic_load(&swap_seq);
		n = wait_once(w);
		if (n <= 0)
			return n;
		n = review(w, n, seq);
		if (n)
			return n;
		w->t = iw_deadline_left(&d, &w->left);
		if (w->t)
			w->ms = (int)(w->left.tv_sec * 1000 + (w->left.tv_nsec + 999999) / 1000000);
	}
}

static int wait_any(struct wait *w)
{
	uint32_t seq;
	int n;

	if (atomic_load_explicit(&iw_streams, memory_order_relaxed))
		return wait_for(w);
	/* No stream so far: the kernel's call and nothing else, unless another thread's first switch came in between. */
	seq = atomic_load(&swap_seq);
	n = wait_once(w);
	if (n <= 0 || (atomic_load(&swap_seq) == seq && !atomic_load(&iw_gates)))
		return n;
	n = review(w, n, seq);
	return n ? n : wait_for(w);
}

int epoll_wait(int epfd, struct epoll_event *ev, int n, int ms)
{
	struct wait w = { .call = WAIT, .epfd = epfd, .ev = ev, .n = n, .ms = ms };

	return wait_any(&w);
}

int epoll_pwait(int epfd, struct epoll_event *ev, int n, int ms, const sigset_t *ss)
{
	struct wait w = { .call = PWAIT, .epfd = epfd, .ev = ev, .n = n, .ms = ms, .ss = ss };

	return wait_any(&w);
}

int epoll_pwait2(int epfd, struct epoll_event *ev, int n, const struct timespec *t, const sigset_t *ss)
{
	struct wait w = { .call = PWAIT2, .epfd = epfd, .ev = ev, .n = n, .t = t, .ss = ss };

	return wait_any(&w);
}
