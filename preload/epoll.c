// SPDX-License-Identifier: MIT
/* epoll_create() and epoll_ctl(): what a program registers in its epoll sets, noted beside the kernel's own registration. */
#include "candidate.h"
#include "fdtab.h"
#include "init.h"
#include "lib.h"
#include "lock.h"
#include "map.h"
#include "proc.h"
#include "real.h"
#include "reg.h"
#include "stream.h"
#include "sys.h"
#include "turn.h"
#include "user.h"

IW_EXPORT int epoll_create(int size);
IW_EXPORT int epoll_create1(int flags);
IW_EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);

static int created(int epfd)
{
	int saved = errno;

	if (epfd >= 0 && atomic_load(&iw_on))
		iw_set_born(epfd);
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
static int ctl_parked(struct iw_reg *r, int op, struct epoll_event *ev)
{
	int ret;

	if (op == EPOLL_CTL_DEL) {
		iw_reg_del(r);
		return 0;
	}
	if (op != EPOLL_CTL_MOD)
		return iw_fail(op != EPOLL_CTL_ADD ? EINVAL : iw_user_readable(ev, sizeof(*ev)) ? EEXIST : EFAULT);
	ret = iw_real.epoll_ctl(r->epfd, EPOLL_CTL_ADD, r->fd, ev);
	if (!ret)
		r->parked = r->fired = false;
	return ret;
}

/* One of a mapped stream, which the kernel has under another number. It is told before the kernel is: an event may come at once. */
static int ctl_mapped(struct iw_stream *s, int epfd, int op, int fd, struct epoll_event *ev)
{
	struct iw_reg *r = iw_reg_find(fd, epfd);
	struct epoll_event e = { 0 }, old = { 0 };
	bool parked = r && r->parked, spent = r && r->spent;
	long ret;

	if (op != EPOLL_CTL_DEL && iw_copy_in(&e, ev, sizeof(e)))
		return iw_fail(EFAULT);
	if (r ? op == EPOLL_CTL_DEL && iw_reg_leave(r) : iw_reg_enter(fd, epfd, op == EPOLL_CTL_ADD ? &e : NULL))
		return 0;
	if (op == EPOLL_CTL_ADD && parked)
		return iw_fail(EEXIST);
	if (op == EPOLL_CTL_ADD && !r) {
		iw_reg_add(fd, epfd, &e);
		r = iw_reg_find(fd, epfd);
		if (!r)
			return iw_fail(ENOMEM);
		ret = iw_reg_ctl(r, EPOLL_CTL_ADD);
		if (ret < 0) {
			r->parked = true;	/* there is none */
			iw_reg_del(r);
		}
	} else if (r && (op == EPOLL_CTL_MOD || (op == EPOLL_CTL_ADD && iw_reg_ctl(r, EPOLL_CTL_ADD) >= 0))) {
		old = (struct epoll_event){ .events = r->events, .data.u64 = r->data };
		iw_reg_change(r, &e);
		ret = iw_reg_stands(r) ? 0 : iw_reg_ctl(r, parked ? EPOLL_CTL_ADD : EPOLL_CTL_MOD);
		if (ret < 0) {
			iw_reg_change(r, &old);
			r->spent = spent;
		} else {
			r->parked = r->fired = false;
		}
	} else {
		ret = parked ? 0 : IW_SYS(epoll_ctl, epfd, op, iw_stream_wait_fd(s, fd), &e);
		if (ret >= 0 && r) {
			r->parked = true;	/* there is none */
			iw_reg_del(r);
		}
	}
	return (int)iw_ret(ret);
}

static int ctl_known(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct iw_reg *r = iw_reg_find(fd, epfd);
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
			iw_reg_del(r);
		iw_reg_add(fd, epfd, ev);
		break;
	case EPOLL_CTL_MOD:
		if (!r) {
			iw_reg_add(fd, epfd, ev);	/* was registered before we saw it */
			break;
		}
		iw_reg_change(r, ev);
		break;
	case EPOLL_CTL_DEL:
		if (r)
			iw_reg_del(r);
		break;
	}
	return 0;
}

static int ctl_held(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct iw_stream *s = iw_stream_of(fd);
	bool mapped = s && atomic_load(&s->mapped);
	int ret = mapped ? ctl_mapped(s, epfd, op, fd, ev) : ctl_known(epfd, op, fd, ev);
	struct iw_reg *r = ret || op == EPOLL_CTL_DEL || mapped ? NULL : iw_reg_find(fd, epfd);

	if (r)
		iw_reg_room_update(r);
	return ret;
}

static int ctl_stream(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct iw_step st;
	int ret;

	iw_step_begin(&iw_tab_lock, &st);
	ret = ctl_held(epfd, op, fd, ev);
	if (!ret)
		iw_set_seen(epfd);
	iw_step_end(&iw_tab_lock, &st);
	return ret;
}

static int ctl_candidate(struct iw_candidate *c, int epfd, int op, int fd, struct epoll_event *ev)
{
	uint32_t seq = atomic_load(&c->note.seq);
	bool mine = !(seq & 1) && atomic_compare_exchange_strong(&c->note.seq, &seq, seq + 1);
	int ret = iw_real.epoll_ctl(epfd, op, fd, ev);

	if (!ret)
		iw_set_seen(epfd);
	if (!ret && mine)
		iw_note_change(&c->note, epfd, op, fd, ev);
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

	if ((unsigned int)epfd >= IW_FD_MAX || iw_in_vfork())
		return iw_real.epoll_ctl(epfd, op, fd, ev);
	if (!iw_turn(&t, fd, IW_TURN_ASK)) {
		ret = iw_real.epoll_ctl(epfd, op, fd, ev);
		if (!ret && iw_fd_kind(fd) == IW_FD_EPOLL)
			iw_reg_nest(epfd, op, fd, ev);
		return ret;
	}
	if (t.s && op == EPOLL_CTL_ADD && atomic_load(&t.s->mapped) && !iw_set_serves(epfd))
		iw_map_give(fd, t.s);
	ret = t.c ? ctl_candidate(t.c, epfd, op, fd, ev) : ctl_stream(epfd, op, fd, ev);
	iw_turn_end();
	return ret;
}
