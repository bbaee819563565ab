// SPDX-License-Identifier: MIT
/*
 * A stream that is shut for writing is writable on TCP, and nobody writes any more. Where its carrier is full, another socket, which is
 * always writable, stands beside it in the set, with the program's data, and is what reports EPOLLOUT.
 */
#include <poll.h>
#include <sys/socket.h>

#include "fdtab.h"
#include "internal.h"
#include "lock.h"
#include "path.h"
#include "reg_priv.h"
#include "sys.h"

_Atomic uint32_t iw_reg_rooms;

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

struct iw_reg *iw_room_of(int fd)
{
	if (atomic_load(&iw_reg_rooms))
		for (uint32_t i = 0; i < iw_reg_used; i++)
			if (iw_regs->r[i].fd >= 0 && iw_regs->r[i].room == fd && iw_fd_ino(fd) == iw_regs->r[i].room_ino)
				return &iw_regs->r[i];
	return NULL;
}

void iw_reg_room(int fd)
{
	uint64_t sigs;

	if ((unsigned int)fd >= IW_FD_MAX || !iw_regs)
		return;
	sigs = iw_lock(&iw_tab_lock);
	for (uint32_t i = iw_regs->by_fd[fd]; i; i = iw_regs->r[i - 1].next_fd)
		iw_reg_room_update(&iw_regs->r[i - 1]);
	iw_unlock(&iw_tab_lock, sigs);
}
