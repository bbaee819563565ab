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

#define AGAIN_MS	3000u	/* who is not answered has a unix socket for good */

/* A carrier is known by the abstract name of its other end. */
static bool is_carrier(int fd)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);

	return IW_SYS(getpeername, fd, &un, &len) >= 0 && un.sun_family == AF_UNIX &&
	       len >= offsetof(struct sockaddr_un, sun_path) + 8 && !memcmp(un.sun_path, "\0iwsock.", 8);
}

static bool is_other(int fd)
{
	int type;
	socklen_t len = sizeof(type);

	return !is_carrier(fd) && IW_SYS(getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &len) >= 0;	/* not for bad fds: the number may become anything */
}

enum iw_fd_kind iw_adopt_slow(int fd)
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_stream r;
	struct iw_stream *s = NULL;
	int fds[2], saved = errno;
	uint64_t ino;
	uint32_t id, w;

	if (!atomic_load(&iw_on) || (unsigned int)fd >= IW_FD_MAX || iw_in_vfork())
		return IW_FD_OTHER;
	iw_init();
	if (!is_carrier(fd)) {
		if (is_other(fd))
			iw_word_found(fd, IW_OTHER_SEEN, is_other);
		errno = saved;
		return iw_fd_kind(fd);
	}
	ino = iw_fd_ino(fd);
	id = iw_daemon_conn_id();
	iw_ctl_init(&m, IW_CTL_OPEN, 0);
	m.conn_id = id;
	m.fd = fd;
	m.pad = 0;
	if (!iw_daemon_ask_patiently(AGAIN_MS, &m, fd, &r, sizeof(r), fds)) {
		if (fds[1] >= 0)
			IW_SYS(close, fds[1]);
		s = r.result || fds[0] < 0 ? NULL : iw_stream_new(&r, fds[0], fd, id);
	}
	w = s ? iw_stream_word(s) : IW_OTHER_SEEN;	/* no answer: carrier without page; do not ask again */
	if (!iw_word_cas(fd, 0, w)) {
		if (s)
			iw_stream_put(s, false);
	} else if (iw_fd_ino(fd) != ino && iw_word(fd) == w) {
		iw_fd_forget(fd);	/* closed meanwhile: it is another file's number */
	}
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
