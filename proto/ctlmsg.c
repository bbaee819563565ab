// SPDX-License-Identifier: MIT
/* Table and complete check of the messages between library and daemon. */
#include "ctlmsg.h"

#include <errno.h>
#include <string.h>

#include "reason.h"

#define TO_LIB		1u	/* sent by the daemon */

static const struct ctl_type {
	const char *name;
	uint16_t size;
	uint8_t from_daemon;
	uint8_t nfds;			/* with result 0, where there is a result */
} types[] = {
	[IW_CTL_HELLO] = { "HELLO", sizeof(struct iw_ctl_hello), 0, 0 },
	[IW_CTL_PROPOSE] = { "PROPOSE", sizeof(struct iw_ctl_propose), 0, 0 },
	[IW_CTL_PLAIN] = { "PLAIN", sizeof(struct iw_ctl_conn), 0, 0 },
	[IW_CTL_CLOSED] = { "CLOSED", sizeof(struct iw_ctl_id), 0, 0 },
	[IW_CTL_SWITCH] = { "SWITCH", sizeof(struct iw_ctl_id), 0, 1 },
	[IW_CTL_SWITCHED] = { "SWITCHED", sizeof(struct iw_ctl_id), 0, 0 },
	[IW_CTL_ABANDON] = { "ABANDON", sizeof(struct iw_ctl_id), 0, 0 },
	[IW_CTL_BACK] = { "BACK", sizeof(struct iw_ctl_id), 0, 0 },
	[IW_CTL_MAP] = { "MAP", sizeof(struct iw_ctl_id), 0, 0 },
	[IW_CTL_UNMAP] = { "UNMAP", sizeof(struct iw_ctl_id), 0, 0 },
	[IW_CTL_OPEN] = { "OPEN", sizeof(struct iw_ctl_fdmsg), 0, 1 },
	[IW_CTL_GETSOCKOPT] = { "GETSOCKOPT", sizeof(struct iw_ctl_opt), 0, 0 },
	[IW_CTL_SETSOCKOPT] = { "SETSOCKOPT", sizeof(struct iw_ctl_opt), 0, 0 },
	[IW_CTL_SYNC] = { "SYNC", sizeof(struct iw_ctl_hdr), 0, 0 },
	[IW_CTL_REST] = { "REST", sizeof(struct iw_ctl_fdmsg), 0, 1 },
	[IW_CTL_DIRECT] = { "DIRECT", sizeof(struct iw_ctl_fdmsg), 0, 1 },
	[IW_CTL_BELL] = { "BELL", sizeof(struct iw_ctl_id), 0, 0 },
	[IW_CTL_HELLO_ACK] = { "HELLO_ACK", sizeof(struct iw_ctl_hello_ack), TO_LIB, 2 },
	[IW_CTL_ACK] = { "ACK", sizeof(struct iw_ctl_ack), TO_LIB, 0 },
	[IW_CTL_STREAM] = { "STREAM", sizeof(struct iw_ctl_stream), TO_LIB, 2 },
	[IW_CTL_OPT] = { "OPT", sizeof(struct iw_ctl_opt), TO_LIB, 0 },
	[IW_CTL_TCP] = { "TCP", sizeof(struct iw_ctl_tcp), TO_LIB, 1 },
	[IW_CTL_MAPPED] = { "MAPPED", sizeof(struct iw_ctl_mapped), TO_LIB, 2 },
};

static const struct ctl_type *find(unsigned int type)
{
	if (type >= sizeof(types) / sizeof(types[0]) || !types[type].name)
		return NULL;
	return &types[type];
}

size_t iw_ctl_size(unsigned int type)
{
	const struct ctl_type *t = find(type);

	return t ? t->size : 0;
}

const char *iw_ctl_name(unsigned int type)
{
	const struct ctl_type *t = find(type);

	return t ? t->name : "unknown";
}

void iw_ctl_init(void *msg, enum iw_ctl_type type, uint32_t seq)
{
	struct iw_ctl_hdr h = {
		.magic = IW_CTL_MAGIC,
		.version = IW_CTL_VERSION,
		.type = (uint16_t)type,
		.len = (uint32_t)iw_ctl_size(type),
		.seq = seq,
	};

	memset(msg, 0, h.len);
	memcpy(msg, &h, sizeof(h));
}

static int check_addr(const struct iw_addr *a)
{
	if (a->family == AF_INET)
		return iw_ip_v4(a->ip) ? 0 : -EPROTO;
	return a->family == AF_INET6 ? 0 : -EPROTO;
}

/* In PLAIN an address may be unknown (all zero): the socket may have none any more. */
static int check_name(const struct iw_addr *a)
{
	static const struct iw_addr none;

	return memcmp(a, &none, sizeof(none)) ? check_addr(a) : 0;
}

static int check_propose(const struct iw_ctl_propose *m)
{
	if (!m->conn_id || m->slot >= IW_GO_SLOTS || m->flags & ~IW_CONN_CLIENT || m->gain > IW_GAIN_NONE || !m->local.port || !m->peer.port)
		return -EPROTO;
	return check_addr(&m->local) || check_addr(&m->peer) ? -EPROTO : 0;
}

static int check_plain(const struct iw_ctl_conn *m)
{
	if (!m->conn_id || m->flags & ~(IW_CONN_CLIENT | IW_CONN_FOR_NOW))
		return -EPROTO;
	if (m->reason == IW_REASON_ACCELERATED || m->reason > IW_REASON_OTHER)
		return -EPROTO;
	return check_name(&m->local) || check_name(&m->peer) ? -EPROTO : 0;
}

static int check_result(int32_t result, uint32_t reason)
{
	if (result < 0 || result > 1 || reason > IW_REASON_OTHER)
		return -EPROTO;
	return 0;
}

static int check_stream(const struct iw_ctl_stream *m)
{
	if (check_result(m->result, m->reason))
		return -EPROTO;
	if (m->end > 1 || m->flags & ~(uint32_t)(IW_PAGE_LOCAL | IW_PAGE_NEAR))
		return -EPROTO;
	if (m->result)
		return 0;
	if (!m->stream_id || m->size < IW_PAGE_SIZE)
		return -EPROTO;
	return check_addr(&m->local) || check_addr(&m->peer) ? -EPROTO : 0;
}

static int check_mapped(const struct iw_ctl_mapped *m)
{
	if (check_result(m->result, m->reason))
		return -EPROTO;
	return m->result || (m->stream_id && m->size >= IW_PAGE_SIZE) ? 0 : -EPROTO;
}

static int check_opt(const struct iw_ctl_opt *m)
{
	if (m->end > 1 || m->optlen > IW_CTL_OPTMAX)
		return -EPROTO;
	if (m->h.type == IW_CTL_OPT)
		return m->error < 0 || m->error > 4095 ? -EPROTO : 0;
	return m->error ? -EPROTO : 0;
}

static int check_body(const void *msg)
{
	const struct iw_ctl_hdr *h = msg;

	switch (h->type) {
	case IW_CTL_HELLO:
		return memchr(((const struct iw_ctl_hello *)msg)->program, 0, 64) ? 0 : -EPROTO;
	case IW_CTL_PROPOSE:
		return check_propose(msg);
	case IW_CTL_PLAIN:
		return check_plain(msg);
	case IW_CTL_ABANDON:
		return ((const struct iw_ctl_id *)msg)->reason <= IW_REASON_OTHER ? 0 : -EPROTO;
	case IW_CTL_GETSOCKOPT:
	case IW_CTL_SETSOCKOPT:
	case IW_CTL_OPT:
		return check_opt(msg);
	case IW_CTL_HELLO_ACK: {
		int32_t result = ((const struct iw_ctl_hello_ack *)msg)->result;

		return result >= 0 && result <= IW_REASON_OTHER ? 0 : -EPROTO;
	}
	case IW_CTL_ACK:
		return check_result(((const struct iw_ctl_ack *)msg)->result, ((const struct iw_ctl_ack *)msg)->reason);
	case IW_CTL_STREAM:
		return check_stream(msg);
	case IW_CTL_TCP:
		return check_result(((const struct iw_ctl_tcp *)msg)->result, ((const struct iw_ctl_tcp *)msg)->reason);
	case IW_CTL_MAPPED:
		return check_mapped(msg);
	default:	/* CLOSED, SWITCH, SWITCHED, BACK, MAP, UNMAP, OPEN: any value can be meant */
		return 0;
	}
}

/* How many fds must have come with this (otherwise correct) message: 1 when n is right. */
static int fds_ok(const struct ctl_type *t, const void *msg, unsigned int n)
{
	const struct iw_ctl_hdr *h = msg;

	switch (h->type) {
	case IW_CTL_HELLO_ACK:
		return n == (((const struct iw_ctl_hello_ack *)msg)->result ? 0 : t->nfds);
	case IW_CTL_STREAM:	/* the answer to OPEN has the segment only: the library has the carrier */
		if (((const struct iw_ctl_stream *)msg)->result)
			return n == 0;
		return n == 1 || n == t->nfds;
	case IW_CTL_TCP:
		return n == (((const struct iw_ctl_tcp *)msg)->result ? 0 : t->nfds);
	case IW_CTL_MAPPED:
		return n == (((const struct iw_ctl_mapped *)msg)->result ? 0 : t->nfds);
	default:
		return n == t->nfds;
	}
}

int iw_ctl_check(const void *msg, size_t len, unsigned int nfds, int from_library)
{
	union {		/* the caller's buffer need not be aligned */
		struct iw_ctl_hdr h;
		struct iw_ctl_opt opt;
		uint8_t octets[IW_CTL_MAX];
	} m;
	const struct ctl_type *t;

	if (len < sizeof(m.h) || len > sizeof(m))
		return -EPROTO;
	memcpy(&m, msg, len);
	if (m.h.magic != IW_CTL_MAGIC)
		return -EPROTO;
	if (m.h.version != IW_CTL_VERSION)
		return -EPROTONOSUPPORT;
	t = find(m.h.type);
	if (!t || t->from_daemon == (from_library ? TO_LIB : 0))
		return -EPROTO;
	if (m.h.len != len || len != t->size)
		return -EPROTO;
	if (check_body(&m))
		return -EPROTO;
	return fds_ok(t, &m, nfds) ? 0 : -EPROTO;
}
