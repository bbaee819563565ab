// SPDX-License-Identifier: MIT
/* Connections that stay plain TCP: the daemon is told, so that it can list them with their reason. */
#include <string.h>

#include "proto/ctlmsg.h"
#include "daemon.h"
#include "deadline.h"
#include "epoll.h"
#include "fdtab.h"
#include "kinds.h"
#include "peers.h"
#include "plain.h"
#include "sys.h"

#define TELL_PER_S	200u	/* messages per second and process; a busy plain server must not pay for iwctl */

static bool tell_allowed(void)
{
	static _Atomic uint64_t second;
	static _Atomic uint32_t count;
	uint64_t now = iw_now_ms() / 1000;

	if (atomic_exchange(&second, now) != now)
		atomic_store(&count, 0);
	return atomic_fetch_add(&count, 1) < TELL_PER_S;
}

uint32_t iw_plain_tell(int fd, bool client, const struct iw_addr *peer, enum iw_reason why)
{
	struct iw_ctl_conn m;
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (!iw_daemon_up() || !tell_allowed())
		return 0;
	memset(&m, 0, sizeof(m));
	iw_ctl_init(&m, IW_CTL_PLAIN, 0);
	if (IW_SYS(getsockname, fd, &ss, &len) < 0 || !iw_addr_from_sockaddr(&m.local, (struct sockaddr *)&ss, len))
		return 0;
	m.peer = *peer;
	m.conn_id = iw_daemon_conn_id();
	m.reason = why;
	m.flags = client ? IW_CONN_CLIENT : 0;
	m.fd = fd;
	iw_daemon_tell(&m, -1, 0);
	return (uint32_t)m.conn_id;
}

void iw_plain_set(int fd, uint32_t conn_id)
{
	iw_word_set(fd, conn_id ? iw_word_make(IW_FD_PLAIN, conn_id) : IW_OTHER_SEEN);
}

static void forget(int fd, uint32_t w)
{
	iw_reg_forget(fd);	/* from before its connect */
	iw_daemon_tell_id(IW_CTL_CLOSED, iw_word_val(w), 0, fd);
}

const struct iw_kind_ops iw_plain_ops = {
	.forget = forget,
};
