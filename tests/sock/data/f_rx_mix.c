// SPDX-License-Identifier: MIT
/* Sends of all kinds and receives of all kinds, by chance, with everything there before each: results, errors, octets, flags and what is left. */
#include <sys/sendfile.h>

#include "../sock.h"

#define STEPS	260
#define MOST	9000
#define VEC	1024

static uint64_t seed = 88172645463325252u;
static uint8_t buf[MOST * 2];
static uint64_t put, got;
static int nth;

static unsigned int rnd(unsigned int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned int)(seed >> 33) % n;
}

/* total octets in n pieces, some of them empty; the same draws in both roles. */
static int vector(struct iovec *v, size_t total)
{
	int n = 0, max = rnd(4) ? 1 + (int)rnd(20) : VEC;
	size_t at = 0;

	for (; n < max - 1; n++) {
		size_t k = rnd(3) ? rnd(40) : 0;

		if (at + k > total)
			break;
		v[n] = (struct iovec){ rnd(2) || k ? buf + at : NULL, k };
		at += k;
	}
	v[n++] = (struct iovec){ buf + at, total - at };
	return n;
}

static void one_send(int fd, bool mine)
{
	static struct iovec v[VEC];
	struct msghdr m = { .msg_iov = v };
	unsigned int how = rnd(9);
	size_t n = rnd(8) ? 1 + rnd(rnd(3) ? 300 : MOST) : 0;
	int cnt = vector(v, n), more = (int)rnd(2);
	ssize_t r;
	off_t o = 0;
	int f;

	t_fill(buf, n, put, 1);
	put += n;
	if (!mine)
		return;
	switch (how) {
	case 0:
		r = write(fd, buf, n);
		break;
	case 1:
		r = writev(fd, v, cnt);
		break;
	case 2:
		m.msg_iovlen = (size_t)cnt;
		r = sendmsg(fd, &m, MSG_DONTWAIT);
		break;
	case 3:
		r = send(fd, buf, n, more ? MSG_MORE : 0);
		if (more)
			ok(set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1));
		break;
	case 4:
		ok(set_int(fd, IPPROTO_TCP, TCP_CORK, 1));
		r = send(fd, buf, n / 2, 0);
		r += send(fd, buf + n / 2, n - n / 2, 0);
		ok(set_int(fd, IPPROTO_TCP, TCP_CORK, 0));
		break;
	case 5:
		f = (int)ok(memfd_create("f", 0));
		must(write(f, buf, n) == (ssize_t)n);
		r = sendfile(fd, f, &o, n + 10);
		must(o == (off_t)n);
		close(f);
		break;
	case 6:
		r = pwritev2(fd, v, cnt, -1, 0);
		break;
	case 7:
		ok(set_int(fd, IPPROTO_TCP, TCP_NODELAY, more));
		r = sendto(fd, buf, n, MSG_NOSIGNAL, NULL, 0);
		break;
	default:
		r = send(fd, buf, n, MSG_EOR);
		break;
	}
	say("%d: send %u of %zu: %zd %s", (int)(put % 1000), how, n, r, r < 0 ? t_errname(errno) : "");
	must(r == (ssize_t)n);
}

/* The flags beyond DONTWAIT. */
static const int flags_of[] = { 0, MSG_PEEK, MSG_WAITALL, MSG_PEEK | MSG_WAITALL, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_TRUNC | MSG_WAITALL, MSG_CMSG_CLOEXEC };

static void one_recv(int fd, bool mine)
{
	static struct iovec v[VEC];
	struct msghdr m = { .msg_iov = v, .msg_flags = -1, .msg_controllen = 0 };
	size_t left = (size_t)(put - got), len = rnd(3) ? rnd((unsigned int)left + 20) : rnd(60);
	int flags = flags_of[rnd(8)] | (rnd(2) ? MSG_DONTWAIT : 0), how = (int)rnd(4), low = rnd(4) || nth < STEPS / 2 ? 1 : (int)rnd(400), n = vector(v, len), have;
	ssize_t r;

	if (how == 3)
		flags = 0;
	if (mine) {
		t_readable(fd, (int)left);
		if (nth > STEPS / 2)
			ok(set_int(fd, SOL_SOCKET, SO_RCVLOWAT, low));
		memset(buf, 0, sizeof(buf));
		say_poll("before", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
		switch (how) {
		case 0:
			r = recv(fd, buf, len, flags);
			break;
		case 1:
			m.msg_iovlen = (size_t)n;
			r = recvmsg(fd, &m, flags);
			break;
		case 2:
			r = recvfrom(fd, buf, len, flags, NULL, NULL);
			break;
		default:
			r = readv(fd, v, n);
			break;
		}
		ok(ioctl(fd, FIONREAD, &have) );
		say("%d: recv %d of %zu, flags %x, lowat %d: %zd %s, msg_flags %x, left %d", (int)(got % 1000), how, len, flags, low, r, r < 0 ? t_errname(errno) : "",
		    how == 1 ? m.msg_flags : 0, have);
		if (r > 0 && !(flags & MSG_TRUNC))
			t_same(buf, (size_t)r, got, 1);
		if (r > 0 && !(flags & MSG_PEEK))
			got += (uint64_t)r;
		t_put(&got, sizeof(got));
	} else {
		t_get(&got, sizeof(got));
	}
}

static void steps(int fd, bool sends)
{
	for (; nth < STEPS; nth++) {
		if (put - got < MOST && (put == got || rnd(2)))
			one_send(fd, sends);
		t_sync();
		one_recv(fd, !sends);
	}
	close(fd);
}

static void server(int fd)
{
	struct timeval tv = { 0, 20000 };

	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	steps(fd, false);
}

static void client(int fd)
{
	steps(fd, true);
}

SOCK_PAIR(server, client)
