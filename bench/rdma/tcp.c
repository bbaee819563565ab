// SPDX-License-Identifier: MIT
/*
 * Plain TCP with the shape of the RDMA measurements: as many messages outstanding, handed to the kernel by one call as far as they are
 * due together (an RNIC does that too), a request of a Read's size for every message of a Read, and an answer in the end.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rdma.h"

#define REQUEST	28u		/* octets of an RDMA Read Request */
#define TAKE	(256u << 10)	/* the reader takes that much at once */
#define LAST	'E'

static int listener, fd;
static struct ask ask;
static uint8_t *buf;
static size_t buf_len;

static int put(size_t len)
{
	uint8_t *p = buf;

	while (len) {
		ssize_t r = send(fd, p, len, MSG_NOSIGNAL);

		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0) {
			p += r;
			len -= (size_t)r;
		}
	}
	return 0;
}

/* n messages, all of them out of the one buffer. */
static int put_messages(unsigned int n)
{
	struct iovec iov[DEPTH_MAX];
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = n };

	for (unsigned int i = 0; i < n; i++)
		iov[i] = (struct iovec){ buf, ask.size };
	while (m.msg_iovlen) {
		ssize_t r = sendmsg(fd, &m, MSG_NOSIGNAL);

		if (r < 0 && errno != EINTR)
			return -errno;
		for (; r > 0 && m.msg_iovlen; m.msg_iov++, m.msg_iovlen--) {
			if ((size_t)r < m.msg_iov->iov_len) {
				m.msg_iov->iov_base = (uint8_t *)m.msg_iov->iov_base + r;
				m.msg_iov->iov_len -= (size_t)r;
				break;
			}
			r -= (ssize_t)m.msg_iov->iov_len;
		}
	}
	return 0;
}

static int get(void *p, size_t len)
{
	while (len) {
		ssize_t r = recv(fd, p, len, MSG_WAITALL);

		if (!r)
			return -ECONNRESET;
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0) {
			p = (uint8_t *)p + r;
			len -= (size_t)r;
		}
	}
	return 0;
}

static int prepare(void)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	buf_len = ask.size > TAKE ? ask.size : TAKE;
	buf = malloc(buf_len);
	if (!buf)
		return -ENOMEM;
	memset(buf, 'x', buf_len);
	return 0;
}

/* ---- server ---- */

static int tcp_listen(struct sockaddr_in *a)
{
	listener = bench_listen(a);
	return listener < 0 ? listener : 0;
}

/* The octet behind the last message differs, and is answered: the sender waits then, so that it ends what is received. */
static int serve_write(void)
{
	for (;;) {
		ssize_t r = recv(fd, buf, buf_len, 0);
		int ret = 0;

		if (r <= 0)
			return r ? -errno : 0;
		if (buf[r - 1] == LAST)
			ret = send(fd, buf, 1, MSG_NOSIGNAL) == 1 ? 0 : -errno;
		if (ret)
			return ret;
	}
}

static int serve_read(void)
{
	size_t have = 0;

	for (;;) {
		ssize_t r = recv(fd, buf + have, REQUEST * DEPTH_MAX, 0);
		int ret;

		if (r <= 0)
			return r ? -errno : 0;
		have += (size_t)r;
		ret = put_messages((unsigned int)(have / REQUEST));
		if (ret)
			return ret;
		have %= REQUEST;
	}
}

static int tcp_serve(void)
{
	int ret;

	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		return -errno;
	ret = get(&ask, sizeof(ask));
	if (!ret)
		ret = prepare();
	if (ret)
		return ret;
	if (ask.what == WRITE_BW)
		ret = serve_write();
	else if (ask.what == READ_BW)
		ret = serve_read();
	else
		while (!(ret = get(buf, ask.size)) && !(ret = put(ask.size)))
			;
	return ret == -ECONNRESET ? 0 : ret;
}

/* ---- client ---- */

static int part_write(double end, uint64_t *n)
{
	const char last = LAST;
	char answer;
	int ret;

	do {
		ret = put_messages(ask.depth);
		*n += ask.depth;
	} while (!ret && bench_now() < end);
	if (!ret && send(fd, &last, 1, MSG_NOSIGNAL) != 1)
		ret = -errno;
	return ret ? ret : get(&answer, 1);
}

static int request(unsigned int n)
{
	static const uint8_t requests[DEPTH_MAX * REQUEST];

	return send(fd, requests, n * REQUEST, MSG_NOSIGNAL) == (ssize_t)n * REQUEST ? 0 : -errno;
}

/* For every message that has come whole the next is asked for. */
static int part_read(double end, uint64_t *n)
{
	uint64_t got = 0, asked = ask.depth;
	int ret = request(ask.depth);

	while (!ret && *n < asked) {
		ssize_t r = recv(fd, buf, buf_len, 0);
		unsigned int whole;

		if (r <= 0)
			return r ? -errno : -ECONNRESET;
		got += (uint64_t)r;
		whole = (unsigned int)(got / ask.size - *n);
		*n += whole;
		if (whole && bench_now() < end) {
			ret = request(whole);
			asked += whole;
		}
	}
	return ret;
}

static int part_latency(double end, uint64_t *n)
{
	int ret;

	do {
		ret = put(ask.size);
		if (!ret)
			ret = get(buf, ask.size);
		++*n;
	} while (!ret && bench_now() < end);
	return ret;
}

static int part(double seconds, double *took, uint64_t *n)
{
	double start = bench_now();
	int ret;

	*n = 0;
	if (ask.what == WRITE_BW)
		ret = part_write(start + seconds, n);
	else if (ask.what == READ_BW)
		ret = part_read(start + seconds, n);
	else
		ret = part_latency(start + seconds, n);
	*took = bench_now() - start;
	return ret;
}

static int tcp_client(const struct sockaddr_in *a, const struct ask *what)
{
	double took;
	uint64_t n;
	int ret;

	ask = *what;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		return -errno;
	ret = prepare();
	if (!ret && send(fd, &ask, sizeof(ask), MSG_NOSIGNAL) != sizeof(ask))
		ret = -errno;
	if (!ret)
		ret = part(bench_seconds * BENCH_WARM, &took, &n);
	if (!ret) {
		bench_warmed(n);
		ret = part(bench_seconds, &took, &n);
	}
	if (!ret)
		bench_result(&ask, took, n);
	close(fd);
	return ret;
}

const struct provider tcp_provider = {
	.name = "tcp", .text = "plain TCP sockets, the measure", .listen = tcp_listen, .serve = tcp_serve, .client = tcp_client,
};
