// SPDX-License-Identifier: MIT
/* Packets on the control connection: one message at a time, with the descriptors that go with it. */
#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "proto/ctlmsg.h"
#include "daemon.h"
#include "daemon_io.h"
#include "deadline.h"
#include "sys.h"

int iw_daemon_io_wait(int fd, short events, uint64_t until)
{
	struct pollfd p = { .fd = fd, .events = events };
	struct timespec t;
	uint64_t now;
	long r;

	do {
		now = iw_now_ms();
		if (now >= until)
			return -ETIMEDOUT;
		t.tv_sec = (time_t)((until - now) / 1000);
		t.tv_nsec = (long)((until - now) % 1000 * 1000000);
		r = IW_SYS(ppoll, &p, 1, &t, NULL, 8);
	} while (r == -EINTR);
	return r < 0 ? (int)r : r ? 0 : -ETIMEDOUT;
}

/* The state of the process at the other end, as /proc/PID/stat has it; 0: nobody can tell. */
static char daemon_state(int fd)
{
	char path[32] = "/proc/", text[128], digits[12];
	struct ucred c = { 0 };
	int len = sizeof(c), n = 0, at = 6;
	long f, r;

	if (IW_SYS(getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &c, &len) < 0 || c.pid <= 0)
		return 0;
	for (int pid = c.pid; pid; pid /= 10)
		digits[n++] = (char)('0' + pid % 10);
	while (n)
		path[at++] = digits[--n];
	memcpy(path + at, "/stat", sizeof("/stat"));
	f = IW_SYS(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (f < 0)
		return 0;
	r = IW_SYS(read, f, text, sizeof(text));
	IW_SYS(close, f);
	while (r > 2 && text[r - 1] != ')')	/* PID (NAME) STATE: a name has at most 15 octets, of any kind, and no ) stands behind it */
		r--;
	return r > 2 && r + 1 < (long)sizeof(text) ? text[r + 1] : 0;
}

static bool stands_still(int fd)
{
	char state;
	int unread = 0;

	if (IW_SYS(ioctl, fd, SIOCOUTQ, &unread) < 0 || !unread)
		return false;
	state = daemon_state(fd);
	return state && state != 'R';
}

#define LOOK_MS	10u

int iw_daemon_io_wait_answer(int fd, short events, uint64_t from, uint64_t until)
{
	uint64_t next = from, now = iw_now_ms();
	bool still = false;
	int ret;

	if (next < now)
		next = now;
	while ((ret = iw_daemon_io_wait(fd, events, next < until ? next : until)) == -ETIMEDOUT && next < until) {
		if (stands_still(fd)) {
			if (still)	/* twice: it may just have been about to wake up */
				return ret;
			still = true;
		} else {
			still = false;
		}
		next = iw_now_ms() + LOOK_MS;
	}
	return ret;
}

long iw_daemon_io_send(int fd, void *msg, int fd_in)
{
	struct iw_ctl_hdr *h = msg;
	struct iovec v = { msg, h->len };
	union { struct cmsghdr h; char b[CMSG_SPACE(sizeof(int))]; } c;
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (fd_in >= 0) {
		memset(&c, 0, sizeof(c));
		c.h.cmsg_level = SOL_SOCKET;
		c.h.cmsg_type = SCM_RIGHTS;
		c.h.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&c.h), &fd_in, sizeof(int));
		m.msg_control = &c;
		m.msg_controllen = CMSG_LEN(sizeof(int));
	}
	return IW_SYS(sendmsg, fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* One message and its fds: octets, or -errno. More fds than anybody should send are closed. */
static long ctl_recv(int fd, void *buf, size_t len, int fds[2], unsigned int *nfds)
{
	struct iovec v = { buf, len };
	union { struct cmsghdr h; char b[CMSG_SPACE(8 * sizeof(int))]; } c;
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };
	long r;

	*nfds = 0;
	fds[0] = fds[1] = -1;
	r = IW_SYS(recvmsg, fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (r < 0)
		return r;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
		int n = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int)), one;

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (int i = 0; i < n; i++) {
			memcpy(&one, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
			if (*nfds < 2)
				fds[*nfds] = one;
			else
				IW_SYS(close, one);
			++*nfds;
		}
	}
	return m.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EPROTO : r;
}

int iw_daemon_fds_close(int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			IW_SYS(close, fds[i]);
	fds[0] = fds[1] = -1;
	return 0;
}

int iw_daemon_io_send_until(int fd, void *msg, int fd_in, uint64_t until)
{
	long r;
	int ret;

	while ((r = iw_daemon_io_send(fd, msg, fd_in)) == -EAGAIN || r == -EINTR) {
		ret = iw_daemon_io_wait_answer(fd, POLLOUT, until - IW_DAEMON_GRACE_MS, until);
		if (ret)
			return ret;
	}
	if (r < 0)
		return r == -EPIPE || r == -ECONNRESET || r == -ENOTCONN ? -ENOTCONN : (int)r;
	return 0;
}

/* One checked message, if there is one: 0, -EAGAIN, or the connection is of no more use. */
int iw_daemon_io_receive(int fd, union iw_daemon_in *in, int fds[2])
{
	unsigned int nfds;
	long r = ctl_recv(fd, in, sizeof(*in), fds, &nfds);

	if (r == -EAGAIN || r == -EINTR)
		return -EAGAIN;
	if (r == 0 || r == -ECONNRESET)
		return -ENOTCONN;
	if (r > 0 && !iw_ctl_check(in, (size_t)r, nfds, 0))
		return 0;
	iw_daemon_fds_close(fds);
	return -EPROTO;
}
