// SPDX-License-Identifier: MIT
/*
 * The daemon gives another carrier: one that it relays, for an end that is handed on with octets unread; and the carrier itself again, once
 * that end is this process's alone, at a moment at which nothing is on its way (docs/rings.md, 5; tests/rest.pml, tests/direct.pml).
 */
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "daemon.h"
#include "internal.h"
#include "lock.h"
#include "map_priv.h"
#include "path.h"
#include "paths/carrier.h"
#include "reg.h"
#include "swap.h"
#include "sys.h"
#include "tcpstate.h"

#define AGAIN_MS	10000u	/* a service manager starts one within a second or two, on a busy machine later */

/* What belongs to the file. */
static void as_it_was(int from, int to, const struct iw_flags *f)
{
	static const int names[] = { SO_RCVLOWAT, SO_OOBINLINE, SO_PEEK_OFF };

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int v = iw_map_option(from, names[i]);

		if (v != iw_map_option(to, names[i]))
			IW_SYS(setsockopt, to, SOL_SOCKET, names[i], &v, sizeof(v));
	}
	iw_flags_write(to, f);
}

/* With REST the daemon relays from now on: the flags of the one that it is given are its own from then on. */
int iw_map_ask_carrier(enum iw_ctl_type type, int mine, int fd)
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_stream r = { .result = 1 };
	int fds[2] = { -1, -1 };
	struct iw_flags f;
	int ret;

	iw_flags_read(mine, &f);
	iw_ctl_init(&m, type, 0);
	m.conn_id = 0;
	m.fd = fd;
	m.pad = 0;
	if (type == IW_CTL_REST)
		ret = iw_daemon_ask_patiently(AGAIN_MS, &m, mine, &r, sizeof(r), fds);
	else
		ret = iw_daemon_dialled() ? iw_daemon_ask(&m, mine, &r, sizeof(r), fds, 0) : -ENOTCONN;
	if (ret || r.result) {
		iw_flags_write(mine, &f);
		return -1;
	}
	if (fds[1] >= 0)
		IW_SYS(close, fds[1]);
	if (fds[0] >= 0)
		as_it_was(mine, fds[0], &f);
	return fds[0];
}

static bool change(struct iw_stream *s, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong(&iw_stream_end(s)->relay, &from, to);
}

/* false: the daemon has taken it back, or it is not as it was any more; or another thread has written since, unseen. */
static bool put_in_place(int fd, struct iw_stream *s, int carrier)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	bool done = iw_map_detach(fd, s);
	int late = 0;

	if (done) {
		done = IW_SYS(ioctl, fd, SIOCOUTQ, &late) >= 0 && !late && change(s, IW_RELAY_OFFERED, IW_RELAY_NONE);
		if (done)
			iw_map_replace(s, carrier);
		iw_reg_attach(fd, done);
	}
	iw_unlock(&iw_tab_lock, sigs);
	return done;
}

bool iw_map_direct(int fd, struct iw_stream *s)
{
	bool done;
	int carrier;

	if (!iw_map_may(fd, s) || !iw_map_dry(s, fd) || iw_fd_bits(fd, POLLRDHUP | POLLPRI) & (POLLRDHUP | POLLHUP | POLLERR | POLLPRI) ||
	    !change(s, IW_RELAY_ON, IW_RELAY_ASKED))
		return false;
	carrier = iw_map_ask_carrier(IW_CTL_DIRECT, fd, fd);
	if (carrier < 0) {
		change(s, IW_RELAY_ASKED, IW_RELAY_ON);
		return false;
	}
	done = put_in_place(fd, s, carrier);
	IW_SYS(close, carrier);
	iw_daemon_tell_id(done ? IW_CTL_SWITCHED : IW_CTL_ABANDON, s->stream_id, IW_REASON_BUSY, fd);
	return done;
}
