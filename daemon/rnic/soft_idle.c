// SPDX-License-Identifier: MIT
/* The soft endpoint: gives the pages of its buffers back when a connection that moved much has been quiet for a while. */
#include "soft_idle.h"

#include "soft_priv.h"
#include "soft_rx.h"

#define RX_KEEP		(16u << 10)	/* so much may stay */
#define TX_KEEP		IW_SOFT_PAGE
#define QUIET_MS	1000u
#define RX_ROOM		(offsetof(struct iw_soft, txbuf) - offsetof(struct iw_soft, rx))	/* whole pages */

void soft_rx_trim(struct soft *c)
{
	size_t keep;

	iw_soft_rx_front(c->s);
	keep = (c->s->rx_len + IW_SOFT_PAGE - 1) & ~(size_t)(IW_SOFT_PAGE - 1);
	area_trim(c->area, c->s->rx + keep, RX_ROOM - keep);
	c->rx_peak = c->s->rx_len;
}

static void tx_trim(struct soft *c)
{
	area_trim(c->area, c->s->txbuf, sizeof(c->s->txbuf));
	c->tx_peak = 0;
}

static void quiet(struct timer *t)
{
	struct soft *c = container_of(t, struct soft, idle_timer);
	uint64_t ms = engine_now_ms() - c->busy_ms;
	bool sending = c->s->tx[0].used;

	if (ms < QUIET_MS) {
		timer_start(t, (unsigned int)(QUIET_MS - ms), quiet);
		return;
	}
	if (c->rests && c->cq)
		rnic_cq_trim(c->cq);
	if (!sending && c->tx_peak > TX_KEEP)
		tx_trim(c);
	if (c->rx_wanted || sending)
		timer_start(t, QUIET_MS, quiet);
	if (c->rx_wanted || c->rx_peak <= RX_KEEP)
		return;
	if (c->recv_op.busy)
		engine_cancel(&c->recv_op);	/* it comes back without octets, and the pages go */
	else
		soft_rx_trim(c);
}

static bool large(const struct soft *c)
{
	return c->rx_peak > RX_KEEP || c->tx_peak > TX_KEEP;
}

static void noted(struct soft *c, bool look)
{
	c->busy_ms = engine_now_ms();
	if (look && !c->idle_timer.due)
		timer_start(&c->idle_timer, QUIET_MS, quiet);
}

void soft_idle_note(struct soft *c)
{
	noted(c, true);
}

void soft_rx_note(struct soft *c)
{
	if (c->s->rx_len > c->rx_peak)
		c->rx_peak = c->s->rx_len;
	noted(c, large(c));
}

void soft_tx_note(struct soft *c, size_t len)
{
	if (len > c->tx_peak)
		c->tx_peak = len;
	noted(c, large(c));
}
