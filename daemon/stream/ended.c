// SPDX-License-Identifier: MIT
/* The last streams that have ended, and how: a ring of those that are remembered. */
#include "ended.h"

#include "proto/probe.h"
#include "remote.h"
#include "stream_priv.h"
#include "table.h"

static struct stream_ended ring[STREAM_ENDED];
static uint64_t count;

uint64_t stream_ended_count(void)
{
	return count;
}

void (*stream_ended_watch)(const struct stream_ended *e);

static const char *how(const struct stream *st)
{
	if (st->given_back)
		return "back";
	if (st->administrator)
		return "administrator";
	if (st->was == STREAM_LOCAL)
		return "closed";	/* nobody knows more */
	return st->lost || st->tcp_reset || (st->remote && st->remote->on && st->remote->f->aborted) ? "reset" : "closed";
}

static void note(const struct stream *st, unsigned int end)
{
	struct stream_ended *e = &ring[count++ % STREAM_ENDED];

	table_info(st, end, &e->info);
	e->info.state = st->was;
	e->local = st->was == STREAM_LOCAL;
	e->remote = !e->local && st->remote && st->remote->on;
	e->how = how(st);
	e->error = st->lost;
	e->ended_ms = engine_now_ms();
	IW_PROBE4(iwarpd, ended, e->info.id, e->how, e->info.tx_bytes, e->info.rx_bytes);
	if (stream_ended_watch)
		stream_ended_watch(e);
}

void ended_note(const struct stream *st)
{
	if (st->was == STREAM_GRANTED)
		return;
	note(st, 0);
	if (st->was == STREAM_LOCAL)
		note(st, 1);
}

void stream_ended_foreach(void (*fn)(void *arg, const struct stream_ended *e), void *arg)
{
	for (uint64_t i = 0; i < STREAM_ENDED && i < count; i++)
		fn(arg, &ring[(count - 1 - i) % STREAM_ENDED]);
}
