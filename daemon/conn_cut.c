/* SPDX-License-Identifier: MIT */
/* Ends what an endpoint is sending when the peer has said Terminate. */
#include "../proto/wire.h"
#include "conn_priv.h"

/* Where the FPDU ends that the next octet to send is in; at an FPDU's start: there. */
static size_t fpdu_end(const struct conn *c, const struct conn_txbuf *b)
{
	bool markers = c->tx_markers;
	size_t p = 0;

	while (p < b->off) {
		size_t len = markers && (b->pos + p) % IW_MARKER_IV == 0 ? IW_MARKER_LEN : 0;
		uint16_t ulpdu = iw_get16(b->data + p + len);

		p += markers ? iw_mpa_fpdu_len_markers(b->pos + p, ulpdu) : iw_mpa_fpdu_len(ulpdu);
	}
	return p;
}

void conn_cut_buf(struct conn *c)
{
	c->tx[0]->len = fpdu_end(c, c->tx[0]);
}

/* RDMAP-5.4-06: what is with TCP goes out, and the rest of an FPDU of which TCP has octets; nothing else. */
void conn_cut(struct conn *c)
{
	struct io_uring_sqe *sqe = engine_unsubmitted(&c->send_op);

	if (!c->tx[0])
		return;
	c->cut = true;
	conn_txbuf_put(c->tx[1]);
	c->tx[1] = NULL;
	if (!sqe) {
		engine_cancel(&c->send_op);	/* and says how far it came */
		return;
	}
	conn_cut_buf(c);
	sqe->len = (uint32_t)(c->tx[0]->len - c->tx[0]->off);
}
