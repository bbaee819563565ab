/* SPDX-License-Identifier: MIT */
/* The register of epoll sets, as its parts see it: the table itself, the kicker, and what says that there is room. */
#ifndef IW_PRELOAD_REG_PRIV_H
#define IW_PRELOAD_REG_PRIV_H

#include "reg.h"

#pragma GCC visibility push(hidden)

#define IW_REGS		(1u << 18)
#define IW_REG_HASH	(1u << 16)

/* One mapping, made at the first registration; only what is used takes memory. */
extern struct iw_regs {
	uint32_t by_fd[IW_FD_MAX];	/* index + 1 */
	uint32_t by_data[IW_REG_HASH];
	_Atomic uint32_t waited[IW_FD_MAX];	/* of which set it was, when it was waited for: see epoll_set.c */
	_Atomic uint32_t kicked[IW_FD_MAX];	/* which set of this number has the kicker in it */
	struct iw_reg r[IW_REGS];
} *iw_regs;
/*
 * What the kernel has as data of ours: the index of a registration, IW_REGS for the kicker, in its lowest bits. Programs have data of all kinds, such
 * as addresses, which need not be those of anything: half of an epoll_data_t is whatever lay there. Not what was drawn by lot.
 */
extern uint64_t iw_reg_tag;
extern uint32_t iw_reg_used;
bool iw_regs_map(void);			/* false: no memory */
/* The number of an epoll set, whose word was w, goes. If it was duplicated the set may live on, perhaps with registrations out of our reach. */
void iw_reg_set_gone(int epfd, bool aliased, int other);

/* ---- the kicker (reg_kick.c): always readable, in each set with mapped ones ---- */

bool iw_kicker_make(void);
bool iw_kicker_add(int epfd);
bool iw_kicker_is(int fd);
void iw_kicker_move(void);		/* another one in its place */

/* ---- what says that there is room (reg_room.c) ---- */

struct iw_reg *iw_room_of(int fd);	/* whose it is */

/* ---- epoll sets (epoll_set.c) ---- */

uint32_t iw_set_serial(uint32_t word);	/* UINT32_MAX: it is none */
bool iw_set_may_map(int epfd);		/* as iw_set_serves(), and somebody waits for it by calls that we see. Locked */

#pragma GCC visibility pop

#endif
