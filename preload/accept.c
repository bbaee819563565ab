// SPDX-License-Identifier: MIT
/*
 * accept(): connections are claimed when the peer may be one of ours. The kernel's accept always comes first; a claim that fails
 * leaves the accepted TCP socket as it is.
 */
#include <string.h>

#include "proto/ctlmsg.h"
#include "proto/page.h"
#include "proto/reason.h"
#include "conf.h"
#include "daemon.h"
#include "fdtab.h"
#include "init.h"
#include "internal.h"
#include "lib.h"
#include "listener.h"
#include "opts.h"
#include "peers.h"
#include "plain.h"
#include "proc.h"
#include "real.h"
#include "stream.h"
#include "swap.h"
#include "sys.h"

IW_EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len);
IW_EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

/* The carrier and the stream of a claimed connection. carrier -1: plain; known: the daemon keeps conn_id as a plain connection. */
static struct iw_stream *claim(int fd, uint64_t cookie, uint32_t conn_id, int *carrier, bool *known)
{
	struct iw_ctl_conn m;
	struct iw_ctl_stream r;
	struct iw_stream *s;
	int fds[2], ret;

	iw_ctl_init(&m, IW_CTL_CLAIM, 0);
	m.conn_id = conn_id;
	m.listener = cookie;
	m.fd = fd;
	ret = iw_daemon_ask(&m, fd, &r, sizeof(r), fds);
	if (ret == -ECONNRESET) {	/* its octets may be MPA from here on: nobody must take them for the client's */
		struct sockaddr none = { .sa_family = AF_UNSPEC };

		IW_SYS(connect, fd, &none, sizeof(none));
	}
	if (ret)
		return NULL;
	*known = true;
	if (r.result)
		return NULL;
	s = fds[1] >= 0 ? iw_stream_new(&r, fds[1], fds[0], conn_id) : NULL;
	/* Without a page (no memory) the carrier is used all the same: MPA is under way, the connection cannot be plain any more. */
	*carrier = fds[0];
	return s;
}

/* false: not asked, it stays plain. */
static bool accepted_claim(int fd, uint64_t cookie, int flags, enum iw_reason *why)
{
	uint32_t conn_id = iw_daemon_conn_id();
	bool known = false;
	struct iw_flags f;
	struct iw_opts o;
	struct iw_stream *s;
	int carrier = -1;

	iw_flags_read(fd, &f);	/* before the daemon has the socket: it changes them for its own use */
	*why = iw_opts_read(fd, &o);
	if (*why == IW_REASON_ACCELERATED && !iw_fd_room(fd))
		*why = IW_REASON_RESOURCES;
	if (*why != IW_REASON_ACCELERATED)
		return false;
	s = claim(fd, cookie, conn_id, &carrier, &known);
	/* the daemon may have taken O_NONBLOCK off the open file that it shares with us */
	if (flags & SOCK_NONBLOCK)
		IW_SYS(fcntl, carrier < 0 ? fd : carrier, F_SETFL, O_NONBLOCK);
	if (carrier < 0) {
		iw_plain_set(fd, known ? conn_id : 0);
		return true;
	}
	if (s) {
		iw_opts_write(s, carrier, &o);
		atomic_store(&s->connect_told, 1);
	}
	iw_flags_write(carrier, &f);
	if (IW_SYS(dup3, carrier, fd, flags & SOCK_CLOEXEC ? O_CLOEXEC : 0) >= 0)
		iw_word_set(fd, s ? iw_stream_word(s) : IW_OTHER_SEEN);
	else if (s)
		iw_stream_put(s, true);
	IW_SYS(close, carrier);
	return true;
}

/* A connection was accepted: what is it going to be? Its fd is new, nobody else knows the number yet. */
static void accepted(struct iw_listener *l, uint64_t cookie, int fd, int flags)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct iw_addr peer, local;
	enum iw_reason why = 0;

	iw_plain_set(fd, 0);
	if (IW_SYS(getpeername, fd, &ss, &len) < 0 || !iw_addr_from_sockaddr(&peer, (struct sockaddr *)&ss, len))
		return;
	if (l->policy_tcp) {
		why = IW_REASON_POLICY;
	} else if (iw_conf_listen_by_address()) {
		len = sizeof(ss);
		if (IW_SYS(getsockname, fd, &ss, &len) >= 0 && iw_addr_from_sockaddr(&local, (struct sockaddr *)&ss, len) &&
		    !iw_conf_allows(IW_VERB_LISTEN, &local))
			why = IW_REASON_POLICY;
	}
	if (!why && l->refused)
		why = l->refused;
	if (!why) {
		switch (iw_peer_lookup(&peer, &why)) {
		case IW_PEER_POSITIVE:
		case IW_PEER_LOCAL:
			if (accepted_claim(fd, cookie, flags, &why))
				return;
			break;
		default:
			break;
		}
	}
	iw_plain_set(fd, iw_plain_tell(fd, false, &peer, why));
}

/* addr and len go to the kernel untouched, so that their errors are the kernel's; the peer's name is asked separately. */
static int accept_any(int fd, struct sockaddr *addr, socklen_t *len, int flags, bool four)
{
	uint32_t w = iw_word(fd);
	struct iw_listener *l = iw_listener_of(w);
	uint64_t cookie = 0;
	int saved = errno, n;

	if (atomic_load(&iw_on) && (unsigned int)fd < IW_FD_MAX) {
		iw_init();
		if (!l && (iw_word_unseen(w) || iw_word_kind(w) == IW_FD_TCP))
			l = iw_listener_look_at(fd, w);
		if (l) {
			iw_listener_register(l, fd);
			cookie = l->cookie;
		}
		errno = saved;
	}
	n = four ? iw_real.accept4(fd, addr, len, flags) : iw_real.accept(fd, addr, len);
	if (n < 0 || (unsigned int)n >= IW_FD_MAX || (!l && !iw_word(n)))
		return n;
	saved = errno;
	if (iw_word(n))		/* the fd that had this number was closed behind our back */
		iw_fd_forget(n);
	if (l && !iw_in_vfork() && iw_listener_of(iw_word(fd)) == l) {
		/* another process may have registered it with a daemon that came back: the client may wait for our claim */
		if (atomic_load(&l->ctl_gen))
			iw_daemon_retry();
		iw_listener_register(l, fd);
		cookie = l->cookie;
	}
	if (l && iw_daemon_up() && !iw_in_vfork())
		accepted(l, cookie, n, flags);
	else if (l && !iw_word(n))
		iw_plain_set(n, 0);
	errno = saved;
	return n;
}

int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept_any(fd, addr, len, 0, false);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return accept_any(fd, addr, len, flags, true);
}
