/* SPDX-License-Identifier: MIT */
/* What an entry point asks first: which stream is meant, if it is one. */
#ifndef IW_PRELOAD_LOOKUP_H
#define IW_PRELOAD_LOOKUP_H

#include "adopt.h"
#include "connecting.h"
#include "fdtab.h"
#include "lib.h"
#include "stream.h"

/*
 * The stream to use for a call that moves data. *s is NULL when the call goes to the original. -1 with EAGAIN while a non-blocking
 * connect is under way. sockcall: the call makes sense on sockets only, so an unknown fd may be looked at.
 */
static inline int iw_data_stream(int fd, int flags, bool sockcall, struct iw_stream **s)
{
	uint32_t w = iw_word(fd);
	int kind;

	*s = NULL;
	if (sockcall && iw_unlikely(!w)) {
		iw_adopt(fd);
		w = iw_word(fd);
	}
	kind = iw_word_kind(w);
	if (iw_likely(kind != IW_FD_STREAM && kind != IW_FD_CONNECTING))
		return 0;
	if (iw_likely(kind == IW_FD_STREAM)) {
		*s = iw_stream_at(iw_word_val(w));
		return 0;
	}
	kind = iw_connecting_data(fd, flags);
	if (kind == IW_FD_STREAM)
		*s = iw_stream_of(fd);
	return kind < 0 ? -1 : 0;
}

/* The same for calls that only ask. telling: the answer may tell whether a connect has completed. */
static inline struct iw_stream *iw_ask_stream(int fd, bool telling)
{
	enum iw_fd_kind kind = iw_adopt(fd);

	if (kind == IW_FD_CONNECTING)
		kind = telling ? iw_connecting_settle(fd) : iw_connecting_settle_seen(fd);
	return kind == IW_FD_STREAM ? iw_stream_of(fd) : NULL;
}

#endif
