/* SPDX-License-Identifier: MIT */
/* Handlers of signals: whether the program has any, so that a lock that is held for some instructions need not block signals where none interrupts. */
#ifndef IW_PRELOAD_HANDLERS_H
#define IW_PRELOAD_HANDLERS_H

#include <stdatomic.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

extern _Atomic uint32_t iw_handlers;		/* there is one, or was */
/* Signals, n by bit n - 1, whose handler has SA_RESTART; and whose handler has not. */
extern _Atomic uint64_t iw_handlers_restart, iw_handlers_interrupt;

#pragma GCC visibility pop
#endif
