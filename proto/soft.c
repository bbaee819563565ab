// SPDX-License-Identifier: MIT
/* The octets under way between a queue pair and TCP. */
#include "soft.h"

#include <string.h>

#include "mpa.h"
#include "wire.h"

void iw_soft_rx_front(struct iw_soft *s)
{
	if (s->rx_off)
		memmove(s->rx, s->rx + s->rx_off, s->rx_len - s->rx_off);
	s->rx_len -= s->rx_off;
	s->rx_off = 0;
}

/* Where the FPDU ends that the next octet to send is in; at an FPDU's start: there. Never past what there is, whatever that holds. */
static uint32_t fpdu_end(struct iw_soft *s, const struct iw_soft_tx *b)
{
	const uint8_t *data = iw_soft_tx_at(s, b);
	bool markers = s->qp.param.tx_markers;
	uint32_t p = 0;

	while (p < b->off && b->len - p > IW_MARKER_LEN + IW_MPA_LEN) {
		uint32_t len = markers && (b->pos + p) % IW_MARKER_IV == 0 ? IW_MARKER_LEN : 0;
		uint16_t ulpdu = iw_get16(data + p + len);

		p += markers ? iw_mpa_fpdu_len_markers(b->pos + p, ulpdu) : iw_mpa_fpdu_len(ulpdu);
		if (p > b->len)
			p = b->len;
	}
	return p < b->off ? b->len : p;
}

void iw_soft_cut(struct iw_soft *s)
{
	if (s->tx[0].used)
		s->tx[0].len = fpdu_end(s, &s->tx[0]);
	s->tx[1].used = 0;
	s->cut = 1;
}
