// SPDX-License-Identifier: MIT
/* Listening sockets, which the daemon knows from when they listen: clients ask for them before they connect. */
#include <string.h>

#include "proto/ctlmsg.h"
#include "conf.h"
#include "daemon.h"
#include "epoll.h"
#include "fdtab.h"
#include "init.h"
#include "kinds.h"
#include "lib.h"
#include "listener.h"
#include "lock.h"
#include "peers.h"
#include "proc.h"
#include "real.h"
#include "sys.h"
#include "tcp.h"

#define LISTENERS	4096u

IW_EXPORT int listen(int fd, int backlog);

static struct iw_listener listeners[LISTENERS];
static uint32_t free_list, used;

struct iw_listener *iw_listener_of(uint32_t w)
{
	return iw_word_kind(w) == IW_FD_LISTENER && iw_word_val(w) < LISTENERS ? &listeners[iw_word_val(w)] : NULL;
}

/* A listening TCP socket that has no entry yet. The word that was there (TCP or nothing) is replaced. */
static struct iw_listener *listener_new(int fd, uint32_t w)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_listener *l = NULL;

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

static uint32_t dup_listener(int fd, uint32_t w)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	listeners[iw_word_val(w)].refs++;
	iw_unlock(&iw_tab_lock, sigs);
	return w;
}

static void forget(int fd, uint32_t w)
{
	uint64_t sigs = iw_lock(&iw_tab_lock), cookie = 0;
	struct iw_listener *l = &listeners[iw_word_val(w)];

	if (l->refs && --l->refs == 0) {
		/* a child may go on with it and will register it by itself: the daemon forgets ours when we end */
		if (atomic_load(&l->ctl_gen) == iw_daemon_gen() && l->forks == atomic_load(&iw_forks))
			cookie = l->cookie;
		l->next = free_list;
		free_list = iw_word_val(w) + 1;
	}
	iw_unlock(&iw_tab_lock, sigs);
	if (cookie)
		iw_daemon_tell_id(IW_CTL_UNLISTEN, cookie, 0, -1);
}

static bool policy_tcp(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct iw_addr a;

	return IW_SYS(getsockname, fd, &ss, &len) >= 0 && iw_addr_from_sockaddr(&a, (struct sockaddr *)&ss, len) &&
	       !iw_conf_allows(IW_VERB_LISTEN, &a);
}

static void took(struct iw_listener *l, const struct iw_ctl_ack *r)
{
	l->refused = r->result ? (enum iw_reason)r->reason : 0;
	l->cookie = r->id;
	atomic_store(&l->ctl_gen, iw_daemon_gen());
}

void iw_listener_register(struct iw_listener *l, int fd)
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_ack r;
	uint64_t gen;

	/* a listener that stays plain needs the daemon too: its connections are told there, with the reason */
	if (!iw_daemon_ready() || l->policy_tcp)
		return;
	gen = iw_daemon_gen();
	if (atomic_load(&l->ctl_gen) == gen)
		return;
	iw_ctl_init(&m, IW_CTL_LISTEN, 0);
	m.fd = fd;
	if (!iw_daemon_ask(&m, fd, &r, sizeof(r), NULL) && gen == iw_daemon_gen())
		took(l, &r);
}

void iw_listeners_register(int (*ask)(void *msg, int fd, void *reply, size_t size))
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_ack r;

	for (uint32_t i = 0; i < used; i++) {
		struct iw_listener *l = &listeners[i];
		int fd = l->fd;

		if (!l->refs || l->policy_tcp || iw_listener_of(iw_word(fd)) != l || !iw_is_tcp(fd))
			continue;
		iw_ctl_init(&m, IW_CTL_LISTEN, 0);
		m.fd = fd;
		if (ask(&m, fd, &r, sizeof(r)))
			return;
		took(l, &r);
	}
}

struct iw_listener *iw_listener_look_at(int fd, uint32_t w)
{
	int on = 0;
	socklen_t len = sizeof(on);
	struct iw_listener *l;

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

static void forked_child(void)
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
		if (iw_word_unseen(iw_word(fd)))
			iw_listener_look_at(fd, iw_word(fd));
	for (uint32_t i = 0; i < used; i++) {
		int fd = listeners[i].fd;

		gen = iw_daemon_gen();
		if (listeners[i].refs && iw_listener_of(iw_word(fd)) == &listeners[i])
			iw_listener_register(&listeners[i], fd);
		if (gen != iw_daemon_gen())
			break;		/* a new connection: all were registered */
	}
	errno = saved;
}

int listen(int fd, int backlog)
{
	int ret = iw_real.listen(fd, backlog), saved = errno;
	uint32_t w = iw_word(fd);
	struct iw_listener *l;

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
	iw_listener_register(l, fd);
out:
	errno = saved;
	return ret;
}

const struct iw_kind_ops iw_listener_ops = {
	.forget = forget,
	.dup = dup_listener,
	.forked_child = forked_child,
};
