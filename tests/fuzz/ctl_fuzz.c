// SPDX-License-Identifier: MIT
/*
 * libFuzzer: libraries that talk to a live daemon. The input is a program: who connects, what is said with which descriptors,
 * what happens to the sockets meanwhile. Afterwards nothing may be left: clients, streams, registrations, sockets.
 */
#include "daemon.h"

#include <sys/mman.h>

#define LIBS	3u
#define PAIRS	3u
#define STREAMS	6u

struct lib {
	int s;
	uint32_t seq;
};

static struct {
	struct lib lib[LIBS];
	int listener;
	uint16_t port;
	int pair[PAIRS][2];
	uint64_t id[STREAMS];
	uint32_t end[STREAMS];
	int carrier[STREAMS];
	unsigned int nstreams;
} z;

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void heard(const uint8_t *buf, int fds[2])
{
	struct iw_ctl_stream m;
	unsigned int i = z.nstreams % STREAMS;

	memcpy(&m, buf, sizeof(m.h));
	if (m.h.type == IW_CTL_STREAM) {
		memcpy(&m, buf, sizeof(m));
		if (!m.result) {
			z.nstreams++;
			shut(&z.carrier[i]);
			z.id[i] = m.stream_id;
			z.end[i] = m.end;
			z.carrier[i] = fds[1] >= 0 ? fds[0] : -1;
			if (fds[1] >= 0)
				fds[0] = -1;
		}
	}
	shut(&fds[0]);
	shut(&fds[1]);
}

static void hear(void)
{
	uint8_t buf[IW_CTL_MAX];
	int fds[2];

	for (unsigned int i = 0; i < LIBS; i++)
		while (z.lib[i].s >= 0 && ctl_hear(z.lib[i].s, buf, fds) >= 0)
			heard(buf, fds);
}

static void tell(struct lib *l, void *msg, size_t len, int fd)
{
	uint32_t seq = ++l->seq;

	memcpy((uint8_t *)msg + offsetof(struct iw_ctl_hdr, seq), &seq, sizeof(seq));
	if (l->s >= 0)
		ctl_tell(l->s, msg, len, &fd, fd >= 0);
}

static void hello(struct lib *l)
{
	struct iw_ctl_hello m;

	shut(&l->s);
	l->s = ctl_connect();
	iw_ctl_init(&m, IW_CTL_HELLO, 0);
	strcpy(m.program, "ctl_fuzz");
	tell(l, &m, sizeof(m), -1);
	rounds(2);
}

static int pair_end(unsigned int i, unsigned int end)
{
	if (z.pair[i][0] < 0) {
		shut(&z.pair[i][1]);
		z.pair[i][0] = tcp_connect(z.port);
		z.pair[i][1] = accept4(z.listener, NULL, NULL, SOCK_CLOEXEC);
	}
	return z.pair[i][end];
}

/* A descriptor of some kind: of the right one more often than not. The caller closes what is new. */
static int some_fd(struct input *in, bool *fresh)
{
	uint8_t how = in8(in);
	int p[2];

	*fresh = false;
	switch (how % 8) {
	case 0:
		return -1;
	case 1: case 2: case 3:
		return pair_end(how / 8 % PAIRS, how / 64 % 2);
	case 4:
		return z.listener;
	case 5:
		return z.carrier[how / 8 % STREAMS];
	case 6:
		*fresh = true;
		must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p));
		close(p[0]);
		return p[1];
	default:
		*fresh = true;
		return memfd_create("x", MFD_CLOEXEC);
	}
}

/* A message of a type with a correct header; the body as it comes. */
static void any_message(struct input *in, struct lib *l)
{
	_Alignas(8) uint8_t m[IW_CTL_MAX];
	unsigned int type = in8(in) % 14 + 1;
	size_t len = iw_ctl_size(type);
	bool fresh;
	int fd = some_fd(in, &fresh);

	if (len) {
		iw_ctl_init(m, type, 0);
		in_octets(in, m + sizeof(struct iw_ctl_hdr), in8(in) % (len - sizeof(struct iw_ctl_hdr) + 1));
		tell(l, m, len, fd);
	}
	if (fresh)
		close(fd);
}

static void raw_message(struct input *in, struct lib *l)
{
	uint8_t m[700];
	size_t n = in16(in) % sizeof(m);

	in_octets(in, m, n);
	if (l->s >= 0)
		ctl_tell(l->s, m, n, NULL, 0);
}

static void names(int fd, struct iw_ctl_propose *m)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &m->cookie, &(socklen_t){ sizeof(m->cookie) });
	getsockopt(fd, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &m->netns, &(socklen_t){ sizeof(m->netns) });
	if (!getsockname(fd, (void *)&sa, &len))
		iw_addr_from_sockaddr(&m->local, (void *)&sa, len);
	len = sizeof(sa);
	if (!getpeername(fd, (void *)&sa, &len))
		iw_addr_from_sockaddr(&m->peer, (void *)&sa, len);
}

/* conn_id and slot of an end: what is proposed of it is asked for again by SWITCH. */
static uint64_t name_of(unsigned int pair, unsigned int end)
{
	return 1 + pair * 2 + end;
}

static void propose(struct input *in, struct lib *l)
{
	struct iw_ctl_propose m;
	uint8_t how = in8(in);
	unsigned int pair = how % PAIRS, end = how / 4 % 2;

	iw_ctl_init(&m, IW_CTL_PROPOSE, 0);
	m.conn_id = name_of(pair, end);
	m.slot = (uint32_t)m.conn_id;
	m.flags = end ? 0 : IW_CONN_CLIENT;
	m.fd = 7;
	names(pair_end(pair, end), &m);
	if (how & 0x80)
		m.cookie += in8(in);
	if (how & 0x40)
		m.slot = (uint32_t)in16(in) * 4;
	tell(l, &m, sizeof(m), -1);
	rounds(1 + how / 32 % 2);
}

static void switches(struct input *in, struct lib *l)
{
	struct iw_ctl_id m;
	uint8_t how = in8(in);
	unsigned int pair = how % PAIRS, end = how / 4 % 2;

	iw_ctl_init(&m, IW_CTL_SWITCH, 0);
	m.id = name_of(pair, end);
	tell(l, &m, sizeof(m), pair_end(how & 0x80 ? in8(in) % PAIRS : pair, end));
	rounds(1 + how / 64);
	hear();
}

static void plain(struct input *in, struct lib *l)
{
	struct iw_ctl_conn m;
	uint8_t how = in8(in);

	iw_ctl_init(&m, IW_CTL_PLAIN, 0);
	m.conn_id = name_of(how % PAIRS, how / 4 % 2);
	m.reason = 1 + how / 16;
	m.flags = how & 8 ? IW_CONN_FOR_NOW : 0;
	tell(l, &m, sizeof(m), -1);
}

static void by_id(struct input *in, struct lib *l, enum iw_ctl_type type)
{
	struct iw_ctl_id m;

	iw_ctl_init(&m, type, 0);
	m.id = type == IW_CTL_CLOSED ? in8(in) : z.id[in8(in) % STREAMS];
	tell(l, &m, sizeof(m), -1);
}

static void option(struct input *in, struct lib *l)
{
	struct iw_ctl_opt m;
	uint8_t how = in8(in);
	unsigned int i = in8(in) % STREAMS;

	iw_ctl_init(&m, how & 1 ? IW_CTL_GETSOCKOPT : IW_CTL_SETSOCKOPT, 0);
	m.stream_id = z.id[i];
	m.end = z.end[i];
	m.level = how & 2 ? IPPROTO_TCP : SOL_SOCKET;
	m.optname = in8(in);
	m.optlen = how >> 4;
	in_octets(in, m.val, 8);
	tell(l, &m, sizeof(m), -1);
}

static void fd_message(struct lib *l, enum iw_ctl_type type, int fd)
{
	struct iw_ctl_fdmsg m;

	iw_ctl_init(&m, type, 0);
	m.fd = fd;
	tell(l, &m, sizeof(m), fd);
}

static void octets(struct input *in)
{
	uint8_t how = in8(in), buf[256];
	int fd = how & 1 ? z.carrier[how / 2 % STREAMS] : z.pair[how / 2 % PAIRS][how / 64 % 2];

	if (fd < 0)
		return;
	in_octets(in, buf, how);
	if (how & 8)
		recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	else if (how & 16)
		shutdown(fd, how & 32 ? SHUT_WR : SHUT_RDWR);
	else
		send(fd, buf, how, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void step(struct input *in, uint8_t op)
{
	struct lib *l = &z.lib[op / 16 % LIBS];
	uint8_t how;

	switch (op % 16) {
	case 0:
		hello(l);
		break;
	case 1:
		shut(&l->s);
		l->s = ctl_connect();
		break;
	case 2: case 3:
		any_message(in, l);
		break;
	case 4:
		raw_message(in, l);
		break;
	case 5:
		shut(&l->s);
		break;
	case 6:
		plain(in, l);
		break;
	case 7:
		propose(in, l);
		break;
	case 8:
		switches(in, l);
		break;
	case 9:
		by_id(in, l, in8(in) & 1 ? IW_CTL_SWITCHED : IW_CTL_ABANDON);
		break;
	case 10:
		by_id(in, l, (const enum iw_ctl_type[]){ IW_CTL_BACK, IW_CTL_CLOSED, IW_CTL_MAP, IW_CTL_UNMAP }[in8(in) & 3]);
		break;
	case 11:
		fd_message(l, IW_CTL_OPEN, z.carrier[in8(in) % STREAMS]);
		break;
	case 12:
		option(in, l);
		break;
	case 13:
		octets(in);
		break;
	case 14:
		how = in8(in);
		if (how & 1)
			shut(&z.carrier[how / 2 % STREAMS]);
		else
			shut(&z.pair[how / 2 % PAIRS][how / 64 % 2]);
		break;
	default:
		rounds(1 + in8(in) % 4);
	}
}

static unsigned int sockets;

/* A local pair is in the applications' hands: it ends when their carriers do. */
static bool quiet(void)
{
	return !client_count() && !stream_count() && (!sockets || open_sockets() <= sockets);
}

static void end(void)
{
	for (unsigned int i = 0; i < LIBS; i++)
		shut(&z.lib[i].s);
	for (unsigned int i = 0; i < PAIRS; i++) {
		shut(&z.pair[i][0]);
		shut(&z.pair[i][1]);
	}
	for (unsigned int i = 0; i < STREAMS; i++)
		shut(&z.carrier[i]);
	shut(&z.listener);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (size > 2048)
		return 0;
	daemon_once();
	memset(&z, 0, sizeof(z));
	for (unsigned int i = 0; i < LIBS; i++)
		z.lib[i].s = -1;
	for (unsigned int i = 0; i < PAIRS; i++)
		z.pair[i][0] = z.pair[i][1] = -1;
	for (unsigned int i = 0; i < STREAMS; i++)
		z.carrier[i] = -1;
	z.listener = tcp_listen(&z.port);
	hello(&z.lib[0]);
	for (unsigned int n = 0; in.n && n < 100; n++) {
		step(&in, in8(&in));
		if (n % 4 == 3) {
			rounds(1);
			hear();
		}
	}
	rounds(2);
	hear();
	end();
	until_quiet(quiet);
	must(!rnic_mr_count());
	sockets = open_sockets();
	return 0;
}
