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
_Atomic uint32_t iw_streams, iw_movable, iw_gates;
_Atomic int iw_fd_high = -1, iw_fd_high_app = -1;
struct iw_lock iw_tab_lock;

static void count_kind(_Atomic uint32_t *n, bool was, bool is)
{
	if (was != is)
		atomic_fetch_add(n, is ? 1 : -1u);
}

static void count(uint32_t old, uint32_t w)
{
	count_kind(&iw_streams, iw_word_kind(old) == IW_FD_STREAM, iw_word_kind(w) == IW_FD_STREAM);
	count_kind(&iw_movable, iw_word_moves(old), iw_word_moves(w));
	count_kind(&iw_gates, iw_word_kind(old) == IW_FD_SWITCHING, iw_word_kind(w) == IW_FD_SWITCHING);
}

static void at_least(_Atomic int *high, int fd)
{
	int h = atomic_load_explicit(high, memory_order_relaxed);

	while (h < fd && !atomic_compare_exchange_weak(high, &h, fd))
		;
}

static void high_water(int fd, uint32_t w)
{
	if (w)
		at_least(&iw_fd_high, fd);
	if (w && iw_word_kind(w) != IW_FD_INTERNAL)
		at_least(&iw_fd_high_app, fd);
}

uint32_t iw_word_set(int fd, uint32_t w)
{
	uint32_t old;

	if ((unsigned int)fd >= IW_FD_MAX)
		return 0;
	if (!w && !atomic_load_explicit(&iw_fdtab[fd], memory_order_relaxed))
		return 0;	/* do not touch memory for what was never ours */
	high_water(fd, w);
	old = atomic_exchange(&iw_fdtab[fd], w);
	count(old, w);
	return old;
}

bool iw_word_cas(int fd, uint32_t old, uint32_t w)
{
	high_water(fd, w);
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

uint32_t iw_gate_wait(int fd)
{
	uint32_t w;

	while (iw_word_kind(w = iw_word(fd)) == IW_FD_SWITCHING)
		iw_futex_wait(&iw_fdtab[fd], w, 0);
	return w;
}

void iw_fd_forget(int fd)
{
	uint32_t w = iw_word(fd);

	if (!w || iw_word_kind(w) == IW_FD_INTERNAL || iw_in_vfork())
		return;
	do
		w = iw_gate_wait(fd);
	while (w && !iw_word_cas(fd, w, 0));
	if (w)
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

