// SPDX-License-Identifier: MIT
/*
 * What a switch has to register. Of a candidate no more than a note is kept (candidate.h), which costs neither a lock nor a system call; when it is
 * switched, the note, or the kernel, says which sets have it.
 */
#include <poll.h>

#include "candidate.h"
#include "lock.h"
#include "proc.h"
#include "reg_priv.h"

#define TOGETHER	16u		/* registrations of one file that are moved together */

/* What was done to a registration that the note has, or has no room for. Its owner has seq odd. */
void iw_note_change(struct iw_epoll_note *n, int epfd, int op, int fd, const struct epoll_event *ev)
{
	uint32_t set = iw_set_serial(iw_word(epfd));
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
	return !note_sure(n) || (n->fd >= 0 && n->set != iw_set_serial(iw_word(n->epfd)));
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
