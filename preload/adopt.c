// SPDX-License-Identifier: MIT
/* Carriers that this process did not make: inherited over exec, or received by SCM_RIGHTS. */
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "proto/ctlmsg.h"
#include "adopt.h"
#include "daemon.h"
#include "fdtab.h"
#include "init.h"
#include "kinds.h"
#include "proc.h"
#include "stream.h"
#include "sys.h"

/* A carrier is known by the abstract name of its other end. */
static bool is_carrier(int fd)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);

	return IW_SYS(getpeername, fd, &un, &len) >= 0 && un.sun_family == AF_UNIX &&
	       len >= offsetof(struct sockaddr_un, sun_path) + 8 && !memcmp(un.sun_path, "\0iwsock.", 8);
}

enum iw_fd_kind iw_adopt_slow(int fd)
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_stream r;
	struct iw_stream *s;
	int fds[2], saved = errno, type;
	socklen_t len = sizeof(type);
	uint32_t none = 0, id;

	if (!atomic_load(&iw_on) || (unsigned int)fd >= IW_FD_MAX || iw_in_vfork())
		return IW_FD_OTHER;
	iw_init();
	if (!is_carrier(fd)) {
		if (IW_SYS(getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &len) >= 0)	/* not for bad fds: the number may become anything */
			atomic_compare_exchange_strong(&iw_fdtab[fd], &none, IW_OTHER_SEEN);
		errno = saved;
		return iw_fd_kind(fd);
	}
	id = iw_daemon_conn_id();
	iw_ctl_init(&m, IW_CTL_OPEN, 0);
	m.conn_id = id;
	m.fd = fd;
	m.pad = 0;
	if (iw_daemon_dialled() && !iw_daemon_ask(&m, fd, &r, sizeof(r), fds, 0)) {
		if (fds[1] >= 0)
			IW_SYS(close, fds[1]);
		s = r.result || fds[0] < 0 ? NULL : iw_stream_new(&r, fds[0], fd, id);
		if (s) {
			if (!iw_word_cas(fd, 0, iw_stream_word(s)))
				iw_stream_put(s, false);
		}
	}
	if (!iw_word(fd))	/* no answer: carrier without page; do not ask again */
		iw_word_set(fd, IW_OTHER_SEEN);
	errno = saved;
	return iw_fd_kind(fd);
}

void iw_adopt_inherited(void)
{
	struct stat st;

	for (int fd = 0; fd < 3; fd++)
		if (IW_SYS(fstat, fd, &st) >= 0 && S_ISSOCK(st.st_mode) && is_carrier(fd))
			iw_adopt_slow(fd);
}

static uint32_t dup_other(int fd, uint32_t w)
{
	return w;
}

const struct iw_kind_ops iw_other_ops = {
	.dup = dup_other,
};
