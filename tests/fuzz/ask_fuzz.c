// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: a live daemon asks, and a hostile one that it has dialled answers: MPA Reply, HELLO's answer and what follows, as it
 * should be or as the input says. Every question ends exactly once, what is asked is well-formed, and nothing is left of the session.
 */
#include "other.h"

#define ASKS 8u

static struct {
	int listener;
	struct peer *peer;
	bool requested;
	uint32_t seq[64];	/* of questions, as they came */
	unsigned int nseq, answered;
	struct sess_ask ask[ASKS];
	bool open[ASKS];
} z;

static void ended(struct sess_ask *q, const struct iw_sm *m, enum iw_reason reason)
{
	size_t i = (size_t)(q - z.ask);

	must(z.open[i] && reason <= IW_REASON_OTHER && (m && m->yes ? !reason : reason));
	z.open[i] = false;
}

static struct iw_addr address(uint16_t port)
{
	return (struct iw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 }, .family = AF_INET, .port = port };
}

/* The first one has the session dialled. */
static void ask(struct input *in, bool first)
{
	uint8_t how = in8(in);
	static const uint8_t types[] = { IW_SM_PROPOSE, IW_SM_HOLD, IW_SM_VOUCH, IW_SM_PROPOSE };
	struct sess_ask *q = &z.ask[how % ASKS];

	if (z.open[how % ASKS]) {
		sess_ask_cancel(q);
		z.open[how % ASKS] = false;
		return;
	}
	memset(q, 0, sizeof(*q));
	q->m = (struct iw_sm){ .type = types[how / 8 % 4], .a = address((uint16_t)(1 + how % 3)), .b = address(7), .nonce = how, .pos = how };
	q->fn = ended;
	z.open[how % ASKS] = true;
	sess_ask(q, how & 0x80 && !first ? SESS_NO_DIAL : 1000);
}

/* ---- what the daemon says ---- */
static void message(const uint8_t *u, size_t n)
{
	struct iw_sm m;

	if ((u[1] & 15) == IW_OP_TERMINATE || u[0] & IW_DDP_T || (u[1] & 15) == IW_OP_READ_REQ)
		return;		/* the last two: its RTR */
	must((u[1] & 15) == IW_OP_SEND && n >= 18 && u[0] & IW_DDP_L);
	must(!iw_sm_decode(&m, u + 18, n - 18, true));
	if (m.type != IW_SM_ACK)
		z.seq[z.nseq++ % 64] = m.seq;
}

static size_t take(const uint8_t *p, size_t n)
{
	struct iw_mpa_frame f;
	size_t wire;
	int k;

	if (!z.requested) {
		k = iw_mpa_decode(&f, p, n, false);
		must(k >= 0);
		z.requested = k > 0;
		return (size_t)k;
	}
	wire = fpdu_whole(p, n);
	if (wire)
		message(p + 2, iw_get16(p));
	return wire;
}

static void hear(void)
{
	hear_all(take);
}

/* ---- what it is told ---- */
static void reply(struct input *in)
{
	uint8_t how = in8(in), out[IW_MPA_FRAME_MAX];
	struct iw_mpa_frame f = startup(in, how);
	int n;

	f.reply = 1;
	if (how & 0x20) {
		f.reject = 1;
		iw_sm_reject_encode(in8(in) % 40, f.pd);
		f.pd_len = IW_SM_REJECT_LEN;
	}
	if (how & 0x10)
		f.rtr_read = 1, f.rtr_write = 0;
	n = iw_mpa_encode(&f, out);
	must(n > 0);
	if (how & 8)
		in_octets(in, out, in8(in) % 32);
	say(out, (size_t)n);
}

static void answer(struct input *in, uint8_t how)
{
	struct iw_sm m = { .type = IW_SM_ANSWER, .yes = !(how & 0x10), .pos = how, .crc = how };

	hear();
	if (z.answered == z.nseq && !(how & 0x40))
		return;
	m.seq = z.answered < z.nseq ? z.seq[z.answered++ % 64] : in8(in);
	if (!m.yes)
		m.reason = in8(in) % (IW_REASON_MAX + 2);
	else if (how & 0x20)
		m.flags = in8(in) & 3;
	post_msg(&m);
}

static void notice(struct input *in, uint8_t how)
{
	post_msg(&(struct iw_sm){ .type = how & 0x10 ? IW_SM_ACK : IW_SM_GOODBYE, .seq = in8(in) });
}

static void step(struct input *in, uint8_t op)
{
	switch (op % 8) {
	case 0: case 1:
		answer(in, op);
		break;
	case 2:
		notice(in, in8(in));
		break;
	case 3:
		ask(in, false);
		break;
	case 4:
		any_send(in);
		break;
	case 5:
		any_fpdu(in);
		break;
	case 6:
		if (in8(in) == 0)
			shutdown(other.s, SHUT_WR);
		break;
	default:
		rounds(1 + in8(in) % 4);
	}
	rounds(op & 0x80 ? 3 : 1);
	hear();
}

/* A session that was up is dialled again when it is lost: not here. */
static bool quiet(void)
{
	timer_stop(&z.peer->redial);
	z.peer->redials = 0;
	return list_empty(&z.peer->out) && no_sessions();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (!size || size > 2048)
		return 0;
	daemon_once();
	memset(&z, 0, sizeof(z));
	z.listener = tcp_listen(&conf.control_port);
	z.peer = peer_get(address(80).ip, 0);	/* the daemon of 127.0.0.1 is the other one here */
	must(z.peer && list_empty(&z.peer->out));
	peer_set(z.peer, IW_PEER_UNKNOWN, 0, 0);
	ask(&in, true);
	rounds(3);
	other_new(accept4(z.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
	for (int i = 0; other.s >= 0 && i < 100 && !z.requested; i++) {
		rounds(1);
		hear();
	}
	reply(&in);
	rounds(4);
	while (in.n)
		step(&in, in8(&in));
	if (other.s >= 0)
		close(other.s);
	close(z.listener);
	for (unsigned int i = 0; i < ASKS; i++) {
		if (z.open[i])
			sess_ask_cancel(&z.ask[i]);
		z.open[i] = false;
	}
	until_quiet(quiet);
	must(!rnic_mr_count());
	return 0;
}
