// SPDX-License-Identifier: MIT
/* Statically linked echo on standard input and output, or on an fd received by SCM_RIGHTS on standard input (--recv). */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int receive(int sock)
{
	union { char c[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } u;
	char b;
	struct iovec v = { &b, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u) };
	int fd;

	if (recvmsg(sock, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

int main(int argc, char **argv)
{
	int in = 0, out = 1;
	char b[4096];
	ssize_t n, w;

	if (argc > 1)
		in = out = receive(0);
	while ((n = read(in, b, sizeof(b))) > 0)
		for (ssize_t o = 0; o < n; o += w) {
			w = write(out, b + o, (size_t)(n - o));
			if (w < 0)
				return 2;
		}
	return n ? 3 : 0;
}
