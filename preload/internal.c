// SPDX-License-Identifier: MIT
/* Descriptors of our own, which the application must not meet: high numbers, marked in the table. */
#include <stddef.h>
#include <sys/resource.h>

#include "daemon.h"
#include "fdtab.h"
#include "internal.h"
#include "kick.h"
#include "map.h"
#include "reg.h"
#include "sys.h"

/* High enough to stay out of the application's way, low enough not to blow up the kernel's table. */
static long hide_base(void)
{
	struct rlimit r;

	if (IW_SYS(prlimit64, 0, RLIMIT_NOFILE, NULL, &r) < 0 || r.rlim_cur >= 2048)
		return 1024;
	return (long)r.rlim_cur / 2;
}

int iw_fd_hide(int fd)
{
	long n = IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, hide_base());

	IW_SYS(close, fd);
	if (n < 0)
		return (int)n;
	if (n >= IW_FD_MAX) {
		IW_SYS(close, n);
		return -EMFILE;
	}
	iw_word_set((int)n, iw_word_make(IW_FD_INTERNAL, 1));
	return (int)n;
}

bool iw_fd_room(int fd)
{
	long a = IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0), b = a < 0 ? a : IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0);

	if (a >= 0)
		IW_SYS(close, a);
	if (b >= 0)
		IW_SYS(close, b);
	return b >= 0;
}

void iw_fd_unhide_close(int fd)
{
	if (iw_word_kind(iw_word_set(fd, 0)) == IW_FD_INTERNAL)
		IW_SYS(close, fd);
}

bool iw_internal_still(int fd)
{
	if (iw_daemon_owns(fd) || iw_kick_owns(fd) || iw_reg_owns(fd) || iw_map_owns(fd))
		return true;
	iw_word_cas(fd, iw_word_make(IW_FD_INTERNAL, 1), 0);
	return false;
}

void iw_internal_make_way(int fd)
{
	if (iw_daemon_owns(fd))
		iw_daemon_closing_internal(fd);
	else if (iw_kick_owns(fd))
		iw_kick_make_way(fd);
	else if (iw_reg_owns(fd))
		iw_reg_make_way(fd);
	else if (iw_map_owns(fd))
		iw_map_make_way(fd);
	else
		iw_word_cas(fd, iw_word_make(IW_FD_INTERNAL, 1), 0);
}
