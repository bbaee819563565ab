// SPDX-License-Identifier: MIT
/* Descriptors that leave by SCM_RIGHTS: somebody else holds them too from now on. */
#include <string.h>
#include <sys/single_threaded.h>

#include "fdtab.h"
#include "holders.h"
#include "lib.h"
#include "map.h"
#include "scm.h"
#include "turn.h"
#include "user.h"

void iw_fd_passed_on(int fd)
{
	struct iw_turn t;

	if (!iw_turn(&t, fd, IW_TURN_ASK))
		return;
	if (t.s) {
		iw_holders_lose(t.s->holder);	/* for all of its family who have it */
		iw_map_hand(fd, t.s);
	} else {
		iw_candidate_flag(t.c, IW_CAND_PASSED);
	}
	iw_turn_end();
}

/* h: a header whose control messages can be read. */
static void look(struct msghdr *h)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		const unsigned char *p = CMSG_DATA(c);
		size_t left = h->msg_controllen - (size_t)((char *)c - (char *)h->msg_control);

		if (c->cmsg_len < sizeof(*c) || c->cmsg_len > left)
			return;		/* the kernel refuses it: nothing leaves */
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, p + i * sizeof(fd), sizeof(fd));
			iw_fd_passed_on(fd);
		}
	}
}

void iw_rights_leaving(const struct msghdr *m)
{
	struct msghdr h;

	/* of one thread they are looked at afterwards; but what is unread in a ring has to be in the file that leaves */
	if (iw_likely((__libc_single_threaded && !iw_maps_some()) || !atomic_load_explicit(&iw_movable, memory_order_relaxed)))
		return;
	if (!iw_copy_in(&h, m, sizeof(h)) && h.msg_controllen && iw_user_readable(h.msg_control, h.msg_controllen))
		look(&h);
}

void iw_rights_left(const struct msghdr *m)
{
	struct msghdr h;

	if (iw_likely(!m->msg_controllen || !m->msg_control || !atomic_load_explicit(&iw_movable, memory_order_relaxed)))
		return;
	h = *m;
	look(&h);
}
