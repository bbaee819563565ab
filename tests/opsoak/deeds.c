// SPDX-License-Identifier: MIT
/* What a program does to a connection besides: options, flags, duplicates; and the choice of these and of handing it on. */
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "opsoak.h"

void set_nonblock(struct hold *h, bool on, bool by_ioctl)
{
	int one = on, fl = fcntl(h->fd, F_GETFL), r;

	if (fl < 0 || !(fl & O_NONBLOCK) != !h->nonblock || (fl & O_ACCMODE) != O_RDWR)
		hfail(h, "F_GETFL says %#x, O_NONBLOCK should be %d", fl, h->nonblock);
	if (by_ioctl)
		r = ioctl(h->fd, FIONBIO, &one);
	else
		r = fcntl(h->fd, F_SETFL, on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK);
	note(h, by_ioctl ? OP_fionbio : OP_fcntl_nonblock, on, r, r ? errno : 0, h->e->rpos);
	if (r)
		hfail(h, "O_NONBLOCK: %s", strerror(errno));
	h->nonblock = on;
}

static void timeo(struct hold *h)
{
	int *ms[] = { &h->rtimeo, &h->stimeo }, k = (int)below(&h->e->cr, 2);
	int v = *ms[k] ? 0 : 20 + (int)below(&h->e->cr, 200);
	struct timeval t = { v / 1000, v % 1000 * 1000 };
	int r = setsockopt(h->fd, SOL_SOCKET, k ? SO_SNDTIMEO : SO_RCVTIMEO, &t, sizeof(t));

	note(h, OP_timeo, v, r, r ? errno : 0, h->e->rpos);
	if (r)
		hfail(h, "SO_xTIMEO: %s", strerror(errno));
	*ms[k] = v;
}

static void so_error(struct hold *h)
{
	int err;
	socklen_t n = sizeof(err);

	if (getsockopt(h->fd, SOL_SOCKET, SO_ERROR, &err, &n))
		hfail(h, "SO_ERROR: %s", strerror(errno));
	if (err)
		lost(h, OP_option, err);
}

/* Set to what is then read back. */
static void option(struct hold *h)
{
	static const struct { int level, name, most; } opts[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 }, { SOL_SOCKET, SO_KEEPALIVE, 1 }, { IPPROTO_TCP, TCP_QUICKACK, 1 }, { IPPROTO_TCP, TCP_KEEPIDLE, 100 },
		{ SOL_SOCKET, SO_PRIORITY, 6 }, { IPPROTO_IP, IP_TOS, 0 },
	};
	uint32_t i = below(&h->e->cr, sizeof(opts) / sizeof(*opts) + 1);
	int v, got, r;
	socklen_t n = sizeof(got);

	if (i == sizeof(opts) / sizeof(*opts)) {
		so_error(h);
		return;
	}
	v = opts[i].most > 1 ? 1 + (int)below(&h->e->cr, (uint32_t)opts[i].most) : opts[i].most ? (int)below(&h->e->cr, 2) : 0x10;
	r = setsockopt(h->fd, opts[i].level, opts[i].name, &v, sizeof(v));
	note(h, OP_option, opts[i].level << 16 | opts[i].name, r, r ? errno : 0, h->e->rpos);
	if (!r)
		r = getsockopt(h->fd, opts[i].level, opts[i].name, &got, &n);
	/* with its daemon gone, others answer */
	if (h->s->epoch & 1 || h->s->epoch != shm->epoch)
		return;
	if (r)
		hfail(h, "option %d/%d: %s", opts[i].level, opts[i].name, strerror(errno));
	if (got != v && opts[i].name != TCP_QUICKACK && !(opts[i].most == 1 && got))
		hfail(h, "option %d/%d was set to %d and is %d", opts[i].level, opts[i].name, v, got);
}

static void names(struct hold *h)
{
	struct sockaddr_in a, b;
	socklen_t n = sizeof(a), m = sizeof(b);
	int r = getsockname(h->fd, (struct sockaddr *)&a, &n), q = getpeername(h->fd, (struct sockaddr *)&b, &m), ty;
	int port = ntohs(h->me ? b.sin_port : a.sin_port);

	note(h, OP_names, r, q, q ? errno : 0, h->e->rpos);
	if (q && errno == ENOTCONN && (h->s->may || (h->e->fin && h->peer->fin)))
		return;
	if (r || q || a.sin_family != AF_INET || b.sin_family != AF_INET || port != h->s->port)
		hfail(h, "names: %d %d, families %d %d, port %d where it is %d", r, q, a.sin_family, b.sin_family, port, h->s->port);
	n = sizeof(ty);
	if (getsockopt(h->fd, SOL_SOCKET, SO_DOMAIN, &ty, &n) || ty != AF_INET)
		hfail(h, "SO_DOMAIN is %d", ty);
}

static void fionread(struct hold *h)
{
	int n = -1, r = ioctl(h->fd, FIONREAD, &n);

	note(h, OP_fionread, n, r, r ? errno : 0, h->e->rpos);
	if (r || n < 0 || h->e->rpos + (uint64_t)n > h->peer->wsaid)
		hfail(h, "FIONREAD: %d, %d; at %" PRIu64 " of %" PRIu64, r, n, (uint64_t)h->e->rpos, (uint64_t)h->peer->wsaid);
}

/* The end gets another number, in one of the ways there are, and the old one is closed. A kept set of epoll has the old one. */
void move_fd(struct hold *h, enum op how)
{
	int fd, over = -1;

	if (how == OP_dup2 || how == OP_dup3)
		over = open("/dev/null", O_RDONLY | O_CLOEXEC);
	switch (how) {
	case OP_dup:
		fd = dup(h->fd);
		break;
	case OP_dupfd:
		fd = fcntl(h->fd, F_DUPFD, 10 + (int)below(&h->e->cr, 200));
		break;
	case OP_dupfd_cloexec:
		fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 10);
		break;
	case OP_dup2:
		fd = dup2(h->fd, over);
		break;
	default:
		fd = dup3(h->fd, over, O_CLOEXEC);
	}
	note(h, how, over, fd, fd < 0 ? errno : 0, h->e->rpos);
	if (fd < 0 || (over >= 0 && fd != over))
		hfail(h, "duplicated: %d, %s", fd, strerror(errno));
	wait_forget(h);
	loop_del(h);
	close(h->fd);
	h->fd = fd;
	h->e->fd = fd;
	if (h == loop_now)
		loop_add(h);
}

static const enum op moves[] = { OP_dup, OP_dupfd, OP_dupfd_cloexec, OP_dup2, OP_dup3 };
static const enum op hands[] = { OP_fork, OP_fork_back, OP_fork_exec, OP_spawn, OP_exec, OP_pass, OP_pass, OP_give_thread };

/* What was settled when the step began. */
void deed(struct hold *h)
{
	int d = h->e->deed;

	static const enum op others[] = { OP_option, OP_names, OP_fionread, OP_timeo, OP_fcntl_nonblock };

	h->e->deed = -1;
	if (d >= 400 && shm->without[d % 8 < 5 ? others[d % 8] : moves[d % 5]])
		return;
	if (d < 400 && h->e->temper) {
		hand(h, hands[d % 8]);
		return;
	}
	switch (d % 8) {
	case 0:
		option(h);
		break;
	case 1:
		names(h);
		break;
	case 2:
		fionread(h);
		break;
	case 3:
		timeo(h);
		break;
	case 4:
		set_nonblock(h, h == loop_now ? true : !h->nonblock, d & 8);
		break;
	default:
		move_fd(h, moves[d % 5]);
	}
}
