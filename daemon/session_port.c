// SPDX-License-Identifier: MIT
/* The control port, where other daemons dial: who may, how many, and what to do when it cannot be had. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "ipsec.h"
#include "session_priv.h"

#define IN_MAX		1024u	/* sessions that others dialled */
#define IN_PER_PEER	8u
#define PORT_TRIES	100u	/* 20 ms apart */

static struct { int fd; struct op op; struct timer retry; } port = { .fd = -1 };

static unsigned int count_in(const struct peer *p)
{
	unsigned int count = 0;

	list_each(n, nxt, &p->in)
		count++;
	return count;
}

static void port_new(int fd)
{
	struct iw_addr me, them;
	struct peer *p;
	struct sess *s;

	if (sock_name(fd, &them, true) || sock_name(fd, &me, false))
		goto drop;
	if (!conf_allowed(&conf, them.ip)) {
		log_warn("control port: %s is not in 'allow'; closed", ip_text(them.ip));
		goto drop;
	}
	if (ipsec_check(&(struct tuple){ .local = me, .peer = them })) {
		log_warn("control port: no IPsec policy covers the connection from %s, and require_ipsec is set; closed", ip_text(them.ip));
		goto drop;
	}
	p = peer_get(them.ip, them.scope_id);
	if (!p || sess_in >= IN_MAX || count_in(p) >= IN_PER_PEER) {
		log_warn("control port: too many sessions from %s; closed", ip_text(them.ip));
		goto drop;
	}
	s = sess_new(p, false);
	if (!s)
		goto drop;
	s->fd = fd;
	s->state = SESS_STARTING;
	memcpy(s->local, me.ip, 16);
	sess_socket(fd);
	if (sess_conn(s) || conn_respond(s->conn))
		sess_fail(s, IW_REASON_RESOURCES, "no resources for it");
	return;
drop:
	close(fd);
}

static void port_accept(void);

static void port_retry(struct timer *t)
{
	port_accept();
}

static void port_accepted(struct op *op, int res, bool more)
{
	if (port.fd < 0) {
		if (res >= 0)
			close(res);
		return;
	}
	if (res >= 0) {
		port_new(res);
	} else if (res == -EINVAL || res == -ECANCELED) {
		return;
	} else if (res == -EMFILE || res == -ENFILE || res == -ENOMEM || res == -ENOBUFS) {
		timer_start(&port.retry, 100, port_retry);
		return;
	}
	port_accept();
}

static void port_accept(void)
{
	struct io_uring_sqe *sqe = engine_sqe();

	port.op.fn = port_accepted;
	io_uring_prep_accept(sqe, port.fd, NULL, NULL, SOCK_CLOEXEC);
	engine_submit(sqe, &port.op);
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

/* ---- start and stop ---- */

int session_start(void)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(0, &names), fd = -1;

	for (int i = 0; i < n; i++) {
		if (fd < 0 && !strcmp(names[i], "control") &&
		    sd_is_socket(SD_LISTEN_FDS_START + i, AF_UNSPEC, SOCK_STREAM, 1) > 0)
			fd = SD_LISTEN_FDS_START + i;
		free(names[i]);
	}
	free(names);
	if (fd < 0)
		fd = port_bind_again(AF_INET6);
	if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
		fd = port_bind_again(AF_INET);
	if (fd < 0) {
		bind_explain(-fd);
		return fd;
	}
	/* io_uring waits by itself only on sockets without O_NONBLOCK */
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	port.fd = fd;
	port_accept();
	return 0;
}

void port_stop(void)
{
	if (port.fd < 0)
		return;
	timer_stop(&port.retry);
	shutdown(port.fd, SHUT_RDWR);
	close(port.fd);
	port.fd = -1;
}
