// SPDX-License-Identifier: MIT
/* A hostile peer of the ring stream (R33): every malformed message ends in ABORT(EPROTO), random ones never break a bound. */
#include "rs_model.h"

#define ALL_CAPS	(IW_RS_CAP_IMM | IW_RS_CAP_SRCAVAIL | IW_RS_CAP_SENDINV | IW_RS_CAP_URGENT | IW_RS_CAP_LARGE)
#define RING		(64u << 10)

static uint16_t caps = ALL_CAPS;
static uint64_t first_seed, runs;

static void tune(struct side *s)
{
	s->no_reads = false;
	s->p.tx_len = 1u << 20;
	s->p.rx_len = s->p.rd_len = RING;
	s->p.read_max = 16384;
	s->p.bufs = 16;
	s->p.buf_size = s->p.rq_step = 256;
	s->p.inline_max = 128;
	s->p.srcavail_min = 4096;
	s->p.caps = caps;
	s->limit = 1u << 30;
}

static struct model *start(void)
{
	struct model *m = m_new(7, &fake_transport, tune);

	m->hostile = true;
	for (int i = 0; i < 2; i++) {		/* m_new() may have moved them */
		struct iw_rs *rs = &m->s[i].rs;

		rs->ring_sent = rs->ring_acked = rs->rx_prod = rs->rx_cons = rs->rx_acked = 0;
	}
	return m;
}

static void inject(struct model *m, struct m_msg *msg)
{
	fake_put(&m->s[0], msg);
	assert_true(fake_deliver(&m->s[1]));
}

static void imm(struct model *m, uint64_t word)
{
	struct m_msg msg = { .kind = M_IMM };

	for (int i = 0; i < 8; i++)
		msg.imm[i] = (uint8_t)(word >> (56 - 8 * i));
	inject(m, &msg);
}

/* A Send of a word and a body; inv: STag it invalidates, 0 for none. */
static void send_body(struct model *m, uint64_t word, const void *body, uint32_t len, uint32_t inv)
{
	struct m_msg msg = { .kind = M_SEND, .len = 8 + len, .inv = !!inv, .inv_stag = inv };

	msg.data = malloc(msg.len);
	for (int i = 0; i < 8; i++)
		msg.data[i] = (uint8_t)(word >> (56 - 8 * i));
	if (len)
		memcpy(msg.data + 8, body, len);
	inject(m, &msg);
}

static void srcavail(struct model *m, uint64_t id, uint64_t to, uint64_t len)
{
	const struct iw_cw_srcavail sa = { 0x99, to, len };
	uint8_t body[IW_CW_SRCAVAIL_LEN];

	iw_cw_encode_srcavail(&sa, body);
	send_body(m, 4ull << 60 | id, body, sizeof(body), 0);
}

static void rddone(struct model *m, uint64_t word, uint64_t n, uint32_t inv)
{
	uint8_t body[8];

	iw_cw_encode_rddone(n, body);
	send_body(m, word, body, 8, inv);
}

static void fine(struct model *m, int line)
{
	if (m->s[1].rs.dead)
		fprintf(stderr, "# line %d: dead with %d\n", line, m->s[1].rs.err);
	assert_false(m->s[1].rs.dead);
}

/* The victim is dead with EPROTO, and ABORT(EPROTO) is the last thing it posted. */
static void dead(struct model *m, int line)
{
	struct side *v = &m->s[1];
	const struct iw_wr *wr = &v->sq[(v->sq_head - 1) % M_SQ];
	struct iw_cw cw;

	if (!v->rs.dead || v->rs.err != EPROTO || v->ev_abort != 1)
		fprintf(stderr, "# line %d: dead %d err %d events %u\n", line, v->rs.dead, v->rs.err, v->ev_abort);
	assert_true(v->rs.dead && v->rs.err == EPROTO && v->ev_abort == 1 && v->rs.abort_posted);
	assert_int_equal(iw_cw_decode(&cw, wr->op == IW_WR_IMM ? wr->imm : wr->inl), 0);
	assert_int_equal(cw.type, IW_CW_ABORT);
	assert_int_equal(cw.value, EPROTO);
	assert_int_equal(v->nexposed, 0);
	m_pump(v);
	imm(m, 0x3000000000000000);	/* whatever comes now is ignored */
	assert_int_equal(v->ev_abort, 1);
	m_free(m);
}
#define FINE(m)	fine(m, __LINE__)
#define DEAD(m)	dead(m, __LINE__)
#define BAD(...) do { struct model *m = start(); __VA_ARGS__; DEAD(m); } while (0)
#define GOOD(...) do { struct model *m = start(); __VA_ARGS__; FINE(m); m_free(m); } while (0)

static void test_words(void **state)
{
	static const uint8_t legal[16] = { 7, 7, 3, 0, 7, 1, 0, 0, 0, 1 };

	for (uint64_t o = 0; o < 256; o++) {
		if (o >> 4 > 9 || o & 15 & ~legal[o >> 4]) {
			BAD(imm(m, o << 56));
			BAD(send_body(m, o << 56, NULL, 0, 0));
		}
	}
	BAD(imm(m, 1ull << 60));
	BAD(imm(m, 4ull << 60 | 1));
	BAD(imm(m, 5ull << 60 | 1));
	GOOD(imm(m, 0));
	GOOD(send_body(m, 0, NULL, 0, 0));		/* a word alone may come by Send */
	for (uint32_t n = 0; n < 8; n++)
		BAD(struct m_msg s = { .kind = M_SEND, .len = n, .data = calloc(1, 8) }; inject(m, &s));
	caps &= ~IW_RS_CAP_IMM;
	BAD(imm(m, 0));
	caps = ALL_CAPS;
}

static void test_no_bodies(void **state)
{
	static const uint64_t words[] = { 0, 2ull << 60, 3ull << 60, 6ull << 60, 7ull << 60, 8ull << 60 | 5, 9ull << 60 };

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		BAD(send_body(m, words[i], "x", 1, 0));
}

static void test_positions(void **state)
{
	uint8_t x[248] = { 0 };

	GOOD(imm(m, RING));
	BAD(imm(m, RING + 1));
	BAD(imm(m, 0xffffffffffff));
	BAD(imm(m, 100); imm(m, 99));
	BAD(imm(m, RING); FINE(m); imm(m, RING + 1));
	GOOD(imm(m, RING); iw_rs_rx_consumed(&m->s[1].rs, 1); imm(m, RING + 1));
	GOOD(send_body(m, 1ull << 60 | 248, x, 248, 0));
	BAD(send_body(m, 1ull << 60 | 248, x, 247, 0));
	BAD(send_body(m, 1ull << 60 | 247, x, 248, 0));
	BAD(send_body(m, 1ull << 60, x, 8, 0));
	GOOD(imm(m, RING - 8); send_body(m, 1ull << 60 | RING, x, 8, 0));
	BAD(imm(m, RING - 7); send_body(m, 1ull << 60 | (RING + 1), x, 8, 0));
	/* after FIN nothing more */
	BAD(imm(m, 1ull << 56 | 5); imm(m, 6));
	BAD(imm(m, 1ull << 56 | 5); imm(m, 1ull << 56 | 5));
	BAD(imm(m, 1ull << 56 | 5); send_body(m, 1ull << 60 | 6, x, 1, 0));
	BAD(imm(m, 1ull << 56 | 5); srcavail(m, 1, 0, 10));
}

static void victim_sends(struct model *m, uint32_t n)
{
	m_produce(&m->s[1], n);
	m_pump(&m->s[1]);
}

static void test_acks(void **state)
{
	BAD(imm(m, 2ull << 60 | 1));
	BAD(imm(m, 2ull << 60 | 0xffffffffffff));
	GOOD(victim_sends(m, 100); imm(m, 2ull << 60 | 100));
	BAD(victim_sends(m, 100); imm(m, 2ull << 60 | 101));
	BAD(victim_sends(m, 100); imm(m, 2ull << 60 | 100); imm(m, 2ull << 60 | 99));
	BAD(victim_sends(m, 100); imm(m, 0x21ull << 56 | 100));		/* FIN that was never sent */
	GOOD(iw_rs_tx_fin(&m->s[1].rs); victim_sends(m, 100); imm(m, 0x21ull << 56));
	BAD(m_produce(&m->s[1], 100); iw_rs_tx_fin(&m->s[1].rs); victim_sends(m, 0); imm(m, 0x21ull << 56 | 99));
	GOOD(m_produce(&m->s[1], 100); iw_rs_tx_fin(&m->s[1].rs); victim_sends(m, 0); imm(m, 0x21ull << 56 | 100));
}

static void test_credits(void **state)
{
	BAD(imm(m, 3ull << 60 | 1ull << 48));			/* more than were used */
	BAD(imm(m, 0xffull << 48));
	GOOD(victim_sends(m, 10); imm(m, 3ull << 60 | 1ull << 48));
	BAD(victim_sends(m, 10); imm(m, 3ull << 60 | 2ull << 48));
	BAD(victim_sends(m, 10); imm(m, 3ull << 60 | 1ull << 48); imm(m, 3ull << 60 | 1ull << 48));
	BAD(imm(m, 3ull << 60 | 1));
	/* a message without credit (R16) */
	GOOD(for (int i = 0; i < 16; i++) imm(m, 9ull << 60));
	BAD(for (int i = 0; i < 17; i++) imm(m, 9ull << 60));
}

static void eight_open(struct model *m)
{
	for (uint64_t id = 1; id <= IW_RS_SA; id++) {
		FINE(m);
		srcavail(m, id, 0, 1);
	}
}

static void test_srcavail(void **state)
{
	GOOD(srcavail(m, 1, 0, 1));
	BAD(srcavail(m, 1, 0, 0));
	GOOD(srcavail(m, 1, 0, 1u << 30));
	BAD(srcavail(m, 1, 0, (1u << 30) + 1));
	BAD(srcavail(m, 1, 0, 1ull << 63));
	BAD(srcavail(m, 1, 0, UINT64_MAX));
	GOOD(srcavail(m, 1, UINT64_MAX - 9, 10));
	BAD(srcavail(m, 1, UINT64_MAX - 9, 11));
	BAD(srcavail(m, 0, 0, 1));
	BAD(srcavail(m, 1, 0, 1); srcavail(m, 1, 0, 1));
	BAD(srcavail(m, 5, 0, 1); srcavail(m, 4, 0, 1));
	GOOD(eight_open(m));
	BAD(eight_open(m); srcavail(m, IW_RS_SA + 1, 0, 1));
	for (uint32_t n = 0; n < 40; n++)
		if (n != IW_CW_SRCAVAIL_LEN)
			BAD(send_body(m, 4ull << 60 | 1, (uint8_t[40]){ [19] = 1 }, n, 0));
	caps &= ~IW_RS_CAP_SRCAVAIL;
	BAD(srcavail(m, 1, 0, 1));
	caps = ALL_CAPS;
}

/* Make the victim offer octets: fill the ring it writes to, then its backlog. */
static uint32_t victim_offers(struct model *m)
{
	struct side *v = &m->s[1];

	for (int i = 0; i < 100 && !v->rs.tx_nsa; i++) {
		m_produce(v, 65536);
		m_pump(v);
		while (fake_frame(v) || fake_complete(v))
			;
	}
	assert_int_equal(v->rs.tx_nsa > 0, 1);
	return v->rs.tx_sa[0].len;
}

static uint32_t stag(struct model *m)
{
	return m->s[1].rs.tx_sa[0].stag;
}

static void test_rddone(void **state)
{
	BAD(rddone(m, 5ull << 60 | 1, 0, 0));
	BAD(rddone(m, 0x51ull << 56, 0, 0));
	GOOD(uint32_t n = victim_offers(m); rddone(m, 5ull << 60 | 1, n, stag(m)));
	GOOD(uint32_t n = victim_offers(m); rddone(m, 5ull << 60 | 1, n, 0));		/* no invalidation: ours to do */
	GOOD(victim_offers(m); rddone(m, 0x51ull << 56 | 1, 0, stag(m)));
	BAD(uint32_t n = victim_offers(m); rddone(m, 5ull << 60 | 2, n, 0));
	BAD(uint32_t n = victim_offers(m); rddone(m, 5ull << 60 | 1, n - 1, 0));
	BAD(uint32_t n = victim_offers(m); rddone(m, 5ull << 60 | 1, n + 1, 0));
	BAD(uint32_t n = victim_offers(m); rddone(m, 0x51ull << 56 | 1, n + 1ull, 0));
	BAD(victim_offers(m); rddone(m, 0x51ull << 56 | 1, UINT64_MAX, 0));
	BAD(uint32_t n = victim_offers(m); rddone(m, 5ull << 60 | 1, n, 0); rddone(m, 5ull << 60 | 1, n, 0));
	BAD(uint32_t n = victim_offers(m); rddone(m, 5ull << 60 | 1, n, M_RX));		/* R23 */
	BAD(victim_offers(m); send_body(m, 5ull << 60 | 1, "", 0, 0));
	BAD(victim_offers(m); send_body(m, 5ull << 60 | 1, "123456789", 9, 0));
	BAD(send_body(m, 0, NULL, 0, M_RX));			/* R23: an invalidation with another word */
	BAD(victim_offers(m); send_body(m, 0, NULL, 0, stag(m)));
}

static void test_rest(void **state)
{
	GOOD(srcavail(m, 3, 0, 9); imm(m, 6ull << 60 | 3));
	GOOD(srcavail(m, 3, 0, 9); imm(m, 6ull << 60 | 2));	/* not open: it crossed its RDDONE */
	BAD(srcavail(m, 3, 0, 9); imm(m, 6ull << 60 | 4));
	BAD(srcavail(m, 3, 0, 9); srcavail(m, 4, 0, 9); imm(m, 6ull << 60 | 4));
	GOOD(imm(m, 7ull << 60));
	BAD(imm(m, 7ull << 60 | 1));
	BAD(imm(m, 2ull << 56));				/* urgent octet of an empty stream */
	GOOD(imm(m, 2ull << 56 | 1));
	BAD(imm(m, 8ull << 60));
	BAD(imm(m, 8ull << 60 | 4096));
	BAD(imm(m, 8ull << 60 | 0xffffffffffff));
	GOOD(imm(m, 9ull << 60 | 0xffffffffffff));
	GOOD(imm(m, 0x91ull << 56 | 5));
	caps &= ~IW_RS_CAP_URGENT;
	BAD(imm(m, 7ull << 60));
	BAD(imm(m, 2ull << 56 | 1));
	caps = ALL_CAPS;
}

static void test_abort_received(void **state)
{
	struct model *m = start();
	struct side *v = &m->s[1];

	victim_offers(m);
	imm(m, 8ull << 60 | ETIMEDOUT);
	assert_true(v->rs.dead && v->rs.err == ETIMEDOUT && v->ev_abort == 1 && v->rs.abort_posted);
	assert_int_equal(v->nexposed, 0);
	assert_false(m_produce(v, 1));
	m_free(m);
}

static void test_completions(void **state)
{
	struct model *m = start();
	struct iw_cqe c = { .wr_id = 1ull << 56, .op = IW_WR_RECV, .status = IW_WC_FLUSH };

	iw_rs_complete(&m->s[1].rs, &fake_ops, &m->s[1], &c);	/* the QP's event tells */
	assert_true(m->s[1].rs.dead && m->s[1].rs.err == ECONNRESET && !m->s[1].ev_abort);
	m_free(m);
	m = start();
	c = (struct iw_cqe){ .wr_id = 2ull << 56, .op = IW_WR_SEND, .status = IW_WC_LOC_PROT };
	iw_rs_complete(&m->s[1].rs, &fake_ops, &m->s[1], &c);
	assert_true(m->s[1].rs.dead && m->s[1].rs.err == ECONNRESET && m->s[1].ev_abort == 1);
	m_free(m);
	m = start();
	c = (struct iw_cqe){ .wr_id = 1ull << 56 | 200, .op = IW_WR_RECV, .len = 8 };
	iw_rs_complete(&m->s[1].rs, &fake_ops, &m->s[1], &c);
	assert_int_equal(m->s[1].rs.err, EPROTO);
	m_free(m);
	m = start();
	c = (struct iw_cqe){ .wr_id = 1ull << 56, .op = IW_WR_RECV, .len = 257 };
	iw_rs_complete(&m->s[1].rs, &fake_ops, &m->s[1], &c);
	assert_int_equal(m->s[1].rs.err, EPROTO);
	m_free(m);
}

static void test_start(void **state)
{
	struct iw_rs_param p = { .tx_len = 4096, .rx_len = RING, .bufs = 8, .buf_size = 64, .rq_step = 64 };
	struct iw_rs_pd pd, peer = { .ver_lo = 1, .ver_hi = 1, .ring_len = RING, .bufs = 8, .buf_size = 64 };
	struct iw_rs rs;

	assert_int_equal(iw_rs_init(&rs, &p, &pd), 0);
	assert_int_equal(iw_rs_start(&rs, &peer), 0);
#define BAD_PEER(f, v) do { struct iw_rs_pd q = peer; q.f = v; assert_int_equal(iw_rs_start(&rs, &q), -EPROTO); } while (0)
	BAD_PEER(ver_lo, 2);
	BAD_PEER(ver_hi, 0);
	BAD_PEER(ring_len, RING / 2);
	BAD_PEER(ring_len, RING + 1);
	BAD_PEER(ring_len, 128u << 20);
	BAD_PEER(ring_to, UINT64_MAX - RING + 2);
	BAD_PEER(bufs, 7);
	BAD_PEER(buf_size, 63);
#define BAD_PARAM(f, v) do { struct iw_rs_param q = p; q.f = v; assert_int_equal(iw_rs_init(&rs, &q, &pd), -EINVAL); } while (0)
	BAD_PARAM(tx_len, 2048);
	BAD_PARAM(tx_len, 5000);
	BAD_PARAM(rx_len, RING / 2);
	BAD_PARAM(rx_len, 128u << 20);
	BAD_PARAM(rd_len, 5000);
	BAD_PARAM(rd_len, 4096);	/* without read_max */
	BAD_PARAM(bufs, 7);
	BAD_PARAM(bufs, IW_QP_RQ + 1);
	BAD_PARAM(buf_size, 63);
}

/* ---- random messages ---- */

static const uint8_t legal_flags[16] = { 7, 7, 3, 0, 7, 1, 0, 0, 0, 1 };

/* What a peer could say at this moment. */
static uint64_t legal_value(struct model *m, uint8_t type)
{
	const struct iw_rs *v = &m->s[1].rs;

	switch (type) {
	case IW_CW_DATA:
		return v->rx_prod + m_below(m, (uint32_t)(RING - (v->rx_prod - v->rx_cons)) + 1);
	case IW_CW_ACK:
		return v->ring_acked + m_below(m, (uint32_t)(v->ring_sent - v->ring_acked) + 1);
	case IW_CW_SRCAVAIL:
		return v->rx_sa_id + 1 + m_below(m, 3);
	case IW_CW_RDDONE:
		return v->tx_nsa ? v->tx_sa[0].id : 1;
	case IW_CW_CANCEL:
		return m_below(m, (uint32_t)v->rx_sa_id + 1);
	case IW_CW_ABORT:
		return 1 + m_below(m, 4095);
	case IW_CW_PING:
		return m_rand(m);
	default:
		return 0;
	}
}

/* May the model peer send this type now without being caught? */
static bool legal_type(struct model *m, uint8_t type)
{
	const struct iw_rs *v = &m->s[1].rs;

	if (type == IW_CW_ABORT)
		return !m_below(m, 300);
	if (type == IW_CW_RDDONE)
		return v->tx_nsa;
	if (type == IW_CW_SRCAVAIL)
		return !v->rx_fin && v->rx_nsa < IW_RS_SA;
	return type > IW_CW_INLINE || !v->rx_fin;
}

static uint8_t pick_flags(struct model *m, uint8_t type, bool wild)
{
	const struct iw_rs *v = &m->s[1].rs;
	uint8_t flags = (uint8_t)m_below(m, 16);

	if (wild)
		return flags;
	flags &= legal_flags[type];
	if (type == IW_CW_ACK && !(v->tx_fin_sent && v->ring_acked == v->ring_sent && !v->tx_nsa))
		flags &= IW_CW_WAITING;
	if ((type <= IW_CW_INLINE || type == IW_CW_SRCAVAIL) && m_below(m, 200))
		flags &= IW_CW_MORE;
	return flags;
}

static uint32_t pick_body(struct model *m, uint8_t type, uint8_t *body, uint64_t *word, uint32_t *inv)
{
	const struct iw_rs *v = &m->s[1].rs;
	uint32_t len;

	switch (type) {
	case IW_CW_INLINE:
		len = (uint32_t)(RING - (v->rx_prod - v->rx_cons));
		len = m_below(m, (len < 248 ? len : 248) + 1);
		*word += (v->rx_prod + len) & 0xffffffffffff;
		return len;
	case IW_CW_SRCAVAIL:
		memset(body + 12, 0, 6);
		body[17] = (uint8_t)(m_below(m, 4) == 0);
		body[19] |= 1;
		body[4] &= 0x7f;
		return IW_CW_SRCAVAIL_LEN;
	case IW_CW_RDDONE:
		if (!v->tx_nsa)
			return 8;
		len = v->tx_sa[0].len;
		if (m_below(m, 2))
			*word |= 1ull << 56;
		iw_cw_encode_rddone(*word >> 56 & 1 ? m_below(m, len + 1) : len, body);
		*inv = m_below(m, 2) ? v->tx_sa[0].stag : 0;
		return 8;
	default:
		return 0;
	}
}

static void random_message(struct model *m)
{
	const struct iw_rs *v = &m->s[1].rs;
	bool wild = !m_below(m, 60);
	uint8_t type = (uint8_t)m_below(m, wild ? 16 : 10), body[248];
	uint64_t word, credits = m_below(m, 3) ? 0 : m_below(m, v->peer_bufs - v->credits + 1 + wild);
	uint32_t len, inv = 0;

	if (!wild && (!legal_type(m, type) || v->unreturned == v->p.bufs))
		return;
	for (unsigned int i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)m_rand(m);
	word = (uint64_t)type << 60 | (uint64_t)pick_flags(m, type, wild) << 56 | credits << 48 |
	       ((wild ? m_rand(m) >> m_below(m, 60) : legal_value(m, type)) & 0xffffffffffff);
	len = pick_body(m, type, body, &word, &inv);
	if (wild && m_below(m, 2))
		len = m_below(m, 249);
	if (wild && !m_below(m, 3))
		inv = M_RX;
	if (type != IW_CW_INLINE && type != IW_CW_SRCAVAIL && type != IW_CW_RDDONE && m_below(m, 4))
		imm(m, word);
	else
		send_body(m, word, body, len, inv);
}

/* What the victim sends: Writes must stay in the ring it was told of; its Reads are answered. */
static void take(struct model *m)
{
	struct side *v = &m->s[1];
	struct m_msg msg = v->wire[v->wire_tail % M_WIRE], r;

	if (v->wire_tail == v->wire_head)
		return;
	v->wire_tail++;
	if (msg.kind == M_WRITE) {
		m_mem(&m->s[0], msg.stag, msg.to, msg.len);
	} else if (msg.kind == M_RREQ) {
		r = (struct m_msg){ .kind = M_RRESP, .stag = msg.rstag, .to = msg.rto, .len = msg.len, .data = calloc(1, msg.len + 1) };
		inject(m, &r);
	}
	free(msg.data);
}

static void invariants(struct model *m)
{
	struct side *v = &m->s[1];
	const struct iw_rs *r = &v->rs;
	uint32_t tag, n;
	uint64_t to;

	m_check(m, r->rx_cons <= r->rx_prod && r->rx_prod - r->rx_cons <= v->p.rx_len && r->rx_acked <= r->rx_cons);
	m_check(m, r->credits <= r->peer_bufs && r->unreturned <= v->p.bufs);
	m_check(m, r->ext_tail - r->ext_head <= IW_RS_EXT && r->rx_nsa <= IW_RS_SA && r->tx_nsa <= IW_RS_SA);
	m_check(m, r->ring_acked <= r->ring_sent && r->ring_sent - r->ring_acked <= r->peer_len);
	m_check(m, r->tx_freed <= r->tx_sent && r->tx_sent <= r->tx_pos && r->tx_pos - r->tx_freed <= v->p.tx_len);
	m_check(m, r->rd_cons <= r->rd_ready && r->rd_ready <= r->rd_issued && r->rd_issued - r->rd_cons <= v->p.rd_len);
	m_check(m, r->rx_pos <= r->rx_stream && v->nexposed == r->tx_nsa);
	m_check(m, !r->dead || v->ev_abort == 1);
	n = iw_rs_rx_peek(r, &tag, &to);
	if (n)
		m_mem(v, tag, to, n);
}

static void test_random(void **state)
{
	uint64_t survived = 0;

	for (uint64_t i = 0; i < runs; i++) {
		struct model *m = start();
		struct side *v = &m->s[1];

		m->seed = first_seed + i;
		m->rng = (m->seed + 1) * 0x9e3779b97f4a7c15ull;
		for (unsigned int n = 2000; n-- && !v->rs.dead; survived++) {
			if (v->rq_head == v->rq_tail)
				break;		/* a real QP would say Terminate */
			switch (m_below(m, 8)) {
			case 0:
				m_produce(v, 1 + m_below(m, 100000));
				break;
			case 1:
				iw_rs_rx_consumed(&v->rs, m_below(m, 70000));
				if (iw_rs_rx_fin(&v->rs) && m_below(m, 2))
					iw_rs_rx_fin_consumed(&v->rs);
				break;
			case 2:
				m_pump(v);
				break;
			case 3:
				while (fake_frame(v) || fake_complete(v))
					;
				break;
			case 4:
				take(m);
				break;
			case 5:
				if (!m_below(m, 20))
					iw_rs_tx_cancel(&v->rs);
				break;
			default:
				random_message(m);
			}
			invariants(m);
		}
		m_pump(v);
		invariants(m);
		m_free(m);
	}
	printf("# %llu steps survived in %llu runs\n", (unsigned long long)survived, (unsigned long long)runs);
	assert_true(survived > runs * 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_no_bodies),
		cmocka_unit_test(test_positions),
		cmocka_unit_test(test_acks),
		cmocka_unit_test(test_credits),
		cmocka_unit_test(test_srcavail),
		cmocka_unit_test(test_rddone),
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_abort_received),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_random),
	};
	const char *seed = getenv("IW_SEED"), *n = getenv("IW_RUNS");

	first_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 100000;
	runs = n ? strtoull(n, NULL, 0) : 2000;
	printf("# rs_hostile_test: IW_SEED=%llu IW_RUNS=%llu\n", (unsigned long long)first_seed, (unsigned long long)runs);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
