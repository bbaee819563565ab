// SPDX-License-Identifier: MIT
/* The table of the kinds of fds, and what a kind does that has nothing to say. */
#include <stddef.h>

#include "fdtab.h"
#include "kinds.h"
#include "reg.h"

static const struct iw_kind_ops none, *const kinds[16] = {
	[IW_FD_OTHER] = &iw_other_ops,
	[IW_FD_CANDIDATE] = &iw_candidate_ops,
	[IW_FD_STREAM] = &iw_stream_ops,
	[IW_FD_SWITCHING] = &none,
	[IW_FD_INTERNAL] = &none,
	[IW_FD_EPOLL] = &iw_epoll_ops,
};

static const struct iw_kind_ops *ops_of(uint32_t w)
{
	return kinds[iw_word_kind(w)];
}

void iw_kind_forget(int fd, uint32_t w)
{
	if (ops_of(w)->forget)
		ops_of(w)->forget(fd, w);
	else
		iw_reg_forget(fd);
}

uint32_t iw_kind_dup(int fd, uint32_t w)
{
	return ops_of(w)->dup ? ops_of(w)->dup(fd, w) : IW_OTHER_SEEN;
}

void iw_kinds_fork(void)
{
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i] && kinds[i]->fork)
			kinds[i]->fork();
}

void iw_kinds_forked_child(void)
{
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i] && kinds[i]->forked_child)
			kinds[i]->forked_child();
}
