// SPDX-License-Identifier: MIT
/*
 * Socket options of a stream: who answers which. Either the carrier (timeouts, low-water mark), or the library (what TCP would
 * say of this end), or the TCP socket behind the stream by way of the daemon; what nobody can apply is an error.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>

#include "proto/page.h"
#include "proto/reason.h"
#include "daemon.h"
#include "fdtab.h"
#include "lib.h"
#include "map.h"
#include "opts.h"
#include "opts_tcp.h"
#include "paths/rings.h"
#include "path.h"
#include "real.h"
#include "stream.h"
#include "sys.h"
#include "tcpstate.h"
#include "turn.h"
#include "user.h"

enum how {
	FORWARD = 0,	/* the TCP socket; also everything that is not in the table */
	CARRIER,	/* the carrier's own option does the same */
	EMULATED,	/* see get_emulated, set_emulated */
	REFUSED,	/* set: the error below; get: as FORWARD */
};

#define TCP_DEFAULT_LOWAT 0u

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif
#ifndef SOCK_SNDBUF_LOCK
#define SOCK_SNDBUF_LOCK 1
#define SOCK_RCVBUF_LOCK 2
#endif

static const struct rule {
	int level, name;
	uint8_t get, set;
	uint8_t err;
} rules[] = {
	{ SOL_SOCKET, SO_TYPE, CARRIER, FORWARD, 0 },
	{ SOL_SOCKET, SO_ACCEPTCONN, CARRIER, FORWARD, 0 },
	{ SOL_SOCKET, 20 /* SO_RCVTIMEO_OLD */, CARRIER, CARRIER, 0 },
	{ SOL_SOCKET, 21 /* SO_SNDTIMEO_OLD */, CARRIER, CARRIER, 0 },
	{ SOL_SOCKET, 66 /* SO_RCVTIMEO_NEW */, CARRIER, CARRIER, 0 },
	{ SOL_SOCKET, 67 /* SO_SNDTIMEO_NEW */, CARRIER, CARRIER, 0 },
	{ SOL_SOCKET, SO_RCVLOWAT, CARRIER, EMULATED, 0 },
	{ SOL_SOCKET, SO_DOMAIN, EMULATED, FORWARD, 0 },
	{ SOL_SOCKET, SO_PROTOCOL, EMULATED, FORWARD, 0 },
	{ SOL_SOCKET, SO_ERROR, EMULATED, FORWARD, 0 },
	{ SOL_SOCKET, SO_SNDBUF, EMULATED, EMULATED, 0 },
	{ SOL_SOCKET, SO_RCVBUF, EMULATED, EMULATED, 0 },
	{ SOL_SOCKET, SO_LINGER, FORWARD, EMULATED, 0 },
	{ SOL_SOCKET, SO_OOBINLINE, EMULATED, EMULATED, 0 },
	{ SOL_SOCKET, SO_PEEK_OFF, CARRIER, EMULATED, 0 },
	/* time stamps, filters, error queues: they concern segments, which the application no longer has */
	{ SOL_SOCKET, 29 /* SO_TIMESTAMP_OLD */, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, 35 /* SO_TIMESTAMPNS_OLD */, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, 37 /* SO_TIMESTAMPING_OLD */, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, 63 /* SO_TIMESTAMP_NEW */, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, 64 /* SO_TIMESTAMPNS_NEW */, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, 65 /* SO_TIMESTAMPING_NEW */, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, SO_ZEROCOPY, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, SO_ATTACH_FILTER, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, SO_ATTACH_BPF, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, FORWARD, REFUSED, EOPNOTSUPP },
	{ SOL_SOCKET, SO_MARK, FORWARD, REFUSED, EPERM },
	{ IPPROTO_IPV6, IPV6_ADDRFORM, EMULATED, EMULATED, 0 },
	{ IPPROTO_TCP, TCP_NODELAY, EMULATED, EMULATED, 0 },
	{ IPPROTO_TCP, TCP_CORK, EMULATED, EMULATED, 0 },
	{ IPPROTO_TCP, TCP_QUICKACK, EMULATED, EMULATED, 0 },
	{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, EMULATED, EMULATED, 0 },
	{ IPPROTO_TCP, TCP_INFO, EMULATED, FORWARD, 0 },
	/* a kernel without upper layer protocols answers so: programs keep TLS in user space */
	{ IPPROTO_TCP, TCP_ULP, FORWARD, REFUSED, ENOENT },
	{ IPPROTO_TCP, TCP_REPAIR, FORWARD, REFUSED, EPERM },
	{ IPPROTO_TCP, TCP_REPAIR_QUEUE, FORWARD, REFUSED, EPERM },
	{ IPPROTO_TCP, TCP_QUEUE_SEQ, FORWARD, REFUSED, EPERM },
	{ IPPROTO_TCP, TCP_REPAIR_OPTIONS, FORWARD, REFUSED, EPERM },
	{ IPPROTO_TCP, TCP_REPAIR_WINDOW, REFUSED, REFUSED, EPERM },
	{ IPPROTO_TCP, TCP_FASTOPEN_CONNECT, FORWARD, REFUSED, EINVAL },
	{ IPPROTO_TCP, TCP_INQ, FORWARD, REFUSED, ENOPROTOOPT },
	{ IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, REFUSED, REFUSED, ENOPROTOOPT },
	{ IPPROTO_TCP, TCP_MD5SIG, FORWARD, REFUSED, ENOPROTOOPT },
	{ IPPROTO_TCP, TCP_MD5SIG_EXT, FORWARD, REFUSED, ENOPROTOOPT },
};

static const struct rule *rule_of(int level, int name)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].level == level && rules[i].name == name)
			return &rules[i];
	return NULL;
}

/* ---- get ---- */

/* The kernel's way of returning n octets. */
static int put_val(const void *src, socklen_t n, void *val, socklen_t *len)
{
	socklen_t room;

	if (iw_room_in(&room, len))
		return -1;
	if (room > n)
		room = n;
	if (iw_copy_out(val, src, room) || iw_copy_out(len, &room, sizeof(room)))
		return iw_fail(EFAULT);
	return 0;
}

static int put_int(int v, void *val, socklen_t *len)
{
	return put_val(&v, sizeof(v), val, len);
}

/* TCP_INFO of the TCP connection below, with the state of this stream. */
static int get_info(struct iw_stream *s, int fd, void *val, socklen_t *len)
{
	uint8_t info[256];
	socklen_t n = sizeof(info);
	unsigned int st;

	if (iw_opt_get(s, fd, IPPROTO_TCP, TCP_INFO, info, &n) < 0)
		return -1;
	st = iw_tcp_eval(s, iw_path(s)->bits(s, fd, 0));
	if (st & IW_TCP_CLOSE)
		info[0] = 7;	/* TCP_CLOSE */
	else if (st & IW_TCP_FIN)
		info[0] = 8;	/* TCP_CLOSE_WAIT */
	else if (atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_WR)
		info[0] = 5;	/* TCP_FIN_WAIT2 */
	else
		info[0] = 1;	/* TCP_ESTABLISHED */
	return put_val(info, n, val, len);
}

static int get_tcp(struct iw_stream *s, int fd, int name, void *val, socklen_t *len)
{
	struct iw_page_end *me = iw_stream_end(s);
	uint32_t o = atomic_load(&me->opts);

	switch (name) {
	case TCP_NODELAY:
		return put_int(!!(o & IW_SOPT_NODELAY), val, len);
	case TCP_CORK:
		return put_int(!!(o & IW_SOPT_CORK), val, len);
	case TCP_QUICKACK:
		return put_int(!(o & IW_SOPT_NOQUICKACK), val, len);
	case TCP_NOTSENT_LOWAT:
		return put_int((int)(o & IW_SOPT_LOWAT ? atomic_load(&me->notsent_lowat) : TCP_DEFAULT_LOWAT), val, len);
	default:
		return get_info(s, fd, val, len);
	}
}

static bool established(struct iw_stream *s, int fd)
{
	return !iw_tcp_eval(s, iw_path(s)->bits(s, fd, 0)) && !(atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_WR);
}

static int get_addrform(struct iw_stream *s, int fd, void *val, socklen_t *len)
{
	if (s->local.family != AF_INET6)
		return iw_opt_get(s, fd, IPPROTO_IPV6, IPV6_ADDRFORM, val, len);
	return established(s, fd) ? put_int(AF_INET6, val, len) : iw_fail(ENOTCONN);
}

static int get_emulated(struct iw_stream *s, int fd, int level, int name, void *val, socklen_t *len)
{
	struct iw_page_end *me = iw_stream_end(s);
	uint32_t o = atomic_load(&me->opts);

	if (level == IPPROTO_TCP)
		return get_tcp(s, fd, name, val, len);
	if (level == IPPROTO_IPV6)
		return get_addrform(s, fd, val, len);
	switch (name) {
	case SO_DOMAIN:
		return put_int(s->local.family, val, len);
	case SO_PROTOCOL:
		return put_int(IPPROTO_TCP, val, len);
	case SO_ERROR:
		return put_int(iw_take_error(s, fd, iw_path(s)->bits(s, fd, 0)), val, len);
	case SO_OOBINLINE:
		return put_int(!!(o & IW_SOPT_OOBINLINE), val, len);
	default:	/* SO_SNDBUF, SO_RCVBUF */
		if (o & (name == SO_SNDBUF ? IW_SOPT_SNDBUF : IW_SOPT_RCVBUF))
			return iw_real.getsockopt(fd, level, name, val, len);
		return iw_opt_get(s, fd, level, name, val, len);
	}
}

static int stream_get(struct iw_stream *s, int fd, int level, int name, void *val, socklen_t *len)
{
	const struct rule *r = rule_of(level, name);

	switch (r ? r->get : FORWARD) {
	case CARRIER:
		return iw_real.getsockopt(fd, level, name, val, len);
	case EMULATED:
		return get_emulated(s, fd, level, name, val, len);
	case REFUSED:
		return iw_fail(r->err);
	default:
		return iw_opt_get(s, fd, level, name, val, len);
	}
}

/* Pages of the socket mapped into the program: no carrier has any, and nobody can ask afterwards. */
static void asked_tcp(struct iw_candidate *c, int level, int name)
{
	if (level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE)
		iw_candidate_flag(c, IW_CAND_OPTION);
}

static int turn_get(const struct iw_turn *t, int fd, int level, int name, void *val, socklen_t *len)
{
	if (t->s && iw_stream_verify(fd, t->s))
		return stream_get(t->s, fd, level, name, val, len);
	if (t->c)
		asked_tcp(t->c, level, name);
	return iw_real.getsockopt(fd, level, name, val, len);
}

IW_EXPORT int getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct iw_turn t;
	int r;

	if (!iw_turn(&t, fd, IW_TURN_SOCKET))
		return iw_real.getsockopt(fd, level, name, val, len);
	r = turn_get(&t, fd, level, name, val, len);
	iw_turn_end();
	return r;
}

/* ---- set ---- */

static void set_bit(struct iw_page_end *me, uint32_t bit, bool on)
{
	if (on)
		atomic_fetch_or(&me->opts, bit);
	else
		atomic_fetch_and(&me->opts, ~bit);
}

/*
 * {1, 0}: the close will be a reset. The other end of a stream that is LOCAL, or may become so after we have closed, is told in advance; it believes
 * it only once this end is gone, however that happens.
 */
static void note_linger(struct iw_stream *s, bool zero)
{
	struct iw_page_end *other = iw_stream_other(s);
	uint32_t from = zero ? IW_CLOSE_OPEN : IW_CLOSE_RESET;

	set_bit(iw_stream_end(s), IW_SOPT_LINGER0, zero);
	if (zero)
		atomic_fetch_or(&s->sopt, IW_SOPT_LINGER0);
	else
		atomic_fetch_and(&s->sopt, ~IW_SOPT_LINGER0);
	if (!iw_stream_paired(s))
		return;
	if (zero)
		atomic_store(&other->close_errno, ECONNRESET);
	atomic_compare_exchange_strong(&other->close_state, &from, zero ? IW_CLOSE_RESET : IW_CLOSE_OPEN);
}

static int set_linger(struct iw_stream *s, int fd, const void *val, socklen_t len)
{
	struct linger l;

	if (len < sizeof(l))
		return iw_fail(EINVAL);
	if (iw_copy_in(&l, val, sizeof(l)))
		return iw_fail(EFAULT);
	if (iw_opt_set(s, fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)) < 0)
		return -1;
	note_linger(s, l.l_onoff && !l.l_linger);
	return 0;
}

/* The carrier takes the size by the same rules as TCP: doubled, within wmem_max and rmem_max. */
static int set_buffer(struct iw_stream *s, int fd, int name, const void *val, socklen_t len)
{
	int ret = iw_real.setsockopt(fd, SOL_SOCKET, name, val, len);

	if (!ret)
		set_bit(iw_stream_end(s), name == SO_SNDBUF ? IW_SOPT_SNDBUF : IW_SOPT_RCVBUF, true);
	return ret;
}

/* What may wait unsent is what the carrier holds; 0 is no limit. */
static int set_lowat(struct iw_stream *s, int fd, uint32_t v)
{
	struct iw_page_end *me = iw_stream_end(s);
	int now = 0, want = v > 1u << 30 ? 1 << 30 : (int)v;
	socklen_t l = sizeof(now);

	atomic_store(&me->notsent_lowat, v);
	set_bit(me, IW_SOPT_LOWAT, true);
	if (v && !iw_real.getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &now, &l) && want < now / 2)
		iw_real.setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &want, sizeof(want));
	return 0;
}

static int set_peek_off(int fd, const void *val, socklen_t len, int family)
{
	int t = (int)IW_SYS(socket, family, SOCK_STREAM | SOCK_CLOEXEC, 0), ret;

	if (t < 0)
		return iw_real.setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, val, len);
	ret = iw_real.setsockopt(t, SOL_SOCKET, SO_PEEK_OFF, val, len);	/* does this kernel have it on TCP? */
	IW_SYS(close, t);
	return ret ? ret : iw_real.setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, val, len);
}

static int set_tcp(struct iw_stream *s, int fd, int name, int v)
{
	struct iw_page_end *me = iw_stream_end(s);

	switch (name) {
	case TCP_NODELAY:
		set_bit(me, IW_SOPT_NODELAY, v);
		iw_map_gather(s);
		return 0;
	case TCP_CORK:
		set_bit(me, IW_SOPT_CORK, v);
		iw_map_gather(s);
		return 0;
	case TCP_QUICKACK:
		set_bit(me, IW_SOPT_NOQUICKACK, !(v & 1));
		return 0;
	default:
		return set_lowat(s, fd, (uint32_t)v);
	}
}

/* Set of the open file, which may be about to be another one. */
static int set_file(struct iw_stream *s, int fd, int level, int name, const void *val, socklen_t len)
{
	struct iw_step st;
	int ret;

	iw_map_lock_still(s, &st);
	ret = iw_real.setsockopt(fd, level, name, val, len);
	iw_map_unlock(s, &st);
	return ret;
}

/* A v4-mapped connection becomes one of AF_INET. */
static int set_addrform(struct iw_stream *s, int fd, const void *val, socklen_t len)
{
	int v = 0;

	if (s->local.family != AF_INET6)
		return iw_opt_set(s, fd, IPPROTO_IPV6, IPV6_ADDRFORM, val, len);
	if (val && len >= sizeof(v) && iw_copy_in(&v, val, sizeof(v)))
		return iw_fail(EFAULT);
	if (len < sizeof(v) || v != AF_INET)
		return iw_fail(EINVAL);
	if (!established(s, fd))
		return iw_fail(ENOTCONN);
	if (!IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)s->peer.ip))
		return iw_fail(EADDRNOTAVAIL);
	s->local.family = s->peer.family = AF_INET;
	return 0;
}

static int set_emulated(struct iw_stream *s, int fd, int level, int name, const void *val, socklen_t len)
{
	int v;

	if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF))
		return set_buffer(s, fd, name, val, len);
	if (level == IPPROTO_IPV6)
		return set_addrform(s, fd, val, len);
	if (level == SOL_SOCKET && (name == SO_PEEK_OFF || (name == SO_RCVLOWAT && !iw_rings_still(s))))
		iw_map_give(fd, s);
	if (level == SOL_SOCKET && name == SO_PEEK_OFF)
		return set_peek_off(fd, val, len, s->local.family);
	if (len < sizeof(v))
		return iw_fail(EINVAL);
	if (iw_copy_in(&v, val, sizeof(v)))
		return iw_fail(EFAULT);
	if (level == IPPROTO_TCP)
		return set_tcp(s, fd, name, v);
	if (name == SO_LINGER)
		return set_linger(s, fd, val, len);
	if (set_file(s, fd, level, name, val, len) < 0)
		return -1;
	if (name == SO_OOBINLINE)
		set_bit(iw_stream_end(s), IW_SOPT_OOBINLINE, v);
	else
		set_bit(iw_stream_end(s), IW_SOPT_RCVLOWAT, v < 0 || v > 1);
	return 0;
}

/* What TCP too would refuse has TCP's reason. */
static int refuse(struct iw_stream *s, const struct rule *r, const void *val, socklen_t len)
{
	long try = iw_opt_try(s, r->level, r->name, val, len);

	return iw_fail(try == -EFAULT || try == -EINVAL ? (int)-try : r->err);
}

static int stream_set(struct iw_stream *s, int fd, int level, int name, const void *val, socklen_t len)
{
	const struct rule *r = rule_of(level, name);
	int ret;

	switch (r ? r->set : FORWARD) {
	case CARRIER:
		ret = set_file(s, fd, level, name, val, len);
		iw_map_timeouts(fd, s);
		return ret;
	case EMULATED:
		return set_emulated(s, fd, level, name, val, len);
	case REFUSED:
		return refuse(s, r, val, len);
	default:
		return iw_opt_set(s, fd, level, name, val, len);
	}
}

static int turn_set(const struct iw_turn *t, int fd, int level, int name, const void *val, socklen_t len)
{
	int ret;

	if (t->s && iw_stream_verify(fd, t->s))
		return stream_set(t->s, fd, level, name, val, len);
	ret = iw_real.setsockopt(fd, level, name, val, len);
	if (!ret && t->c && level == SOL_SOCKET && name == SO_OOBINLINE && *(const int *)val)
		iw_candidate_flag(t->c, IW_CAND_URGENT);
	return ret;
}

IW_EXPORT int setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct iw_turn t;
	int r;

	if (!iw_turn(&t, fd, IW_TURN_SOCKET))
		return iw_real.setsockopt(fd, level, name, val, len);
	r = turn_set(&t, fd, level, name, val, len);
	iw_turn_end();
	return r;
}

/* ---- at the switch, and back ---- */

static int ask(int fd, int level, int name)
{
	int v = 0;
	socklen_t l = sizeof(v);

	return IW_SYS(getsockopt, fd, level, name, &v, &l) < 0 ? 0 : v;
}

/* A filter, which the kernel tells the length of, or keeps to itself when it is not of the old kind. */
static bool filtered(int tcp)
{
	socklen_t len = 0;
	long r = IW_SYS(getsockopt, tcp, SOL_SOCKET, SO_GET_FILTER, NULL, &len);

	return r < 0 ? r != -ENOPROTOOPT : len;
}

/* Peeking goes on where it ended last. */
static bool peeks(int tcp)
{
	int v = -1;
	socklen_t l = sizeof(v);

	return IW_SYS(getsockopt, tcp, SOL_SOCKET, SO_PEEK_OFF, &v, &l) >= 0 && v >= 0;
}

/* What concerns segments, or the error queue, or a protocol in between: the application would not have it any more. */
static bool needs_tcp(int tcp)
{
	char ulp[16];
	socklen_t n = sizeof(ulp);

	return ask(tcp, SOL_SOCKET, SO_ZEROCOPY) || ask(tcp, SOL_SOCKET, SO_TIMESTAMP) || ask(tcp, SOL_SOCKET, SO_TIMESTAMPNS) ||
	       ask(tcp, SOL_SOCKET, SO_TIMESTAMPING) || ask(tcp, IPPROTO_TCP, TCP_INQ) || ask(tcp, IPPROTO_TCP, TCP_REPAIR) ||
	       (IW_SYS(getsockopt, tcp, IPPROTO_TCP, TCP_ULP, ulp, &n) == 0 && n) || filtered(tcp) || peeks(tcp);
}

enum iw_reason iw_opts_read(int tcp, struct iw_opts *o)
{
	struct linger l = { 0, 0 };
	socklen_t len = sizeof(l);
	int lock = ask(tcp, SOL_SOCKET, SO_BUF_LOCK);

	o->sndbuf = lock & SOCK_SNDBUF_LOCK ? ask(tcp, SOL_SOCKET, SO_SNDBUF) / 2 : 0;
	o->rcvbuf = lock & SOCK_RCVBUF_LOCK ? ask(tcp, SOL_SOCKET, SO_RCVBUF) / 2 : 0;
	o->lowat = ask(tcp, SOL_SOCKET, SO_RCVLOWAT);
	o->notsent_lowat = ask(tcp, IPPROTO_TCP, TCP_NOTSENT_LOWAT);
	o->bits = (ask(tcp, IPPROTO_TCP, TCP_NODELAY) ? IW_SOPT_NODELAY : 0) | (ask(tcp, IPPROTO_TCP, TCP_CORK) ? IW_SOPT_CORK : 0);
	if (IW_SYS(getsockopt, tcp, SOL_SOCKET, SO_LINGER, &l, &len) == 0 && l.l_onoff && !l.l_linger)
		o->bits |= IW_SOPT_LINGER0;
	if (ask(tcp, SOL_SOCKET, SO_OOBINLINE))
		return IW_REASON_URGENT;
	return needs_tcp(tcp) ? IW_REASON_OPTION : IW_REASON_ACCELERATED;
}

static void write_buffer(struct iw_page_end *me, int carrier, int name, int v, uint32_t bit)
{
	if (v > 0 && IW_SYS(setsockopt, carrier, SOL_SOCKET, name, &v, sizeof(v)) == 0)
		set_bit(me, bit, true);
}

void iw_opts_write(struct iw_stream *s, int carrier, const struct iw_opts *o)
{
	struct iw_page_end *me = iw_stream_end(s);

	atomic_fetch_or(&me->opts, o->bits);
	write_buffer(me, carrier, SO_SNDBUF, o->sndbuf, IW_SOPT_SNDBUF);
	write_buffer(me, carrier, SO_RCVBUF, o->rcvbuf, IW_SOPT_RCVBUF);
	if (o->notsent_lowat)
		set_lowat(s, carrier, (uint32_t)o->notsent_lowat);
	if (o->lowat > 1) {
		IW_SYS(setsockopt, carrier, SOL_SOCKET, SO_RCVLOWAT, &o->lowat, sizeof(o->lowat));
		set_bit(me, IW_SOPT_RCVLOWAT, true);
	}
	if (o->bits & IW_SOPT_LINGER0)
		note_linger(s, true);
}

static void put(int fd, int level, int name, int v)
{
	IW_SYS(setsockopt, fd, level, name, &v, sizeof(v));
}

void iw_opts_back(struct iw_stream *s, int carrier, int tcp)
{
	struct iw_page_end *me = iw_stream_end(s);
	uint32_t o = atomic_load(&me->opts);

	put(tcp, IPPROTO_TCP, TCP_NODELAY, !!(o & IW_SOPT_NODELAY));
	put(tcp, IPPROTO_TCP, TCP_CORK, !!(o & IW_SOPT_CORK));
	if (o & IW_SOPT_NOQUICKACK)
		put(tcp, IPPROTO_TCP, TCP_QUICKACK, 0);
	put(tcp, SOL_SOCKET, SO_RCVLOWAT, o & IW_SOPT_RCVLOWAT ? ask(carrier, SOL_SOCKET, SO_RCVLOWAT) : 1);
	if (o & IW_SOPT_LOWAT)
		put(tcp, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)atomic_load(&me->notsent_lowat));
	if (o & IW_SOPT_SNDBUF)
		put(tcp, SOL_SOCKET, SO_SNDBUF, ask(carrier, SOL_SOCKET, SO_SNDBUF) / 2);
	if (o & IW_SOPT_RCVBUF)
		put(tcp, SOL_SOCKET, SO_RCVBUF, ask(carrier, SOL_SOCKET, SO_RCVBUF) / 2);
	if (o & IW_SOPT_OOBINLINE)
		put(tcp, SOL_SOCKET, SO_OOBINLINE, 1);
}
