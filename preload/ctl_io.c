// SPDX-License-Identifier: MIT
/* Packets on the control connection: one message at a time, with the descriptors that go with it. */
#include <poll.h>
#include <string.h>
#include <time.h>

#include "ctl_io.h"

int iw_ctl_wait(int fd, short events, uint64_t until)
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

long iw_ctl_send(int fd, void *msg, int fd_in)
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

int iw_rpc_fds_close(int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			IW_SYS(close, fds[i]);
	fds[0] = fds[1] = -1;
	return 0;
}

int iw_ctl_send_until(int fd, void *msg, int fd_in, uint64_t until)
{
	long r;
	int ret;

	while ((r = iw_ctl_send(fd, msg, fd_in)) == -EAGAIN || r == -EINTR) {
		ret = iw_ctl_wait(fd, POLLOUT, until);
		if (ret)
			return ret;
	}
	if (r < 0)
		return r == -EPIPE || r == -ECONNRESET || r == -ENOTCONN ? -ENOTCONN : (int)r;
	return 0;
}

/* One checked message, if there is one: 0, -EAGAIN, or the connection is of no more use. */
int iw_ctl_receive(int fd, union iw_ctl_in *in, int fds[2])
{
	unsigned int nfds;
	long r = ctl_recv(fd, in, sizeof(*in), fds, &nfds);

	if (r == -EAGAIN || r == -EINTR)
		return -EAGAIN;
	if (r == 0 || r == -ECONNRESET)
		return -ENOTCONN;
	if (r > 0 && !iw_ctl_check(in, (size_t)r, nfds, 0))
		return 0;
	iw_rpc_fds_close(fds);
	return -EPROTO;
}
