/* SPDX-License-Identifier: MIT */
/* Handlers of signals: whether the program has any, so that a lock that is held for some instructions need not block signals where none interrupts. */
#ifndef IW_PRELOAD_HANDLERS_H
#define IW_PRELOAD_HANDLERS_H

#include <stdatomic.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define IW_HANDLERS_ANY		1u	/* there is one, or was */
#define IW_HANDLERS_INTERRUPT	2u	/* the same, without SA_RESTART */

extern _Atomic uint32_t iw_handlers;

#pragma GCC visibility pop
#endif
