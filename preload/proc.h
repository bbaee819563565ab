/* SPDX-License-Identifier: MIT */
/* Which process this is: fork and its relatives. */
#ifndef IW_PRELOAD_PROC_H
#define IW_PRELOAD_PROC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

extern _Atomic uint32_t iw_forks;	/* forks of this process and its ancestors since the library was loaded */
extern _Atomic uint32_t iw_vforks;	/* children that run in our memory, or may */
/* true: nothing of ours must be touched (vfork child). Notices forks that ran no handlers. A system call only while there are such children. */
bool iw_in_vfork(void);
/* fn, while nothing is being switched, nor mapped: a program that begins then has what was there before, or what comes after. all: it has what is
 * close-on-exec, too. */
void iw_between_switches(void (*fn)(void), bool all);
/* Before unshare() and its like. files: the thread is to have a table of descriptors of its own. */
void iw_unsharing(bool files);
void iw_proc_init(void);
void iw_spawn_init(void);

#pragma GCC visibility pop
#endif
