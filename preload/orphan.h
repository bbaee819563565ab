/* SPDX-License-Identifier: MIT */
/*
 * Mapped streams whose carrier nobody has the other end of: their daemon is dead, and none will come for them. They stay mapped, whatever would give
 * them back, and their ends are said here.
 */
#ifndef IW_PRELOAD_ORPHAN_H
#define IW_PRELOAD_ORPHAN_H

#include "lib.h"
#include "stream.h"

#pragma GCC visibility push(hidden)

/* Is it one? For good, once it was. One system call if it is not known. */
bool iw_orphan(int fd, struct iw_stream *s);
/* As far as known. */
static inline bool iw_orphan_known(const struct iw_stream *s)
{
	return atomic_load_explicit(&s->orphan, memory_order_relaxed);
}

/* Under the lock: another thread may have found it over, and its map is no more then. */
static inline bool iw_orphan_mapped(const struct iw_stream *s)
{
	return atomic_load(&s->mapped) && s->map;
}

/* Under the lock: all that is left of it is what the page says, from now on. */
bool iw_orphan_over(struct iw_stream *s);
/* Under the lock: nothing will come any more; what came was read. */
bool iw_orphan_eof_slow(struct iw_stream *s);
static inline bool iw_orphan_eof(struct iw_stream *s)
{
	return iw_unlikely(iw_orphan_known(s)) && iw_orphan_eof_slow(s);
}
void iw_orphan_shutdown(struct iw_stream *s, int how);
/* It is closed: our FIN goes, if TCP's would, and a reset else. Waits until the other end has read it, at the latest until then. */
void iw_orphan_end(struct iw_stream *s, uint64_t until);
uint64_t iw_orphan_until(void);	/* a second, for all that end together */

#pragma GCC visibility pop
#endif
