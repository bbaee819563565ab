/* SPDX-License-Identifier: MIT */
/* An endpoint at work and at its end: sizes that follow TCP, Terminates under load, closes, resets; every request completes once. */
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "conn_peer.h"
#include "proto/soft.h"

static void up(const char *first)
{
	respond();
	say_vec("mpa.req.r1.c");
	hear_vec("mpa.rep.r1.c");
	say_vec(first);
	run_until(is_true, &z.established);
	run_rounds(3);
}

/* ---- sizes follow the EMSS ---- */
static unsigned int emss(void)
{
	struct tcp_info ti;
	socklen_t len = sizeof(ti);

	assert_int_equal(getsockopt(soft_fd(z.c), IPPROTO_TCP, TCP_INFO, &ti, &len), 0);
	return ti.tcpi_snd_mss;
}

/* rcvbuf: of the peer; 0 as it comes. */
static void pair_with(int maxseg, int rcvbuf)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	close(tcp[0]);
	close(tcp[1]);
	if (maxseg)
		assert_int_equal(setsockopt(l, IPPROTO_TCP, TCP_MAXSEG, &maxseg, sizeof(maxseg)), 0);
	assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	tcp[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (rcvbuf)
		assert_int_equal(setsockopt(tcp[0], SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof(rcvbuf)), 0);
	assert_int_equal(connect(tcp[0], (struct sockaddr *)&a, len), 0);
	tcp[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	close(l);
}

/* Markers that the peer asked for are part of the segment, whichever end began; those that we asked for are not. */
static void markers_leave_room(void **state)
{
	for (int k = 0; k < 4; k++) {
		struct iw_mpa_frame f = { .rev = 1, .crc = 1, .markers = k & 1 };
		uint8_t out[IW_MPA_FRAME_MAX];
		struct soft_mpa a;

		conf.markers = !(k & 1);
		pair_with(1448, 0);
		if (k & 2) {
			create();
			soft_mpa_default(&a);
			a.rev = 1;
			soft_set_mpa(z.c, &a);
			assert_int_equal(endpoint_initiate(z.c, NULL, 0), 0);
			f.reply = 1;
		} else {
			respond();
		}
		say(out, (size_t)iw_mpa_encode(&f, out));
		run_until(is_true, &z.established);
		assert_int_equal(soft_param(z.c)->mulpdu, iw_mpa_mulpdu(emss(), k & 1));
		assert_int_not_equal(iw_mpa_mulpdu(emss(), true), iw_mpa_mulpdu(emss(), false));
		again();
	}
}

/* Payload of the Writes in whole FPDUs that were heard. */
static size_t heard_payload(void)
{
	size_t sum = 0, p = 0;

	while (p + 2 <= heard.n && p + iw_mpa_fpdu_len(iw_get16(heard.p + p)) <= heard.n) {
		sum += iw_get16(heard.p + p) - 14u;
		p += iw_mpa_fpdu_len(iw_get16(heard.p + p));
	}
	return sum;
}

static bool whole_write(void *arg)
{
	size_t all = SIZE_MAX;

	return hear_until(&all) || heard_payload() >= 1 << 20;
}

/*
 * LLP-3-01, MPA-5.1-01, MPA-4.5-03, DDP-5.2-01: every ULPDU but the last is exactly MULPDU long. TCP's segments may become longer on the way,
 * as when they were half of the largest window that it had seen; then ULPDUs do, too.
 */
static void ulpdus_fill_the_emss(void **state)
{
	static const int maxseg[] = { 536, 1000, 1448, 9000, 0 };

	for (unsigned int i = 0; i < 5; i++) {
		struct iw_wr wr = { .op = IW_WR_WRITE, .nsge = 1, .rstag = 1, .sge = { { .len = 1 << 20 } } };
		unsigned int mulpdu, longest, len;

		if (maxseg[i])
			pair_with(maxseg[i], 0);
		conf.crc = false;
		respond();
		say_vec("mpa.req.r1");
		hear_vec("mpa.rep.r1");
		say_vec("fpdu.write.zero");
		run_until(is_true, &z.established);
		mulpdu = iw_mpa_mulpdu(emss(), false);
		wr.sge[0].stag = rnic_mr_stag(mr);
		assert_int_equal(endpoint_post_send(z.c, &wr), 0);
		heard.n = 0;
		run_until(whole_write, NULL);
		assert_int_equal(heard_payload(), 1 << 20);
		longest = iw_mpa_mulpdu(emss(), false);
		assert_true(longest == mulpdu || (!maxseg[i] && longest > mulpdu));
		for (size_t p = 0; p + iw_mpa_fpdu_len(iw_get16(heard.p + p)) < heard.n; p += iw_mpa_fpdu_len((uint16_t)len)) {
			len = iw_get16(heard.p + p);
			assert_true(len >= mulpdu && len <= longest);
			mulpdu = len;
		}
		again();
	}
}

/* ---- what TCP makes of it ---- */

/* Loopback as a link of 1500 octets without segmentation offload, so that each packet is one TCP segment. */
static bool plain_link(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_mtu = 1500 };
	static const uint32_t off[] = { ETHTOOL_STSO, ETHTOOL_SGSO };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok = !ioctl(fd, SIOCSIFMTU, &r);

	for (unsigned int i = 0; i < 2; i++) {
		struct ethtool_value v = { .cmd = off[i] };

		r.ifr_data = (void *)&v;
		ioctl(fd, SIOCETHTOOL, &r);
	}
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	ok = ok && !ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
	return ok;
}

struct packets {
	int fd;
	uint16_t from;		/* port, network order */
	uint32_t first;		/* sequence number of the first octet of Full Operation */
	unsigned int all, aligned;
	uint8_t *starts;	/* 1 where an FPDU begins */
	size_t len;
};

/* Segments that the endpoint sent: how many begin where an FPDU begins. */
static void packets_count(struct packets *p)
{
	uint8_t b[65536];
	ssize_t n;

	while ((n = recv(p->fd, b, sizeof(b), MSG_DONTWAIT)) > 0) {
		const struct iphdr *ip = (void *)b;
		const struct tcphdr *th = (void *)(b + ip->ihl * 4);
		uint32_t at, len;

		if (ip->protocol != IPPROTO_TCP || th->source != p->from)
			continue;
		len = ntohs(ip->tot_len) - ip->ihl * 4u - th->doff * 4u;
		at = ntohl(th->seq) - p->first;
		if (!len || at >= p->len)
			continue;
		assert_true(len <= 1460);
		p->all++;
		p->aligned += p->starts[at];
	}
}

/* MPA-5.1-02: segments of a bulk Write begin with an FPDU. The peer's window is large: one that is short cuts segments anywhere. */
static void segments_begin_with_fpdus(void **state)
{
	struct iw_wr wr = { .op = IW_WR_WRITE, .nsge = 1, .rstag = 1, .sge = { { .len = 1 << 20 } } };
	struct sockaddr_in me;
	socklen_t len = sizeof(me);
	struct packets p = { .fd = -1 };
	int big = 64 << 20, nodelay = 0;
	size_t total = 0;

	if (unshare(CLONE_NEWNET) || !plain_link())
		skip();
	again();
	pair_with(0, 16 << 20);
	p.fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
	assert_true(p.fd >= 0);
	setsockopt(p.fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof(big));
	assert_int_equal(getsockname(tcp[1], (struct sockaddr *)&me, &len), 0);
	p.from = me.sin_port;
	up("fpdu.write.zero");
	len = sizeof(nodelay);
	assert_true(!getsockopt(soft_fd(z.c), IPPROTO_TCP, TCP_NODELAY, &nodelay, &len) && nodelay);
	wr.sge[0].stag = rnic_mr_stag(mr);
	p.starts = calloc(1, 2 << 20);
	for (uint32_t left = 1 << 20, m = iw_mpa_mulpdu(emss(), false) - 14u; left; left -= left < m ? left : m) {
		p.starts[total] = 1;
		total += iw_mpa_fpdu_len((uint16_t)(14 + (left < m ? left : m)));
	}
	p.len = total;
	/* the sequence number of the first octet is that of the Reply's last, which is in the capture already */
	for (uint8_t b[2048]; recv(p.fd, b, sizeof(b), MSG_DONTWAIT) > 0;) {
		const struct iphdr *ip = (void *)b;
		const struct tcphdr *th = (void *)(b + ip->ihl * 4);
		uint32_t n = ntohs(ip->tot_len) - ip->ihl * 4u - th->doff * 4u;

		if (ip->protocol == IPPROTO_TCP && th->source == p.from)
			p.first = ntohl(th->seq) + n;
	}
	assert_int_equal(endpoint_post_send(z.c, &wr), 0);
	hear(total);
	packets_count(&p);
	print_message("# %u of %u segments begin with an FPDU\n", p.aligned, p.all);
	assert_true(p.all > 500 && p.aligned * 10 > p.all * 9);
	free(p.starts);
	close(p.fd);
}

/* ---- ends ---- */
/* RDMAP-6.2.1-03: however much the peer still sends, it gets the whole Terminate and then the end of the stream, never a reset. */
static void terminate_survives_input(void **state)
{
	static uint8_t junk[1 << 20];
	size_t sent = 0;

	up("fpdu.write.zero");
	say_vec("neg.qn4");
	while (sent < sizeof(junk)) {
		ssize_t n = send(tcp[0], junk + sent, sizeof(junk) - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		assert_true(n > 0 || errno == EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		run_rounds(2);
	}
	hear_vec("want.qn4");
	hear_end();
	assert_true(heard.eof && !heard.err && !heard.n);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, EPROTO);
	assert_int_equal(z.terms, 1);
}

static bool rest_still;

static void on_still(void *ctx)
{
	rest_still = true;
}

static void rest(void)
{
	assert_int_equal(endpoint_rest(z.c, on_still), 0);
}

static bool over_or_still(void *arg)
{
	return z.closed || rest_still;
}

/* What came before it was still ends it: Terminate, and FIN at once. Who asked it to rest has nothing to resume. */
static void terminate_instead_of_rest(void **state)
{
	const struct vec *good = vec_get("fpdu.write.zero"), *bad = vec_get("neg.qn4");
	uint8_t both[100];

	conf.close_timeout = 600000;
	respond();
	say_vec("mpa.req.r1.c");
	hear_vec("mpa.rep.r1.c");
	z.first = rest;
	rest_still = false;
	memcpy(both, good->p, good->n);
	memcpy(both + good->n, bad->p, bad->n);
	say(both, good->n + bad->n);
	run_until(over_or_still, NULL);
	assert_true(z.closed && !rest_still);
	assert_int_equal(z.terms, 1);
	hear_vec("want.qn4");
	hear_end();
	assert_true(heard.eof && !heard.err && !heard.n);
}

/* RDMAP-5.4-04, -06: a Terminate comes while a hundred posts wait behind a peer that does not read. */
static void terminate_while_stalled(void **state)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .nsge = 1, .sge = { { .len = 1 << 18 } } };
	size_t p = 0;

	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(endpoint_post_send(z.c, &wr), 0);
	run_rounds(50);
	say_vec("term.llp.crc");
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, EPROTO);
	assert_int_equal(z.ok + z.flushed, 104);		/* each exactly once, the four receives too */
	assert_true(z.flushed >= 80);
	hear_end();
	assert_true(heard.eof || heard.err == ECONNRESET);
	if (heard.n < sizeof(heard.p)) {	/* at most the FPDUs that were with TCP already: whole ones, and nothing like 25 MiB */
		while (p + 2 <= heard.n)
			p += iw_mpa_fpdu_len(iw_get16(heard.p + p));
		assert_true(heard.err || p == heard.n);
	}
}

/* With twenty Sends of 1 MiB posted, more than the socket takes. */
static void up_with_sends(void)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .nsge = 1, .sge = { { .len = 1 << 20 } } };

	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(endpoint_post_send(z.c, &wr), 0);
}

static bool all_gone(void *arg)
{
	return !endpoint_count();
}

static bool received(void *arg)
{
	return z.recvs;
}

/* RDMAP-5.5-R18: the peer does not read, so a Read of its own waits for its Response. The Send behind it is delivered all the same. */
static void delivered_while_stalled(void **state)
{
	up_with_sends();
	run_rounds(50);
	assert_true(z.ok < 20);
	say_vec("fpdu.rreq.zero");
	say_vec("fpdu.send.5");
	run_until(received, NULL);
	assert_memory_equal(mem, "hello", 5);
	assert_int_equal(rnic_qp_state(soft_qp(z.c))->stat.tx_rresp, 0);
}

/* A peer that never reads cannot hold a Terminate, and us, for ever (R31). */
static void terminate_never_leaves(void **state)
{
	int small = 4096;

	conf.close_timeout = 100;
	up_with_sends();
	/* or socket buffers might take all that stands before the Terminate */
	assert_int_equal(setsockopt(soft_fd(z.c), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	run_rounds(50);
	say_vec("neg.qn4");
	run_until(is_true, &z.closed);
	assert_int_equal(endpoint_count(), 1);	/* it lingers */
	run_until(all_gone, NULL);
}

/* LLP-3-03: the peer stops reading, then resets: each accepted request completes once. */
static void reset_while_stalled(void **state)
{
	struct linger l = { .l_onoff = 1 };

	up_with_sends();
	run_rounds(50);
	setsockopt(tcp[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(tcp[0]);
	tcp[0] = -1;
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, ECONNRESET);
	assert_int_equal(z.ok + z.flushed, 24);		/* the four receives too */
}

/* And what came ahead of the reset is delivered, also what one read does not take. */
static void reset_behind_octets(void **state)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .nsge = 1, .sge = { { .len = 100 } } };
	struct linger l = { .l_onoff = 1 };
	int much = 8 << 20, left = 1;

	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	assert_int_equal(setsockopt(soft_fd(z.c), SOL_SOCKET, SO_RCVBUFFORCE, &much, sizeof(much)), 0);
	for (size_t n = 0; n < 3 * IW_SOFT_RX / 2; n += vec_get("fpdu.write.zero")->n)
		say_vec("fpdu.write.zero");
	say_vec("fpdu.send.5");
	for (int ms = 0; left && ms < 10000; ms++) {	/* what has not left is lost with it */
		assert_int_equal(ioctl(tcp[0], SIOCOUTQ, &left), 0);
		usleep(1000);
	}
	assert_int_equal(left, 0);
	setsockopt(tcp[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(tcp[0]);
	tcp[0] = -1;
	assert_int_equal(endpoint_post_send(z.c, &wr), 0);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, ECONNRESET);
	assert_int_equal(z.recvs, 1);
	assert_int_equal(z.ok + z.flushed, 5);
}

/* The same when it is we who close and the peer never takes the rest. */
static void close_while_stalled(void **state)
{
	conf.close_timeout = 100;
	up_with_sends();
	endpoint_close(z.c);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, ETIMEDOUT);
	assert_int_equal(z.ok + z.flushed, 24);
}

/* DDP-6.2.1-01: everything accepted arrives, then FIN; what is posted after the close is refused. */
static void close_sends_the_rest(void **state)
{
	struct iw_wr wr = { .op = IW_WR_WRITE, .nsge = 1, .rstag = 1, .sge = { { .len = 1 << 18 } } };
	size_t p = 0;

	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(endpoint_post_send(z.c, &wr), 0);
	endpoint_close(z.c);
	assert_int_equal(endpoint_post_send(z.c, &wr), -ENOTCONN);
	hear_end();
	assert_true(heard.eof && !heard.err);
	for (unsigned int last = 0; p < heard.n || last != 10; p += iw_mpa_fpdu_len(iw_get16(heard.p + p)))
		last += !!(heard.p[p + 2] & 0x40);
	assert_int_equal(p, heard.n);
	shutdown(tcp[0], SHUT_WR);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, 0);
	assert_int_equal(z.ok, 10);
	assert_int_equal(z.flushed, 4);		/* the receives */
}

/* DDP-6.2.1-03: the peer closes its half while 5 MiB are under way to it: they arrive, then our FIN. */
static void peer_closes_its_half(void **state)
{
	struct iw_wr wr = { .op = IW_WR_WRITE, .nsge = 1, .rstag = 1, .sge = { { .len = 1 << 20 } } };
	unsigned int last = 0;

	z.close_on_eof = true;
	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(endpoint_post_send(z.c, &wr), 0);
	shutdown(tcp[0], SHUT_WR);
	hear_end();
	assert_true(heard.eof && !heard.err);
	for (size_t p = 0; p < heard.n; p += iw_mpa_fpdu_len(iw_get16(heard.p + p)))
		last += !!(heard.p[p + 2] & 0x40);
	assert_int_equal(last, 5);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, 0);
	assert_true(z.ok == 5 && z.flushed == 4);
}

/* With ORD 1: a Read, one more, and a Send behind a fence. Only the first Request can leave at once. */
static void post_stalled(void)
{
	struct iw_wr wr = { .op = IW_WR_READ, .nsge = 1, .rstag = 7, .sge = { { .to = 4096, .len = 4 } } };

	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(endpoint_post_send(z.c, &wr), 0);
	wr = (struct iw_wr){ .op = IW_WR_SEND, .flags = IW_WR_FENCE };
	assert_int_equal(endpoint_post_send(z.c, &wr), 0);
}

/* Answers the Read Request that is due. */
static void answer_read(void)
{
	uint8_t f[24] = { 0, 18, 0xc1, 0x42 };
	const uint8_t *q = hear(52);

	assert_int_equal(q[3], 0x41);
	memcpy(f + 4, q + 20, 12);	/* the sink */
	memcpy(f + 16, "data", 4);
	iw_crc32c_put(f + 20, iw_crc32c(0, f, 20));
	say(f, sizeof(f));
}

/* DDP-6.2.1-01: what waits for the Response of a Read is still to be sent when the ULP closes. */
static void close_waits_for_reads(void **state)
{
	conf.max_ord = 1;
	up("fpdu.write.zero");
	post_stalled();
	endpoint_close(z.c);
	answer_read();
	answer_read();
	assert_int_equal(hear(24)[3], 0x43);
	hear_end();
	assert_true(heard.eof && !heard.err && !heard.n);
	shutdown(tcp[0], SHUT_WR);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, 0);
	assert_int_equal(z.ok, 3);
	assert_int_equal(z.flushed, 4);
}

/* LLP-3-03: the peer says FIN instead of the Response: what cannot be done any more completes all the same, and at once. */
static void fin_instead_of_response(void **state)
{
	conf.max_ord = 1;
	up("fpdu.write.zero");
	post_stalled();
	endpoint_close(z.c);
	hear(52);
	shutdown(tcp[0], SHUT_WR);
	hear_end();
	assert_true(heard.eof && !heard.n);
	run_until(is_true, &z.closed);
	assert_int_equal(z.ok, 0);
	assert_int_equal(z.flushed, 7);
}

/* The same guarantee when there never was a stream: what was posted before the Request came, or before the RTR. */
static void startup_fails(void **state)
{
	respond();
	say("GET / HTTP/1.0\r\n", 16);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, EPROTO);
	assert_int_equal(z.flushed, 4);
	assert_true(z.term.layer == 2 && z.term.code == 4);	/* MPA-8-01 */
	hear_end();
	assert_true(!heard.n && heard.err == ECONNRESET);	/* "close" is a reset: docs/rnic.md, MPA-7.1.1-01 */
	again();
	initiate("");
	hear(24);
	say("HTTP/1.0 400 No\r\n\r\n", 19);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, EPROTO);
	assert_true(z.term.layer == 2 && z.term.code == 4);
	hear_end();
	assert_true(!heard.n && heard.err == ECONNRESET);
	again();
	conf.startup_timeout = 2000;	/* a busy machine answers within it */
	respond();
	say_vec("mpa.req.r2.p2p");
	hear(24);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, ETIMEDOUT);
	assert_int_equal(z.flushed, 4);
	hear_end();
	assert_int_equal(heard.err, ECONNRESET);
}

/* DDP-6.2.1-04: our half is closed, messages of the peer are delivered all the same. */
static void half_closed_by_us(void **state)
{
	up("fpdu.write.zero");
	endpoint_close(z.c);
	hear_end();
	assert_true(heard.eof && !heard.n);
	say_vec("fpdu.send.5");
	run_until(got_one, NULL);
	assert_memory_equal(mem, "hello", 5);
	shutdown(tcp[0], SHUT_WR);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, 0);
}

/* What still comes for a ULP that is gone is dropped: its receives have no memory any more, and that is nobody's error. */
static void detached_hears_nothing(void **state)
{
	struct endpoint *c;

	up("fpdu.write.zero");
	c = z.c;
	z.c = NULL;
	rnic_mr_dereg(mr);
	mr = NULL;
	endpoint_detach(c);
	say_vec("fpdu.send.5");
	hear_end();
	assert_true(heard.eof && !heard.n);
	run_rounds(20);
	assert_int_equal(rnic_qp_state(soft_qp(c))->state, IW_QP_RTS);
	shutdown(tcp[0], SHUT_WR);
	run_until(all_gone, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(ulpdus_fill_the_emss), T(markers_leave_room), T(terminate_survives_input), T(terminate_instead_of_rest), T(terminate_while_stalled), T(terminate_never_leaves), T(delivered_while_stalled),
		T(reset_while_stalled), T(reset_behind_octets), T(close_while_stalled), T(close_sends_the_rest), T(half_closed_by_us), T(peer_closes_its_half), T(detached_hears_nothing),
		T(close_waits_for_reads), T(fin_instead_of_response), T(startup_fails),
		T(segments_begin_with_fpdus),	/* last: it goes into a network namespace of its own */
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
