/* SPDX-License-Identifier: MIT */
/*
 * connect(): the kernel's own connect on the application's own socket, around it the agreement with the daemon.
 *
 * From just before the kernel's connect until the decision the fd is CONNECTING. Its entry is PENDING while the connecting
 * thread is at work, then OFFERED when the connect goes on without it and the carrier waits for the TCP handshake. What
 * is guaranteed: nobody who asks us learns that the connection exists before it was decided what carries it; the decision
 * is taken once; and an fd is swapped only when no call of ours sleeps on the old file (poll and select count themselves;
 * a sleeping epoll_wait is fine, its registration moves along). Calls that bypass us (raw system calls, io_uring) on a
 * connecting socket of this process are not seen; a thread that sleeps in recv() on a blocking socket which another thread
 * is just connecting gives the offer up first (iw_connecting_data).
 */
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>

#include "proto/ctlmsg.h"
#include "proto/page.h"
#include "proto/reason.h"
#include "adopt.h"
#include "conf.h"
#include "connect.h"
#include "connecting.h"
#include "daemon.h"
#include "fdtab.h"
#include "internal.h"
#include "kinds.h"
#include "lib.h"
#include "lock.h"
#include "peers.h"
#include "plain.h"
#include "proc.h"
#include "real.h"
#include "stream.h"
#include "swap.h"
#include "sys.h"
#include "tcp.h"
#include "user.h"

IW_EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len);

/* Should this connection be accelerated? Nothing has happened yet; PREPARE is the only thing that may wait. */
static bool wanted(uint32_t w, const struct iw_addr *dst, enum iw_reason *why)
{
	struct iw_ctl_prepare m;
	struct iw_ctl_ack r;

	*why = iw_tcp_reason(w);
	if (!*why && iw_tcp_forked(w))
		*why = IW_REASON_FD_SHARED;
	if (!*why && !iw_conf_allows(IW_VERB_CONNECT, dst))
		*why = IW_REASON_POLICY;
	if (!iw_daemon_ready())
		*why = IW_REASON_NO_DAEMON;
	if (*why)
		return false;
	switch (iw_peer_lookup(dst, why)) {
	case IW_PEER_NEGATIVE:
		return false;
	case IW_PEER_UNKNOWN:
		iw_ctl_init(&m, IW_CTL_PREPARE, 0);
		m.dst = *dst;
		if (iw_daemon_ask(&m, -1, &r, sizeof(r), NULL)) {
			*why = IW_REASON_DAEMON_GONE;
			return false;
		}
		*why = (enum iw_reason)r.reason;
		return r.result == 0;
	default:
		return true;
	}
}

/* Ask for a stream. NULL: plain, *why says the reason, *known that the daemon keeps conn_id as a plain connection. */
static struct iw_stream *offer(int fd, const struct iw_addr *dst, uint32_t conn_id, bool established, int *carrier,
			       enum iw_reason *why, bool *known)
{
	struct iw_ctl_conn m;
	struct iw_ctl_stream r;
	struct iw_stream *s;
	int fds[2];

	*known = false;
	*why = IW_REASON_RESOURCES;
	if (!iw_fd_room(fd))
		return NULL;
	iw_ctl_init(&m, IW_CTL_OFFER, 0);
	m.conn_id = conn_id;
	m.peer = *dst;
	m.flags = IW_CONN_CLIENT | (established ? IW_CONN_ESTABLISHED : 0);
	m.fd = fd;
	if (iw_daemon_ask(&m, fd, &r, sizeof(r), fds)) {
		*why = IW_REASON_DAEMON_GONE;
		return NULL;
	}
	*known = true;
	*why = (enum iw_reason)r.reason;
	if (r.result)
		return NULL;
	s = fds[0] >= 0 && fds[1] >= 0 ? iw_stream_new(&r, fds[1], fds[0], conn_id) : NULL;
	if (!s) {
		if (fds[0] >= 0)
			IW_SYS(close, fds[0]);
		iw_daemon_tell_id(IW_CTL_ABANDON, r.stream_id, IW_REASON_RESOURCES, fd);
		iw_daemon_sync();
		return NULL;
	}
	*carrier = fds[0];
	return s;
}

struct attempt {
	struct iw_connecting *c;
	_Atomic uint32_t *intent;
};

static void attempt_undo(void *arg)
{
	struct attempt *a = arg;

	iw_intent_lower(a->intent);
	iw_connecting_undo(a->c);
}

static int connect_offered(int fd, const struct iw_addr *dst, struct attempt *a, bool established)
{
	uint32_t conn_id = iw_daemon_conn_id();
	enum iw_reason why;
	struct iw_stream *s;
	int carrier = -1;
	bool known;

	s = offer(fd, dst, conn_id, established, &carrier, &why, &known);
	if (!s)
		iw_connecting_plain(a->c, known ? conn_id : 0);
	else
		iw_connecting_offered(a->c, s, carrier, established);
	iw_intent_lower(a->intent);
	return 0;
}

static int connect_wanted(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len, const struct iw_addr *dst)
{
	struct attempt a = { .c = iw_connecting_begin(fd, w) };
	int ret, err;

	if (!a.c)
		return iw_real.connect(fd, addr, len);
	a.intent = iw_intent_raise(dst);
	pthread_cleanup_push(attempt_undo, &a);
	ret = iw_real.connect(fd, addr, len);
	pthread_cleanup_pop(0);
	err = errno;
	if (ret == 0 || err == EINPROGRESS || err == EINTR)
		connect_offered(fd, dst, &a, ret == 0);
	else
		attempt_undo(&a);
	errno = err;
	return ret;
}

static int connect_plain(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len, const struct iw_addr *dst, enum iw_reason why)
{
	int ret = iw_real.connect(fd, addr, len), err = errno;

	if (ret == 0 || err == EINPROGRESS || err == EINTR) {
		uint32_t id = why == IW_REASON_NO_DAEMON ? 0 : iw_plain_tell(fd, true, dst, why);

		iw_word_cas(fd, w, id ? iw_word_make(IW_FD_PLAIN, id) : IW_OTHER_SEEN);
	}
	errno = err;
	return ret;
}

int iw_connect_tcp(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_in6 a = { 0 };	/* the largest that matters */
	struct iw_addr dst;
	enum iw_reason why;
	int saved = errno;
	bool go;

	/* what the kernel cannot read it shall refuse */
	if (iw_copy_in(&a, addr, len < sizeof(a) ? len : sizeof(a)))
		return iw_real.connect(fd, addr, len);

	/* AF_UNSPEC, another family, port 0 and addresses that mean "this host" are the kernel's business */
	if (!iw_addr_from_sockaddr(&dst, (struct sockaddr *)&a, len) || !dst.port || iw_in_vfork())
		return iw_real.connect(fd, addr, len);
	go = wanted(w, &dst, &why);
	errno = saved;
	if (!go)
		return connect_plain(fd, w, addr, len, &dst, why);
	return connect_wanted(fd, w, addr, len, &dst);
}

/*
 * connect(AF_UNSPEC) dissolves a connection and leaves a fresh socket. The carrier goes, as by close, and a new TCP socket takes its
 * place; a port the application had bound is not bound again.
 */
static int disconnect(int fd, struct iw_stream *s)
{
	int family = s->local.family == AF_INET6 ? AF_INET6 : AF_INET;
	long t = IW_SYS(socket, family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t sigs;
	int r;

	if (t < 0)
		return (int)iw_ret(t);
	sigs = iw_lock(&iw_tab_lock);
	r = iw_swap(fd, (int)t);
	if (!r)
		iw_word_set(fd, iw_tcp_word(iw_tcp_new_serial(), 0));
	iw_unlock(&iw_tab_lock, sigs);
	IW_SYS(close, t);
	if (!r)
		iw_stream_put(s, true);
	return (int)iw_ret(r);
}

int iw_connect_stream(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len)
{
	struct iw_stream *s = iw_stream_of(fd);
	sa_family_t family;

	if (!s || !iw_stream_verify(fd, s))
		return iw_real.connect(fd, addr, len);
	if (len > sizeof(struct sockaddr_storage))
		return iw_fail(EINVAL);
	if (!iw_user_readable(addr, len))
		return iw_fail(EFAULT);
	if (len < sizeof(family))
		return iw_fail(EINVAL);
	memcpy(&family, &addr->sa_family, sizeof(family));
	if (family == AF_UNSPEC)
		return disconnect(fd, s);
	/* the first call after a non-blocking connect has completed tells of the success, as the kernel does */
	return atomic_exchange(&s->connect_told, 1) ? iw_fail(EISCONN) : 0;
}

int iw_connect_again(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len)
{
	struct iw_stream *s;
	int ret, err;

	if (iw_connecting_settle(fd) == IW_FD_STREAM)
		return iw_connect_stream(fd, w, addr, len);
	ret = iw_real.connect(fd, addr, len);
	err = errno;
	if (ret == 0 && iw_connecting_settle(fd) == IW_FD_STREAM) {
		s = iw_stream_of(fd);
		if (s)
			atomic_store(&s->connect_told, 1);
	}
	errno = err;
	return ret;
}

/* A carrier that came by exec or SCM_RIGHTS? */
int iw_connect_other(int fd, uint32_t w, const struct sockaddr *addr, socklen_t len)
{
	return iw_adopt(fd) == IW_FD_STREAM ? iw_connect_stream(fd, w, addr, len) : iw_real.connect(fd, addr, len);
}

/* LISTENER goes to the original: EISCONN, or AF_UNSPEC ends the listening. */
int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return iw_kind_connect(fd, addr, len);
}
