/* SPDX-License-Identifier: MIT */
/*
 * The kernel's IPsec policies over netlink: read at start and again when the kernel says that they changed. It says so before the
 * change returns to whoever made it, and each check looks for such a word first: what was removed before a check does not count in it.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "ipsec.h"
#include "locals.h"
#include "peers.h"

#define TRIES 8	/* dumps of a database that changes all the time */

static struct {
	int events, fd;		/* told of changes; for questions */
	struct op op;
	struct work work;
	struct ipsec_table table;
	bool stale;		/* the table is to be read again */
	int err;		/* why there is no table */
} ipsec = { .events = -1, .fd = -1 };

static void watch(void);

/* ---- reading ---- */

static int dump(struct ipsec_table *t)
{
	struct nlmsghdr ask = {
		.nlmsg_len = sizeof(ask), .nlmsg_type = XFRM_MSG_GETPOLICY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
	};
	static uint8_t buf[65536];
	ssize_t n;
	int ret;

	if (send(ipsec.fd, &ask, sizeof(ask), 0) < 0)
		return -errno;
	do {
		n = recv(ipsec.fd, buf, sizeof(buf), 0);
		ret = n < 0 ? -errno : ipsec_table_parse(t, buf, (size_t)n);
	} while (ret > 0 || (n < 0 && ret == -EINTR));
	return ret;
}

static int open_netlink(uint32_t groups)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK, .nl_groups = groups };
	struct timeval limit = { .tv_sec = 1 };		/* the kernel answers at once or not at all */
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_XFRM), ret;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (!bind(fd, (void *)&sa, sizeof(sa)))
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

/* A socket of its own each time: what an answer that was given up left behind is not read as another's. */
static int read_all(void)
{
	int ret = -EINTR;

	for (int i = 0; i < TRIES && ret == -EINTR; i++) {
		ipsec_table_clear(&ipsec.table);
		ret = ipsec.fd = open_netlink(0);
		if (ret < 0)
			continue;
		ret = dump(&ipsec.table);
		close(ipsec.fd);
	}
	if (ret)
		ipsec_table_clear(&ipsec.table);
	return ret;
}

/* ---- noticing changes ---- */

/* Hosts that were plain TCP for want of a policy get another chance. */
static void forgive(struct peer *p, void *arg)
{
	if (peer_negative(p) && p->reason == IW_REASON_NO_IPSEC)
		peer_set(p, IW_PEER_UNKNOWN, 0, 0);
}

static void changed(struct work *w)
{
	peers_each(forgive, NULL);
}

static void look(void)
{
	uint8_t buf[8192];
	ssize_t n;

	while ((n = recv(ipsec.events, buf, sizeof(buf), MSG_DONTWAIT)) > 0 || (n < 0 && errno == ENOBUFS))
		ipsec.stale = true;
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		ipsec.err = -errno;	/* deaf: what is known may be out of date */
		return;
	}
	if (!ipsec.stale)
		return;
	ipsec.err = read_all();
	ipsec.stale = ipsec.err;
	if (ipsec.err)
		log_err("the IPsec policies cannot be read: %s; no connection to another host is accelerated", strerror(-ipsec.err));
	else
		log_info("require_ipsec: %zu IPsec policies in and out", ipsec.table.n);
	work_queue(&ipsec.work, changed);
}

static void watched(struct op *op, int res, bool more)
{
	if (ipsec.events < 0)
		return;
	if (res != -ECANCELED)	/* else of a socket that we had before */
		look();
	watch();
}

static void watch(void)
{
	struct io_uring_sqe *sqe = engine_sqe();

	ipsec.op.fn = watched;
	io_uring_prep_poll_add(sqe, ipsec.events, POLLIN);
	engine_submit(sqe, &ipsec.op);
}

/* ---- for the daemon ---- */

static void explain(int err)
{
	ipsec.err = err;
	log_err("require_ipsec: the IPsec policies of the kernel cannot be read (%s): no connection to another host is accelerated", strerror(-err));
	if (err == -EPERM || err == -EACCES)
		log_err("it takes CAP_NET_ADMIN; with systemd: CapabilityBoundingSet=CAP_NET_ADMIN and AmbientCapabilities=CAP_NET_ADMIN, "
			"see iwarpd.conf(5)");
	else if (err == -EPROTONOSUPPORT)
		log_err("the kernel has no XFRM (CONFIG_XFRM_USER; modprobe xfrm_user)");
}

void ipsec_start(void)
{
	int fd;

	if (!conf.require_ipsec)
		return;
	fd = open_netlink(1u << (XFRMNLGRP_POLICY - 1));
	if (fd < 0) {
		explain(fd);
		return;
	}
	ipsec.events = fd;
	ipsec.err = read_all();		/* after the socket is there, so that no change falls between */
	if (ipsec.err) {
		explain(ipsec.err);
		close(fd);
		ipsec.events = -1;
		return;
	}
	log_info("require_ipsec: %zu IPsec policies in and out", ipsec.table.n);
	if (!ipsec.op.busy)	/* else when that has ended */
		watch();
}

void ipsec_stop(void)
{
	work_cancel(&ipsec.work);
	ipsec_table_clear(&ipsec.table);
	if (ipsec.events < 0)
		return;
	if (ipsec.op.busy)
		engine_cancel(&ipsec.op);
	close(ipsec.events);
	ipsec.events = -1;
	ipsec.err = -ENOTCONN;
}

void ipsec_renew(void)
{
	if (!conf.require_ipsec)
		ipsec_stop();
	else if (ipsec.events < 0)
		ipsec_start();
	work_queue(&ipsec.work, changed);
}

enum ipsec_state ipsec_state(void)
{
	if (!conf.require_ipsec)
		return IPSEC_OFF;
	return ipsec.events < 0 || ipsec.err ? IPSEC_UNREADABLE : IPSEC_ON;
}

unsigned int ipsec_policies(void)
{
	return (unsigned int)ipsec.table.n;
}

enum iw_reason ipsec_check(const struct iw_tuple *t)
{
	if (!conf.require_ipsec || addr_is_local(t->peer.ip))
		return IW_REASON_ACCELERATED;
	if (ipsec.events >= 0)
		look();
	if (ipsec_state() == IPSEC_ON && ipsec_table_covers(&ipsec.table, t))
		return IW_REASON_ACCELERATED;
	return IW_REASON_NO_IPSEC;
}
