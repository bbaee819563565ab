// SPDX-License-Identifier: MIT
/* Bursts: see burst.h; who sends what is gathered, and when the daemon does, docs/mapped.md. Only in a process of one thread without handlers. */
#include <string.h>

#include "preload/conf.h"
#include "preload/daemon.h"
#include "preload/deadline.h"
#include "preload/handlers.h"
#include "preload/map.h"
#include "preload/opts.h"
#include "preload/orphan.h"
#include "preload/paths/burst.h"
#include "preload/paths/mapped.h"
#include "preload/turn.h"
#include "preload/user.h"

#define RUN	16u		/* small sends that are a burst, if they take less than so long each */
#define RUN_AT_ONCE 64u		/* with TCP_NODELAY */
#define RUN_NS	20000
#define TRIES	8u
#define WORTH	(1u << 20)	/* octets of a burst that was none by mistake */
#define FLUSH	(32u << 10)	/* sent whenever the stream has come so much further */
#define PAGE	4096u
#define PLACES	64

_Atomic uint64_t iw_bursts;
static struct {
	struct iw_stream *s;
	int fd;
} places[PLACES];

void iw_burst_end(struct iw_stream *s)
{
	s->map_run = 0;
	atomic_store_explicit(&s->burst, false, memory_order_relaxed);
}

/* The next one has to be longer, if this one was soon over. */
void iw_burst_lost(struct iw_stream *s)
{
	iw_burst_end(s);
	if (s->view.f->rs.tx_pos - s->burst_pos >= WORTH)
		s->burst_tries = 0;
	else if (s->burst_tries < TRIES)
		s->burst_tries++;
}

/* TCP_CORK waits for more than would be gathered. */
static bool may(struct iw_stream *s)
{
	return !(atomic_load_explicit(&iw_stream_end(s)->opts, memory_order_relaxed) & IW_SOPT_CORK) && iw_handlers_alone() &&
	       !iw_orphan_known(s) && atomic_load_explicit(&iw_conf_burst, memory_order_relaxed) && iw_daemon_up();
}

void iw_burst_count(struct iw_stream *s)
{
	uint32_t run = (s->map_gathers ? RUN : RUN_AT_ONCE) << s->burst_tries;

	if (!s->map_run++)
		s->map_run_ns = iw_mono_ns();
	if (s->map_run < run)
		return;
	atomic_store_explicit(&s->burst, iw_mono_ns() - s->map_run_ns < (int64_t)run * RUN_NS && may(s), memory_order_relaxed);
	s->map_run = 0;
	s->map_run_ns = iw_mono_ns();
	s->burst_page = 0;
	s->burst_pos = s->view.f->rs.tx_pos;
}

/* One page is asked for once in a row of sends from it. */
static bool readable(struct iw_stream *s, const void *p, size_t len)
{
	uintptr_t first = (uintptr_t)p / PAGE, last = ((uintptr_t)p + len - 1) / PAGE;

	if (first == last && last == s->burst_page)
		return true;
	if (!iw_user_readable(p, len))
		return false;
	s->burst_page = last;
	return true;
}

/* It is among those that a wait sends. false: there is no place for it. */
static bool noted(struct iw_stream *s, int fd)
{
	uint64_t all = atomic_load_explicit(&iw_bursts, memory_order_relaxed);
	int i;

	for (uint64_t left = all; left; left &= left - 1)
		if (places[__builtin_ctzll(left)].s == s && places[__builtin_ctzll(left)].fd == fd)
			return true;
	if (!~all)
		return false;
	i = __builtin_ctzll(~all);
	places[i].s = s;
	places[i].fd = fd;
	atomic_fetch_or(&iw_bursts, 1ull << i);
	return true;
}

/* The first after a pause is alone until others follow. */
static bool paused(struct iw_stream *s)
{
	int64_t now;

	if (iw_end_gathered(&s->view))
		return false;
	now = iw_mono_ns();
	if (now - s->map_run_ns < RUN_NS)
		return false;
	iw_burst_end(s);
	return true;
}

/* The daemon looks from now on. false: nobody could tell it. */
static bool ring(struct iw_stream *s, int fd)
{
	if (iw_likely(atomic_load(&s->map->bell)))
		return true;
	atomic_store(&s->map->bell, 1);
	return iw_daemon_tell_id(IW_CTL_BELL, s->stream_id, IW_REASON_ACCELERATED, fd);
}

/* So much has come together that it is worth a frame; what does not go stays. false: it is mapped no more. */
static bool send_on(struct iw_stream *s, int fd, size_t len)
{
	uint64_t end = s->view.f->rs.tx_pos + iw_end_gathered(&s->view);

	if (iw_likely(end / FLUSH == (end + len) / FLUSH))
		return true;
	iw_mapped_flush(s, fd);
	s->map_run_ns = iw_mono_ns();
	return atomic_load(&s->mapped) && !(iw_end_state(&s->view) & (IW_END_SHUT | IW_END_DONE | IW_END_DEAD));
}

bool iw_burst_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	const void *p = io->one.iov_base;
	size_t len = io->one.iov_len;

	if (io->vec || !len || len > IW_BURST_MOST || (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) || !iw_handlers_alone() || paused(s) || !readable(s, p, len))
		return false;
	if (!noted(s, fd) || !send_on(s, fd, len) || !iw_end_gather(&s->view, p, len))
		return false;
	if (!ring(s, fd))
		iw_map_give(fd, s);
	return true;
}

static void send_one(struct iw_stream *s, int fd)
{
	struct iw_turn t;

	if (!iw_turn(&t, fd, IW_TURN_ASK))
		return;
	if (s && t.s == s && atomic_load(&s->mapped) && iw_end_gathered(&s->view)) {
		iw_burst_end(s);
		if (!iw_mapped_flush(s, fd))
			iw_map_give(fd, s);
	}
	iw_turn_end();
}

void iw_bursts_send(const struct iw_stream *but)
{
	int saved = errno;

	for (uint64_t all = atomic_exchange(&iw_bursts, 0); all; all &= all - 1) {
		int i = __builtin_ctzll(all);

		if (places[i].s == but)
			atomic_fetch_or(&iw_bursts, 1ull << i);
		else
			send_one(places[i].s, places[i].fd);
	}
	errno = saved;
}
