/* SPDX-License-Identifier: MIT */
/*
 * Servers: listening sockets are registered with the daemon, accepted connections are claimed when the peer may be one of
 * ours. The kernel's accept always comes first; a claim that fails leaves the accepted TCP socket as it is.
 */
#include <string.h>

#include "core.h"

#define LISTENERS	4096u

IW_EXPORT int listen(int fd, int backlog);
IW_EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len);
IW_EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

struct listener {
	uint32_t refs;		/* fds of this process; 0: free */
	uint32_t next;		/* free list: index + 1 */
	int fd;			/* one of them, for registering again */
	bool policy_tcp;	/* never registered */
	enum iw_reason refused;	/* the daemon did not want it */
	uint64_t cookie;
	uint32_t forks;		/* iw_forks when it was made: children made since may hold it */
	_Atomic uint64_t ctl_gen;	/* connection that knows it */
};

static struct listener listeners[LISTENERS];
static uint32_t free_list, used;

static struct listener *listener_of(uint32_t w)
{
	return iw_word_kind(w) == IW_FD_LISTENER && iw_word_val(w) < LISTENERS ? &listeners[iw_word_val(w)] : NULL;
}

/* A listening TCP socket that has no entry yet. The word that was there (TCP or nothing) is replaced. */
static struct listener *listener_new(int fd, uint32_t w)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct listener *l = NULL;

	if (free_list)
		l = &listeners[free_list - 1];
	else if (used < LISTENERS)
		l = &listeners[used];
	if (l && w == iw_word(fd)) {
		if (free_list)
			free_list = l->next;
		else
			used++;
		memset(l, 0, sizeof(*l));
		l->refs = 1;
		l->fd = fd;
		l->forks = atomic_load(&iw_forks);
		iw_word_set(fd, iw_word_make(IW_FD_LISTENER, (uint32_t)(l - listeners)));
		iw_reg_drop_fd(fd);
	} else {
		l = NULL;
	}
	iw_unlock(&iw_tab_lock, sigs);
	return l;
}

void iw_listener_get(uint32_t idx)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	listeners[idx].refs++;
	iw_unlock(&iw_tab_lock, sigs);
}

void iw_listener_put(uint32_t idx)
{
	uint64_t sigs = iw_lock(&iw_tab_lock), cookie = 0;
	struct listener *l = &listeners[idx];

	if (l->refs && --l->refs == 0) {
		/* a child may go on with it and will register it by itself: the daemon forgets ours when we end */
		if (atomic_load(&l->ctl_gen) == iw_ctl_gen() && l->forks == atomic_load(&iw_forks))
			cookie = l->cookie;
		l->next = free_list;
		free_list = idx + 1;
	}
	iw_unlock(&iw_tab_lock, sigs);
	if (cookie)
		iw_tell_id(IW_CTL_UNLISTEN, cookie, 0, -1);
}

static bool policy_tcp(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct iw_addr a;

	return IW_SYS(getsockname, fd, &ss, &len) >= 0 && iw_addr_from(&a, (struct sockaddr *)&ss, len) &&
	       !iw_policy_allows(IW_VERB_LISTEN, &a);
}

static void took(struct listener *l, const struct iw_ctl_ack *r)
{
	l->refused = r->result ? (enum iw_reason)r->reason : 0;
	l->cookie = r->id;
	atomic_store(&l->ctl_gen, iw_ctl_gen());
}

/* Make sure that the daemon knows the listener, from this process. Once per connection to the daemon. */
static void listener_register(struct listener *l, int fd)
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_ack r;
	uint64_t gen;

	/* a listener that stays plain needs the daemon too: its connections are told there, with the reason */
	if (!iw_ctl_ready() || l->policy_tcp)
		return;
	gen = iw_ctl_gen();
	if (atomic_load(&l->ctl_gen) == gen)
		return;
	iw_ctl_init(&m, IW_CTL_LISTEN, 0);
	m.fd = fd;
	if (!iw_rpc(&m, fd, &r, sizeof(r), NULL) && gen == iw_ctl_gen())
		took(l, &r);
}

/* A new connection to the daemon: it gets all listeners, before anything else is asked. Under the lock of the connection. */
void iw_listeners_register(int (*rpc)(void *msg, int fd, void *reply, size_t size))
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_ack r;

	for (uint32_t i = 0; i < used; i++) {
		struct listener *l = &listeners[i];
		int fd = l->fd;

		if (!l->refs || l->policy_tcp || listener_of(iw_word(fd)) != l || !iw_is_tcp(fd))
			continue;
		iw_ctl_init(&m, IW_CTL_LISTEN, 0);
		m.fd = fd;
		if (rpc(&m, fd, &r, sizeof(r)))
			return;
		took(l, &r);
	}
}

static bool unseen(uint32_t w)
{
	return iw_word_kind(w) == IW_FD_OTHER && w != IW_OTHER_SEEN;
}

/* First accept on an fd that we did not see listening: inherited from systemd, inetd or a parent. */
static struct listener *look_at(int fd, uint32_t w)
{
	int on = 0;
	socklen_t len = sizeof(on);
	struct listener *l;

	if (iw_in_vfork())
		return NULL;
	if (IW_SYS(getsockopt, fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) < 0)
		return NULL;
	if (!on || !iw_is_tcp(fd)) {
		if (iw_word_kind(w) == IW_FD_OTHER)
			iw_word_cas(fd, w, IW_OTHER_SEEN);
		return NULL;
	}
	l = listener_new(fd, w);
	if (l)
		l->policy_tcp = policy_tcp(fd);
	return l;
}

/*
 * A forked child has listeners that its parent registered, and may wait on them before it accepts: they are registered when
 * the child first waits for anything, so that not even its first connection is plain. The same for sockets that
 * systemd passed on.
 */
_Atomic uint32_t iw_listeners_pending;
static int activated;		/* LISTEN_FDS: 3 to 2 + n */

void iw_listeners_activated(int n)
{
	activated = n;
	atomic_store(&iw_listeners_pending, n > 0);
}

void iw_listeners_forked_child(void)
{
	atomic_store(&iw_listeners_pending, used || activated);
}

void iw_listeners_look(void)
{
	int saved = errno, n = activated;
	uint64_t gen;

	if (iw_in_vfork() || !atomic_exchange(&iw_listeners_pending, 0))
		return;
	for (int fd = 3; fd < 3 + n; fd++)
		if (unseen(iw_word(fd)))
			look_at(fd, iw_word(fd));
	for (uint32_t i = 0; i < used; i++) {
		int fd = listeners[i].fd;

		gen = iw_ctl_gen();
		if (listeners[i].refs && listener_of(iw_word(fd)) == &listeners[i])
			listener_register(&listeners[i], fd);
		if (gen != iw_ctl_gen())
			break;		/* a new connection: all were registered */
	}
	errno = saved;
}

int listen(int fd, int backlog)
{
	int ret = iw_real.listen(fd, backlog), saved = errno;
	uint32_t w = iw_word(fd);
	struct listener *l;

	if (ret || !atomic_load(&iw_on) || (unsigned int)fd >= IW_FD_MAX)
		return ret;
	iw_init();
	if (iw_word_kind(w) != IW_FD_TCP && (iw_word_kind(w) != IW_FD_OTHER || !iw_is_tcp(fd)))
		goto out;	/* a second listen() changes the backlog only */
	if (iw_in_vfork())
		goto out;
	l = listener_new(fd, w);
	if (!l)
		goto out;
	l->policy_tcp = policy_tcp(fd);
	listener_register(l, fd);
out:
	errno = saved;
	return ret;
}

/* ---- accept ---- */

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
	ret = iw_rpc(&m, fd, &r, sizeof(r), fds);
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
	uint32_t conn_id = iw_conn_id_new();
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
		iw_set_plain(fd, known ? conn_id : 0);
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
static void accepted(struct listener *l, uint64_t cookie, int fd, int flags)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct iw_addr peer, local;
	enum iw_reason why = 0;

	iw_set_plain(fd, 0);
	if (IW_SYS(getpeername, fd, &ss, &len) < 0 || !iw_addr_from(&peer, (struct sockaddr *)&ss, len))
		return;
	if (l->policy_tcp) {
		why = IW_REASON_POLICY;
	} else if (iw_policy_listen_by_address()) {
		len = sizeof(ss);
		if (IW_SYS(getsockname, fd, &ss, &len) >= 0 && iw_addr_from(&local, (struct sockaddr *)&ss, len) &&
		    !iw_policy_allows(IW_VERB_LISTEN, &local))
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
	iw_set_plain(fd, iw_tell_plain(fd, false, &peer, why));
}

/* addr and len go to the kernel untouched, so that their errors are the kernel's; the peer's name is asked separately. */
static int accept_any(int fd, struct sockaddr *addr, socklen_t *len, int flags, bool four)
{
	uint32_t w = iw_word(fd);
	struct listener *l = listener_of(w);
	uint64_t cookie = 0;
	int saved = errno, n;

	if (atomic_load(&iw_on) && (unsigned int)fd < IW_FD_MAX) {
		iw_init();
		if (!l && (unseen(w) || iw_word_kind(w) == IW_FD_TCP))
			l = look_at(fd, w);
		if (l) {
			listener_register(l, fd);
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
	if (l && !iw_in_vfork() && listener_of(iw_word(fd)) == l) {
		/* another process may have registered it with a daemon that came back: the client may wait for our claim */
		if (atomic_load(&l->ctl_gen))
			iw_ctl_retry();
		listener_register(l, fd);
		cookie = l->cookie;
	}
	if (l && iw_ctl_up() && !iw_in_vfork())
		accepted(l, cookie, n, flags);
	else if (l && !iw_word(n))
		iw_set_plain(n, 0);
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
