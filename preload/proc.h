/* SPDX-License-Identifier: MIT */
/* Which process this is: fork and its relatives. */
#ifndef IW_PRELOAD_PROC_H
#define IW_PRELOAD_PROC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

extern _Atomic uint32_t iw_forks;	/* forks of this process and its ancestors since the library was loaded */
/* true: nothing of ours must be touched (vfork child). Notices forks that ran no handlers. One getpid. */
bool iw_in_vfork(void);
void iw_proc_init(void);

#pragma GCC visibility pop
#endif
