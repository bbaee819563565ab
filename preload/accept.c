// SPDX-License-Identifier: MIT
/* accept(): the kernel's own. What comes out of it is a candidate, should it be TCP. */
#include <stdbool.h>
#include <sys/socket.h>

#include "candidate.h"
#include "fdtab.h"
#include "init.h"
#include "lib.h"
#include "paths/burst.h"
#include "proc.h"
#include "real.h"

IW_EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len);
IW_EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

static int accepted(int fd)
{
	int saved = errno;

	if (fd < 0 || fd >= IW_FD_MAX || !atomic_load_explicit(&iw_on, memory_order_relaxed) || iw_in_vfork())
		return fd;
	iw_fd_born(fd, iw_candidate_born(false));
	errno = saved;
	return fd;
}

int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	iw_burst_wait();
	return accepted(iw_real.accept(fd, addr, len));
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	iw_burst_wait();
	return accepted(iw_real.accept4(fd, addr, len, flags));
}
