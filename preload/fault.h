/* SPDX-License-Identifier: MIT */
/*
 * Touches of memory that may be bad, without a system call: a handler of the library for SIGSEGV and SIGBUS takes the two instructions that
 * touch to their other end. It stands in the place of the program's own, or of none, from when the first map is taken; what is not one of ours it
 * passes on.
 */
#ifndef IW_PRELOAD_FAULT_H
#define IW_PRELOAD_FAULT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib.h"

#pragma GCC visibility push(hidden)

#define IW_FAULTS ((1ull << (SIGSEGV - 1)) | (1ull << (SIGBUS - 1)))	/* in a mask of signals */

enum iw_faults_way {		/* of a thread */
	IW_FAULTS_ASK,		/* it is not known whether it has them blocked: then the kernel would end the process */
	IW_FAULTS_COME,
	IW_FAULTS_BLOCKED,
};

extern _Atomic bool iw_faults;	/* the handler stands, for both */
extern __thread uint8_t iw_faults_way __attribute__((tls_model("initial-exec")));

enum iw_faults_way iw_faults_ask(void);

/* May this thread touch now? */
static inline bool iw_faults_come(void)
{
	return iw_likely(atomic_load_explicit(&iw_faults, memory_order_relaxed)) &&
	       (iw_likely(iw_faults_way == IW_FAULTS_COME) || (iw_faults_way == IW_FAULTS_ASK && iw_faults_ask() == IW_FAULTS_COME));
}

/* The thread's mask may have been changed. */
static inline void iw_faults_changed(void)
{
	iw_faults_way = IW_FAULTS_ASK;
}

/* Calls a handler of the program's, which has a mask of its own; the thread goes on with that of the context. */
void iw_faults_handler(sighandler_t h, int n, siginfo_t *info, void *context);

/* 0; else a fault. Of the octet there; it is or-ed with nothing. Only where iw_faults_come(). */
int iw_touch_read(uintptr_t a);
int iw_touch_write(uintptr_t a);

/* ---- for handlers.c, under its lock ---- */

static inline bool iw_fault_is(int n)
{
	return n == SIGSEGV || n == SIGBUS;
}

void iw_faults_stand(void);
/* sigaction() of one of them. */
int iw_fault_change(int n, const struct sigaction *a, struct sigaction *old);
void iw_fault_theirs(int n, struct sigaction *old);	/* what the program had set, if it is ours */

#pragma GCC visibility pop
#endif
