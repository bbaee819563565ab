// SPDX-License-Identifier: MIT
/*
 * An end of a stream that does what tests/differential_map.t tells it, as the daemon has it or on its map (proto/end.h), between pages that nobody
 * may touch: rounds of commands on stdin, what it said on stdout. Both are a length (4 octets) and so many octets; everything is little-endian, the
 * commands are listed at run().
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/lib/commands.h"
#include "tests/unit/end_util.h"

#define ALL	(4u << 20)

static struct {
	struct priv v;
	struct iw_end e;
	bool there, mapped;
	void *pages;
} s;

static struct {
	uint8_t p[ALL];
	size_t n;
} out;

/* ---- octets of the report ---- */
static void put(const void *p, size_t n)
{
	if (n > sizeof(out.p) - out.n)
		die("too much to say");
	memcpy(out.p + out.n, p, n);
	out.n += n;
}

static void put_int(char kind, uint64_t v)
{
	uint8_t p[5] = { (uint8_t)kind, (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };

	put(p, sizeof(p));
}

/* ---- whose state it is ---- */
static struct iw_rs *rs(void)
{
	return s.mapped ? &s.e.f->rs : &s.v.p.f->rs;
}

static struct iw_soft *soft(void)
{
	return s.mapped ? s.e.s : s.v.p.s;
}

static void guard(void)
{
	s.pages = mmap(NULL, s.v.map_len + 2 * IW_MAP_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s.pages == MAP_FAILED || mprotect((uint8_t *)s.pages + IW_MAP_PAGE, s.v.map_len, PROT_READ | PROT_WRITE))
		die("no memory");
	kept_put(s.v.map);
	s.v.map = (struct iw_map *)((uint8_t *)s.pages + IW_MAP_PAGE);
}

static void take_away(void)
{
	if (!s.there)
		return;
	munmap(s.pages, s.v.map_len + 2 * IW_MAP_PAGE);
	s.v.map = NULL;
	priv_free(&s.v);
	s.there = s.mapped = false;
}

static void what_it_says(struct iw_rs_param *p)
{
	p->rx_stag = (uint32_t)take_int(4);
	p->rx_to = take_int(8);
	p->rx_len = (uint32_t)take_int(4);
	p->bufs = (uint16_t)take_int(2);
	p->buf_size = (uint16_t)take_int(2);
	p->caps = (uint16_t)take_int(2);
}

static void new_end(void)
{
	struct priv_param own = priv_default(), peer = priv_default();
	bool initiator;

	take_away();
	initiator = take_int(1);
	own.large = take_int(1);
	own.qp.crc = (uint8_t)take_int(1);
	own.qp.tx_markers = (uint8_t)take_int(1);
	own.qp.rx_markers = (uint8_t)take_int(1);
	own.qp.mulpdu = (uint16_t)take_int(2);
	own.qp.ird = (uint16_t)take_int(2);
	own.qp.ord = (uint16_t)take_int(2);
	own.rs.tx_len = (uint32_t)take_int(4);
	own.rs.rd_len = (uint32_t)take_int(4);
	own.rs.read_max = (uint32_t)take_int(4);
	own.rs.inline_max = (uint32_t)take_int(4);
	own.rs.srcavail_min = (uint32_t)take_int(4);
	what_it_says(&own.rs);
	own.rs.rq_step = own.rs.buf_size;
	what_it_says(&peer.rs);
	peer.rs.rq_step = peer.rs.buf_size;
	if (!initiator) {	/* priv_new() has them as of the other side */
		uint8_t m = own.qp.tx_markers;

		own.qp.tx_markers = own.qp.rx_markers;
		own.qp.rx_markers = m;
	}
	priv_new(&s.v, &own, &peer, initiator);
	s.there = true;
	guard();
}

/* Out of the map, or into it if that can be. */
static void hand_over(void)
{
	int ret = 0;

	if (s.mapped) {
		atomic_fetch_and(&s.v.map->owner, ~(uint64_t)IW_MAP_OWNER);
		ret = iw_map_import(s.v.map, &s.v.p);
		s.mapped = false;
	} else if (iw_map_ready(&s.v.p)) {
		iw_map_export(s.v.map, &s.v.p);
		atomic_store(&s.v.map->owner, IW_MAP_LIBRARY);
		ret = iw_end_open(&s.e, s.v.map, s.v.map_len);
		s.mapped = true;
	}
	if (ret)
		die(s.mapped ? "the map cannot be opened" : "the map is unsound");
	put_int('u', s.mapped);
}

/* ---- stream octets ---- */
static uint32_t write_plain(const uint8_t *p, uint32_t n)
{
	uint32_t off, len;

	iw_rs_tx_space(rs(), 0, &off, &len);
	if (rs()->tx_fin || rs()->dead)
		return 0;
	n = n < len ? n : len;
	memcpy(s.v.tx_ring + off, p, n);
	iw_rs_tx_produced(rs(), n);
	iw_rs_push(rs());
	return n;
}

static void write_octets(uint32_t n)
{
	struct iovec v = { .iov_base = (void *)(uintptr_t)take(n), .iov_len = n };

	put_int('w', !n ? 0 : s.mapped ? iw_end_put(&s.e, &v, 1, 0, n) : write_plain(v.iov_base, n));
}

/* By small sends, gathered in the map. */
static void write_burst(uint32_t n)
{
	const uint8_t *p = take(n);
	uint32_t done = 0, k;

	for (; s.mapped && done < n; done += k) {
		k = n - done < 100 ? n - done : 100;
		if (!iw_end_gather(&s.e, p + done, k))
			break;
	}
	put_int('w', done);
}

static void read_octets(uint32_t n)
{
	static uint8_t buf[ALL];
	struct iovec v = { .iov_base = buf, .iov_len = n };
	uint32_t got = 0, stag, k;
	uint64_t to;

	if (n > ALL)
		die("too much to read");
	if (s.mapped)
		got = (uint32_t)iw_end_get(&s.e, &v, 1, 0, n, false, 0);
	while (!s.mapped && got < n && (k = iw_rs_rx_peek(rs(), &stag, &to))) {
		k = k < n - got ? k : n - got;
		memcpy(buf + got, priv_mem(&s.v, stag, to, k), k);
		iw_rs_rx_consumed(rs(), k);
		got += k;
	}
	put_int('g', got);
	put(buf, got);
}

/* ---- octets of T ---- */
static void pump(void)
{
	if (!s.mapped && iw_rs_rx_fin(rs()))
		iw_rs_rx_fin_consumed(rs());
	if (s.mapped)
		iw_end_pump(&s.e);
	else
		priv_frame(&s.v);
}

static size_t sent(uint32_t n)
{
	struct iw_soft_tx *b = soft()->tx;
	size_t len = b->used ? b->len - b->off : 0;

	len = len < n ? len : n;
	put(iw_soft_tx_at(soft(), b) + b->off, len);
	if (s.mapped && len)
		iw_end_out_done(&s.e, len);
	if (s.mapped || !len)
		return len;
	b->off += (uint32_t)len;
	iw_qp_tx_done(&soft()->qp, &priv_qp_ops, &s.v, len);
	if (b->off == b->len) {
		b[0] = b[1];
		b[1].used = 0;
	}
	return len;
}

static void transmit(uint32_t n)
{
	size_t at = out.n, done = 0, k;

	put_int('T', 0);
	do {
		pump();
		done += k = sent(n - (uint32_t)done);
	} while (k && done < n);
	for (unsigned int i = 0; i < 4; i++)
		out.p[at + 1 + i] = (uint8_t)(done >> (8 * i));
}

static void receive(size_t n)
{
	const uint8_t *p = take(n);

	for (size_t k, room; n; p += k, n -= k) {
		struct iw_soft *so = soft();
		uint8_t *to;

		if (!s.mapped && (so->rx_off == so->rx_len || IW_SOFT_RX - so->rx_len < IW_FPDU_MAX_MARKERS))
			iw_soft_rx_front(so);
		room = IW_SOFT_RX - so->rx_len;
		to = s.mapped ? iw_end_in(&s.e, &room) : so->rx + so->rx_len;
		k = n < room ? n : room;
		if (!k)
			die("no room");
		memcpy(to, p, k);
		if (s.mapped) {
			iw_end_in_done(&s.e, k);
			continue;
		}
		so->rx_len += (uint32_t)k;
		so->rx_off += (uint32_t)iw_qp_rx(&so->qp, &priv_qp_ops, &s.v, so->rx + so->rx_off, so->rx_len - so->rx_off);
	}
}

static void report(void)
{
	put_int('D', (s.mapped ? iw_end_state(&s.e) : s.v.lost || rs()->dead ? IW_END_DEAD : rs()->done ? IW_END_DONE : 0) | soft()->qp.state << 8);
}

static void run(void)
{
	while (cmd < cmd_end) {
		uint8_t what = (uint8_t)take_int(1);

		if (s.mapped && what != 'B' && what != 'U' && !iw_end_own(&s.e))
			die("it is not the library's");
		switch (what) {
		case 'N':	/* new: parameters */
			new_end();
			break;
		case 'U':	/* hand over, if it can be now */
			hand_over();
			break;
		case 'W':	/* write: length, octets */
			write_octets((uint32_t)take_int(4));
			break;
		case 'B':	/* write in a burst: length, octets; none without a map */
			write_burst((uint32_t)take_int(4));
			break;
		case 'G':	/* read: at most */
			read_octets((uint32_t)take_int(4));
			break;
		case 'F':	/* end our half */
			if (s.mapped)
				iw_end_fin(&s.e);
			else
				iw_rs_tx_fin(rs());
			break;
		case 'A':	/* acknowledge what was read */
			iw_rs_ack(rs());
			break;
		case 'T':	/* transmit: at most */
			transmit((uint32_t)take_int(4));
			break;
		case 'R':	/* octets received */
			receive(take_int(4));
			break;
		case 'D':	/* how it stands */
			report();
			break;
		default:
			die("unknown command");
		}
	}
}

int main(void)
{
	static uint8_t round[ALL];
	uint8_t len[4];

	while (fread(len, 1, 4, stdin) == 4) {
		size_t n = (size_t)len[0] | (size_t)len[1] << 8 | (size_t)len[2] << 16 | (size_t)len[3] << 24;

		if (n > ALL || fread(round, 1, n, stdin) != n)
			die("round cut short");
		cmd = round;
		cmd_end = round + n;
		out.n = 4;
		run();
		for (unsigned int i = 0; i < 4; i++)
			out.p[i] = (uint8_t)((out.n - 4) >> (8 * i));
		fwrite(out.p, 1, out.n, stdout);
		fflush(stdout);
	}
	take_away();
	return 0;
}
