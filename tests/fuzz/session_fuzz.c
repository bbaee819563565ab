// SPDX-License-Identifier: MIT
/*
 * libFuzzer: messages between daemons. First the codec by itself, both directions; then a hostile daemon that dials a live one: MPA, HELLO
 * and questions as they should be, or as the input says. Every answer must be well-formed, and the session must end without a trace.
 */
#include "daemon/session/sess.h"
#include "other.h"

static struct {
	int lib, listener, c, s, carrier;
	uint64_t stream;
	uint16_t port, own, far;	/* of the listener, of the session, of the connection to the listener */
	bool replied, rejected;
	unsigned int answers;
} z;

/* ---- the codec ---- */
static void codec(const uint8_t *p, size_t n)
{
	uint8_t out[IW_SM_MAX];
	struct iw_sm m;

	for (int dialler = 0; dialler < 2; dialler++) {
		if (iw_sm_decode(&m, p, n, dialler))
			continue;
		must(iw_sm_encode(&m, out) == (int)n && !memcmp(out, p, n));
		must(iw_sm_decode(&m, p, n, !dialler));		/* one direction only */
	}
}

/* ---- what the daemon says ---- */
static void message(const uint8_t *u, size_t n)
{
	struct iw_sm m;

	if ((u[1] & 15) == IW_OP_TERMINATE)
		return;
	must((u[1] & 15) == IW_OP_SEND && n >= 18 && u[0] & IW_DDP_L);
	must(!iw_sm_decode(&m, u + 18, n - 18, false));
	z.answers += m.type == IW_SM_ANSWER;
	must(z.answers <= other.posted);
}

static size_t take(const uint8_t *p, size_t n)
{
	struct iw_mpa_frame f;
	size_t wire;
	int k;

	if (!z.replied) {
		k = iw_mpa_decode(&f, p, n, true);
		must(k >= 0);
		z.replied = k > 0;
		z.rejected = k > 0 && f.reject;
		return (size_t)k;
	}
	must(!z.rejected || !n);
	wire = fpdu_whole(p, n);
	if (wire)
		message(p + 2, iw_get16(p));
	return wire;
}

static void hear(void)
{
	hear_all(take);
}

/* ---- what the other daemon says ---- */
static void request(struct input *in)
{
	uint8_t how = in8(in), out[IW_MPA_FRAME_MAX];
	struct iw_mpa_frame f = startup(in, how);
	int n;

	if (how & 0x20)
		f.rtr_read = 1, f.rtr_write = 0;
	n = iw_mpa_encode(&f, out);
	must(n > 0);
	say(out, (size_t)n);
	rounds(4);
	hear();
	if (!(how & 1))
		fpdu((uint8_t[64]){ [2] = 0xc1, [3] = 0x40 }, 14);
	if (!(how & 2))
		post_msg(&(struct iw_sm){ .type = IW_SM_HELLO, .seq = 1, .generation = GENERATION });
	rounds(2);
}

static struct iw_addr address(struct input *in)
{
	struct iw_addr a = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 }, .family = AF_INET };
	uint8_t how = in8(in);

	a.port = how & 1 ? z.port : how & 2 ? z.own : how & 4 ? z.far : (uint16_t)in16(in);
	if (how & 0x80)
		a.ip[15] = in8(in);
	if (how & 0x40)
		in_octets(in, a.ip, 16);
	return a;
}

static void question(struct input *in)
{
	static const uint8_t types[] = { IW_SM_PROPOSE, IW_SM_HOLD, IW_SM_PING, IW_SM_HELLO, IW_SM_ACK, IW_SM_ANSWER, IW_SM_GOODBYE, IW_SM_VOUCH };
	struct iw_sm m = { .type = types[in8(in) % 8], .seq = in8(in) };

	m.a = address(in);
	m.b = address(in);
	m.generation = GENERATION;
	if (in8(in) == 1) {
		m.yes = in8(in) & 1;
		m.flags = in8(in) & 3;
		m.reason = in8(in) & 63;
		m.nonce = in8(in) & 3;
		m.pos = in8(in);
	}
	post_msg(&m);
}

/* As if the daemon of that address, which here is the one under test, had said that this session is its own. */
static void vouched(void)
{
	static const uint8_t ip[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };
	struct peer *p = peer_find(ip);

	if (!p)
		return;
	list_each(n, nxt, &p->in) {
		struct sess *s = list_entry(n, struct sess, node);

		if (s->state == SESS_DEAD)
			continue;
		s->vouched = true;
		list_del(&s->strangers);
	}
}

static void heard(const uint8_t *buf, int fds[2])
{
	struct iw_ctl_stream m;

	memcpy(&m, buf, sizeof(m.h));
	if (m.h.type != IW_CTL_STREAM)
		return;
	memcpy(&m, buf, sizeof(m));
	if (m.result || z.carrier >= 0)
		return;
	z.stream = m.stream_id;
	z.carrier = fds[0];
	fds[0] = -1;
}

static struct iw_ctl_propose proposal(uint8_t how)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);
	struct iw_ctl_propose m;

	iw_ctl_init(&m, IW_CTL_PROPOSE, 1);
	m.conn_id = 1 + how % 2;
	getsockopt(z.s, SOL_SOCKET, SO_COOKIE, &m.cookie, &(socklen_t){ sizeof(m.cookie) });
	getsockopt(z.s, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &m.netns, &(socklen_t){ sizeof(m.netns) });
	getsockname(z.s, (void *)&sa, &len);
	iw_addr_from_sockaddr(&m.local, (void *)&sa, len);
	getpeername(z.s, (void *)&sa, &len);
	iw_addr_from_sockaddr(&m.peer, (void *)&sa, len);
	m.flags = how & 4 ? IW_CONN_CLIENT : 0;
	return m;
}

/* A program here proposes its end of a connection between the two addresses, and switches it when it may. */
static void library(struct input *in)
{
	static const enum iw_ctl_type types[] = { IW_CTL_SWITCH, IW_CTL_SWITCHED, IW_CTL_ABANDON, IW_CTL_BACK, IW_CTL_CLOSED };
	struct iw_ctl_propose p;
	struct iw_ctl_id m;
	uint8_t buf[IW_CTL_MAX], how = in8(in), k = how % 6;
	int fds[2];

	if (k == 5) {
		p = proposal(how / 6);
		ctl_tell(z.lib, &p, sizeof(p), NULL, 0);
	} else {
		iw_ctl_init(&m, types[k], 1);
		m.id = types[k] == IW_CTL_SWITCH || types[k] == IW_CTL_CLOSED ? 1u + how / 6 % 2 : z.stream;
		ctl_tell(z.lib, &m, sizeof(m), &z.s, types[k] == IW_CTL_SWITCH);
	}
	rounds(2);
	while (ctl_hear(z.lib, buf, fds) >= 0) {
		heard(buf, fds);
		for (int i = 0; i < 2; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	}
}

static void step(struct input *in, uint8_t op)
{
	switch (op % 8) {
	case 0: case 1:
		question(in);
		break;
	case 2:
		any_send(in);
		break;
	case 3:
		any_fpdu(in);
		break;
	case 4:
		library(in);
		break;
	case 5:
		if (in8(in) == 0)
			shutdown(other.s, SHUT_WR);
		else
			vouched();
		break;
	case 6:
		say(in->p, in->n < 16 ? in->n : 16);
		break;
	default:
		rounds(1 + in8(in) % 4);
	}
	if (op & 0x80) {
		rounds(1);
		hear();
	}
}

static void hello_library(void)
{
	struct iw_ctl_hello m;
	uint8_t buf[IW_CTL_MAX];
	int fds[2];

	z.lib = ctl_connect();
	iw_ctl_init(&m, IW_CTL_HELLO, 1);
	strcpy(m.program, "session_fuzz");
	ctl_tell(z.lib, &m, sizeof(m), NULL, 0);
	for (int i = 0; ctl_hear(z.lib, buf, fds) < 0; i++) {
		must(i < 1000);
		rounds(1);
	}
	close(fds[0]);
	close(fds[1]);
}

static bool nothing_left(void)
{
	return no_sessions() && !stream_count();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct sockaddr_in me;
	socklen_t len = sizeof(me);

	if (size > 2048)
		return 0;
	codec(data, size);
	if (!size || data[0] & 1)
		return 0;
	daemon_once();
	memset(&z, 0, sizeof(z));
	z.listener = tcp_listen(&z.port);
	z.c = tcp_connect(z.port);
	z.s = accept4(z.listener, NULL, NULL, SOCK_CLOEXEC);
	z.carrier = -1;
	hello_library();
	other_new(tcp_connect(conf.control_port));
	must(!getsockname(other.s, (void *)&me, &len));
	z.own = ntohs(me.sin_port);
	len = sizeof(me);
	must(!getsockname(z.c, (void *)&me, &len));
	z.far = ntohs(me.sin_port);
	rounds(2);
	in8(&in);
	request(&in);
	while (in.n)
		step(&in, in8(&in));
	rounds(3);
	hear();
	close(other.s);
	close(z.lib);
	close(z.listener);
	close(z.c);
	close(z.s);
	if (z.carrier >= 0)
		close(z.carrier);
	until_quiet(nothing_left);
	must(!rnic_mr_count());
	return 0;
}
