// SPDX-License-Identifier: MIT
/* The control port, where other daemons dial: who may, how many, and what to do when it cannot be had. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/acceptor.h"
#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/net/ipsec.h"
#include "daemon/net/sock.h"
#include "answer.h"
#include "port.h"

#define IN_MAX		1024u	/* sessions that others dialled */
#define IN_STRANGERS	8u	/* of one address */
#define IN_KNOWN	32u
#define IN_LINGERING	8u
#define PORT_TRIES	100u	/* 20 ms apart */

/*
 * Any program of a host can dial here, and must not keep its daemon out. Over the session that we dialled ourselves we ask that daemon
 * whether a connection to our port is its own; those that are not known to be have little room, and the oldest of them gives way.
 */
static struct list strangers = { &strangers, &strangers };

static void proved(struct sess_ask *q, const struct iw_sm *m, enum iw_reason reason)
{
	struct sess *s = container_of(q, struct sess, proof);

	if (!m)		/* again when we have dialled again */
		return;
	s->vouched = m->yes;
	s->disowned = !m->yes;
	if (m->yes)
		list_del(&s->strangers);
	answer_run(s);
	sess_review(s->peer);
}

void port_prove(struct sess *s)
{
	struct sess *out = sess_out(s->peer, s->local);

	if (s->vouched || s->proof.active || s->state == SESS_DEAD || !out || out->state != SESS_UP)
		return;
	s->proof = (struct sess_ask){ .m = { .type = IW_SM_VOUCH, .a = s->me, .b = s->them }, .fn = proved };
	sess_ask(&s->proof, SESS_NO_DIAL);
}

void port_down(struct sess *s)
{
	sess_ask_cancel(&s->proof);
	list_del(&s->strangers);
}

bool port_lingers(const struct peer *p)
{
	unsigned int live = 0;

	list_each(n, nxt, &p->in)
		live += list_entry(n, struct sess, node)->ep != NULL;
	return p->in_conns - live <= IN_LINGERING;
}

static struct sess *oldest_stranger(void)
{
	list_each(n, nxt, &strangers) {
		struct sess *s = list_entry(n, struct sess, strangers);

		if (s->state != SESS_DEAD)
			return s;
	}
	return NULL;
}

/* Is there room for one more session of this address, perhaps because another one gives way? */
static bool port_room(struct peer *p)
{
	unsigned int nstrangers = 0, nknown = 0;
	struct sess *oldest = NULL;

	list_each(n, nxt, &p->in) {
		struct sess *s = list_entry(n, struct sess, node);

		if (s->state == SESS_DEAD)
			continue;
		nknown += s->vouched;
		nstrangers += !s->vouched;
		if (!s->vouched && !oldest)
			oldest = s;
	}
	if (nknown >= IN_KNOWN)
		return false;
	if (nstrangers < IN_STRANGERS && sess_in < IN_MAX)
		return true;
	if (nstrangers < IN_STRANGERS)
		oldest = oldest_stranger();
	if (!oldest)
		return false;
	log_warn("control port: too many sessions from %s; the oldest that is not known to be its daemon's gives way", iw_ip_text(oldest->peer->ip));
	oldest->gives_way = true;
	sess_fail(oldest, IW_REASON_PEER_REFUSED, NULL);
	return true;
}

const char *port_refuses(const struct iw_addr *me, const struct iw_addr *them)
{
	if (!conf_allowed(&conf, them->ip))
		return "the host is not in 'allow'";
	if (ipsec_check(&(struct iw_tuple){ .local = *me, .peer = *them }))
		return "no IPsec policy covers the connection, and require_ipsec is set";
	return NULL;
}

static void port_new(int fd)
{
	struct iw_addr me, them;
	const char *why;
	struct peer *p;
	struct sess *s;

	if (sock_name(fd, &them, true) || sock_name(fd, &me, false))
		goto drop;
	why = port_refuses(&me, &them);
	if (why) {
		log_warn("control port: %s: %s; closed", iw_ip_text(them.ip), why);
		goto drop;
	}
	p = peer_get(them.ip, them.scope_id);
	if (!p || !port_room(p)) {
		log_warn("control port: too many sessions from %s; closed", iw_ip_text(them.ip));
		goto drop;
	}
	s = sess_new(p, false);
	if (!s)
		goto drop;
	s->fd = fd;
	s->state = SESS_STARTING;
	memcpy(s->local, me.ip, 16);
	s->me = me;
	s->them = them;
	list_add_tail(&strangers, &s->strangers);
	sess_socket(fd);
	if (sess_conn(s) || endpoint_respond(s->ep))
		sess_fail(s, IW_REASON_RESOURCES, "no resources for it");
	port_prove(s);
	return;
drop:
	close(fd);
}

/* ---- binding ---- */

static int port_bind(int family)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(conf.control_port) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(conf.control_port) };
	int one = 1, zero = 0, ret, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
		ret = bind(fd, (void *)&in6, sizeof(in6));
	} else {
		ret = bind(fd, (void *)&in, sizeof(in));
	}
	if (ret || listen(fd, 256)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

/* What io_uring held for a daemon that was killed the kernel lets go of a moment after its end. */
static int port_bind_again(int family)
{
	int ret;

	for (unsigned int i = 0; (ret = port_bind(family)) == -EADDRINUSE && i < PORT_TRIES; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	return ret;
}

static void bind_explain(int err)
{
	log_err("control port %u: %s", conf.control_port, strerror(err));
	if (err == EACCES)
		log_err("a port below 1024 takes root, CAP_NET_BIND_SERVICE or systemd socket activation (FileDescriptorName=control); "
			"for a try-out give -o control_port=4874 -o trust_high_port=yes, on all hosts alike");
	else if (err == EADDRINUSE)
		log_err("another program has it, perhaps another iwarpd; see 'ss -ltnp sport = :%u', or set control_port", conf.control_port);
}

/* What systemd listens on is its setting, and where we dial is ours. */
static void passed_check(int fd)
{
	struct iw_addr me;

	if (!sock_name(fd, &me, false) && me.port != conf.control_port)
		log_warn("control_port is %u, but the socket that systemd passed listens on %u: others are dialled at %u and this host is asked at %u; "
			 "set ListenStream= of iwarpd.socket and control_port alike", conf.control_port, me.port, conf.control_port, me.port);
}

/* ---- start and stop ---- */

static struct acceptor port = { .what = "a session", .fn = port_new, .fd = -1 };

int port_start(void)
{
	int fd = acceptor_passed("control", AF_UNSPEC, SOCK_STREAM);

	if (fd >= 0)
		passed_check(fd);
	else
		fd = port_bind_again(AF_INET6);
	if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
		fd = port_bind_again(AF_INET);
	if (fd < 0) {
		bind_explain(-fd);
		return fd;
	}
	acceptor_start(&port, fd);
	return 0;
}

void port_stop(void)
{
	acceptor_stop(&port);
}
