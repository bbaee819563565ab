/* SPDX-License-Identifier: MIT */
/* The table of fds: what each number is to us. */
#include <sys/stat.h>

#include "proto/ctlmsg.h"
#include "fdtab.h"
#include "kinds.h"
#include "lock.h"
#include "proc.h"
#include "sys.h"

_Atomic uint32_t iw_fdtab[IW_FD_MAX];
_Atomic uint32_t iw_streams;
_Atomic int iw_fd_high = -1;
struct iw_lock iw_tab_lock;

static void count(uint32_t old, uint32_t w)
{
	bool was = iw_word_kind(old) == IW_FD_STREAM, is = iw_word_kind(w) == IW_FD_STREAM;

	if (was != is)
		atomic_fetch_add(&iw_streams, is ? 1 : -1u);
}

uint32_t iw_word_set(int fd, uint32_t w)
{
	int high = atomic_load_explicit(&iw_fd_high, memory_order_relaxed);
	uint32_t old;

	if ((unsigned int)fd >= IW_FD_MAX)
		return 0;
	if (!w && !atomic_load_explicit(&iw_fdtab[fd], memory_order_relaxed))
		return 0;	/* do not touch memory for what was never ours */
	while (w && high < fd && !atomic_compare_exchange_weak(&iw_fd_high, &high, fd))
		;
	old = atomic_exchange(&iw_fdtab[fd], w);
	count(old, w);
	return old;
}

bool iw_word_cas(int fd, uint32_t old, uint32_t w)
{
	if (!atomic_compare_exchange_strong(&iw_fdtab[fd], &old, w))
		return false;
	count(old, w);
	return true;
}

uint64_t iw_fd_ino(int fd)
{
	struct stat st;

	return IW_SYS(fstat, fd, &st) < 0 ? 0 : st.st_ino;
}

void iw_fd_forget(int fd)
{
	uint32_t w = iw_word(fd);

	if (!w || iw_word_kind(w) == IW_FD_INTERNAL || iw_in_vfork())
		return;
	w = iw_word_set(fd, 0);
	iw_kind_forget(fd, w);
}

void iw_fd_born(int fd, uint32_t w)
{
	uint32_t old = iw_word(fd);

	if (old == w && iw_word_kind(w) == IW_FD_OTHER)
		return;
	if (old) {
		if (iw_in_vfork())	/* the number is another file's in the parent, whose table this is */
			return;
		iw_fd_forget(fd);
	}
	iw_word_set(fd, w);
}

