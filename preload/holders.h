/* SPDX-License-Identifier: MIT */
/*
 * How many processes hold a socket that this process made: itself, and those that a fork gave it to. The counts lie in memory that forks
 * share, each changed by one instruction, so that nobody's death leaves anything but a count that is too high: that socket is never alone
 * again, and neither is one that somebody may hold of whom nobody counts. Nothing here is a system call but where it says so.
 */
#ifndef IW_PRELOAD_HOLDERS_H
#define IW_PRELOAD_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define IW_HOLDERS (1u << 18)

/*
 * A socket's index, from the call that made it on until this process has closed the last of its descriptors. 0: none is free, or a fork
 * of another thread's is under way, whose child may have it or not.
 */
uint32_t iw_holders_new(void);
void iw_holders_put(uint32_t idx);	/* what is not, or no longer, ours is left alone */

/*
 * Does no other process hold it? fds: all of its descriptors here. If a program was started since they were asked about last, which has
 * those that are not close-on-exec, they are looked at (a fcntl each); n 0: then it is not alone.
 */
bool iw_holders_alone(uint32_t idx, const int *fds, unsigned int n);

/*
 * Before FD_CLOEXEC of fd changes, fd gets a duplicate, or is closed while other descriptors of the file stay: whether a program that was
 * started has it shows now or never. A fcntl if there was one. only: the file has no other descriptor.
 */
void iw_holders_settle(uint32_t idx, int fd, bool only);

bool iw_holders_relatives(void);	/* were there ever any others? */
/* It was put, and is ours nevertheless: the program was not started. Others may have thought that they were alone. */
void iw_holders_back(uint32_t idx);

/* Somebody may hold it of whom we do not know: never alone from now on. */
void iw_holders_lose(uint32_t idx);

/* Before a fork, with all other forks of this process waiting until iw_holders_forked(): the child holds what we hold. */
void iw_holders_fork(void);
void iw_holders_forked(void);		/* in the parent */
void iw_holders_forked_child(int pid);	/* in the child, instead */
void iw_holders_fork_failed(void);	/* by the same thread, after iw_holders_forked(): there is no child */
/* Before a child begins that nobody counts: it has what we hold. */
void iw_holders_uncounted(void);
/* Noticed in such a child: its parent has what we hold. */
void iw_holders_forked_unseen(int pid);

/* Before a child begins that has copies of our descriptors until it executes another program: posix_spawn, system, popen, vfork. */
void iw_holders_spawn(void);
/* A thread has, or begins with, a table of descriptors of its own: our numbers mean several files from now on. */
void iw_holders_split(void);
/* The process ends. Not in a vfork child. */
void iw_holders_exit(void);

void iw_holders_init(int pid);

#pragma GCC visibility pop
#endif
