// SPDX-License-Identifier: MIT
/* The soft endpoint: ends what is being sent when the peer has said Terminate. */
#include "soft_cut.h"

#include "proto/wire.h"
#include "soft_priv.h"

/* Where the FPDU ends that the next octet to send is in; at an FPDU's start: there. */
static uint32_t fpdu_end(const struct iw_soft *s, const struct iw_soft_tx *b)
{
	const uint8_t *data = s->txbuf[b->buf];
	bool markers = s->qp.param.tx_markers;
	uint32_t p = 0;

	while (p < b->off) {
		uint32_t len = markers && (b->pos + p) % IW_MARKER_IV == 0 ? IW_MARKER_LEN : 0;
		uint16_t ulpdu = iw_get16(data + p + len);

		p += markers ? iw_mpa_fpdu_len_markers(b->pos + p, ulpdu) : iw_mpa_fpdu_len(ulpdu);
	}
	return p;
}

void soft_cut_tx(struct soft *c)
{
	c->s->tx[0].len = fpdu_end(c->s, &c->s->tx[0]);
}

/* RDMAP-5.4-06: what is with TCP goes out, and the rest of an FPDU of which TCP has octets; nothing else. */
void soft_cut(struct soft *c)
{
	struct io_uring_sqe *sqe = engine_unsubmitted(&c->send_op);
	struct iw_soft_tx *b = c->s->tx;

	if (!b->used)
		return;
	c->s->cut = 1;
	b[1].used = 0;
	if (!sqe) {
		engine_cancel(&c->send_op);	/* and says how far it came */
		return;
	}
	soft_cut_tx(c);
	sqe->len = b->len - b->off;
}
