/* SPDX-License-Identifier: MIT */
/* What the kinds of fds do when their fd is closed or duplicated, or its process forks. */
#ifndef IW_PRELOAD_KINDS_H
#define IW_PRELOAD_KINDS_H

#include <stdint.h>

#include "fdtab.h"

#pragma GCC visibility push(hidden)

/* NULL: see iw_kind_*() below. */
struct iw_kind_ops {
	void (*forget)(int fd, uint32_t w);
	uint32_t (*dup)(int fd, uint32_t w);
	void (*fork)(void);
	void (*forked_child)(void);
};

/* The number goes; w was its word and is out of the table. Default: epoll's registrations of it go. */
void iw_kind_forget(int fd, uint32_t w);
/* fd has a second number. Returns its word, and may change that of fd. Default: neither is anything to us. */
uint32_t iw_kind_dup(int fd, uint32_t w);
/* Before a fork, under iw_tab_lock: the child will hold these fds too. */
void iw_kinds_fork(void);
/* In the child. Its tables are copies of the parent's; iw_tab_lock is free. */
void iw_kinds_forked_child(void);

/* One of each file that has a kind; kinds.c says which is which. */
extern const struct iw_kind_ops iw_other_ops, iw_candidate_ops, iw_stream_ops, iw_epoll_ops;

#pragma GCC visibility pop
#endif
