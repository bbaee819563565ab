/* SPDX-License-Identifier: MIT */
/* Gives the pages of receive staging back when a connection that received much has been quiet for a while. */
#include <sys/mman.h>
#include <unistd.h>

#include "conn_priv.h"

#define RX_KEEP		(16u << 10)	/* so much may stay */
#define RX_QUIET_MS	1000u

/* Nothing may be in flight on the buffer. */
void conn_rx_trim(struct conn *c)
{
	static size_t page;
	size_t keep;

	if (!page)
		page = (size_t)sysconf(_SC_PAGESIZE);
	conn_rx_front(c);
	keep = (c->rx_len + page - 1) & ~(page - 1);
	madvise(c->rx + keep, CONN_RX_LEN - keep, MADV_DONTNEED);
	c->rx_peak = c->rx_len;
}

static void rx_quiet(struct timer *t)
{
	struct conn *c = container_of(t, struct conn, rx_timer);
	uint64_t quiet = engine_now_ms() - c->rx_ms;

	if (quiet < RX_QUIET_MS)
		timer_start(t, (unsigned int)(RX_QUIET_MS - quiet), rx_quiet);
	else if (c->rx_wanted)
		timer_start(t, RX_QUIET_MS, rx_quiet);
	else if (c->recv_op.busy)
		engine_cancel(&c->recv_op);	/* it comes back without octets, and the pages go */
	else
		conn_rx_trim(c);
}

void conn_rx_note(struct conn *c)
{
	c->rx_ms = engine_now_ms();
	if (c->rx_len > c->rx_peak)
		c->rx_peak = c->rx_len;
	if (c->rx_peak > RX_KEEP && !c->rx_timer.due)
		timer_start(&c->rx_timer, RX_QUIET_MS, rx_quiet);
}
