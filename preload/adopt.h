/* SPDX-License-Identifier: MIT */
/* Carriers that this process did not make become streams when they are first used. */
#ifndef IW_PRELOAD_ADOPT_H
#define IW_PRELOAD_ADOPT_H

#include "fdtab.h"

#pragma GCC visibility push(hidden)

/*
 * For socket-specific calls on an fd of kind OTHER: a carrier inherited by exec or received by SCM_RIGHTS becomes a STREAM. Costs one
 * array load when the fd was looked at before, one getpeername the first time. Returns the kind afterwards.
 */
enum iw_fd_kind iw_adopt_slow(int fd);

static inline enum iw_fd_kind iw_adopt(int fd)
{
	if ((unsigned int)fd >= IW_FD_MAX || atomic_load_explicit(&iw_fdtab[fd], memory_order_relaxed))
		return iw_fd_kind(fd);
	return iw_adopt_slow(fd);
}

/* Standard input and output may be carriers that exec left us; read() and write() alone would never look. */
void iw_adopt_inherited(void);

#pragma GCC visibility pop
#endif
