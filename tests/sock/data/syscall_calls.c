// SPDX-License-Identifier: MIT
/* Every call of a socket's made by syscall(), in turns with libc's own: what they move is in its order, and they answer what the kernel does. */
#include "../sock.h"

#define TURNS	50
#define LEN	5

static long put(int fd, int how, char *p, int file)
{
	struct iovec v[2] = { { p, 2 }, { p + 2, LEN - 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	struct mmsghdr mm = { .msg_hdr = m };
	int pipes[2];
	long n;

	switch (how) {
	case 0: return syscall(SYS_write, fd, p, LEN);
	case 1: return send(fd, p, LEN, 0);
	case 2: return syscall(SYS_sendto, fd, p, LEN, MSG_NOSIGNAL, NULL, 0);
	case 3: return syscall(SYS_writev, fd, v, 2);
	case 4: return syscall(SYS_sendmsg, fd, &m, 0);
	case 5: return syscall(SYS_sendmmsg, fd, &mm, 1, 0) == 1 ? (long)mm.msg_len : -1;
	case 6: return syscall(SYS_pwritev2, fd, v, 2, -1L, -1L, 0);
	case 7:
		must(pwrite(file, p, LEN, 0) == LEN);
		return syscall(SYS_sendfile, fd, file, &(off_t){ 0 }, LEN);
	default:
		ok(pipe(pipes));
		must(write(pipes[1], p, LEN) == LEN);
		n = syscall(SYS_splice, pipes[0], NULL, fd, NULL, LEN, 0);
		close(pipes[0]);
		close(pipes[1]);
		return n;
	}
}
#define PUTS	9

static long get(int fd, int how, char *p)
{
	struct iovec v[2] = { { p, 2 }, { p + 2, LEN - 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	struct mmsghdr mm = { .msg_hdr = m };

	switch (how) {
	case 0: return recv(fd, p, LEN, 0);
	case 1: return syscall(SYS_read, fd, p, LEN);
	case 2: return syscall(SYS_recvfrom, fd, p, LEN, 0, NULL, NULL);
	case 3: return syscall(SYS_readv, fd, v, 2);
	case 4: return syscall(SYS_recvmsg, fd, &m, 0);
	case 5: return syscall(SYS_recvmmsg, fd, &mm, 1, 0, NULL) == 1 ? (long)mm.msg_len : -1;
	default: return syscall(SYS_preadv2, fd, v, 2, -1L, -1L, 0);
	}
}
#define GETS	7

static void names(int fd)
{
	struct sockaddr_storage a, b;
	socklen_t l = sizeof(a), m = sizeof(b);
	int v = 0;

	ok(syscall(SYS_getsockname, fd, &a, &l));
	ok(getsockname(fd, (void *)&b, &m));
	must(l == m && !memcmp(&a, &b, l));
	l = m = sizeof(a);
	ok(syscall(SYS_getpeername, fd, &a, &l));
	ok(getpeername(fd, (void *)&b, &m));
	must(l == m && !memcmp(&a, &b, l));
	l = sizeof(v);
	step("SO_TYPE", syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &v, &l));
	say("%d", v == SOCK_STREAM);
	step("TCP_NODELAY", syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)));
	say("%d", get_int(fd, IPPROTO_TCP, TCP_NODELAY));
}

static void server(int fd)
{
	char b[LEN], want[LEN + 1];

	for (int i = 0; i < TURNS; i++) {
		snprintf(want, sizeof(want), "%05d", i);
		t_readable(fd, LEN);
		must(get(fd, i % GETS, b) == LEN && !memcmp(b, want, LEN));
		must(put(fd, (i + 4) % PUTS % 7, b, -1) == LEN);
	}
	names(fd);
	ok(syscall(SYS_fcntl, fd, F_SETFL, O_RDWR | O_NONBLOCK));
	step("nothing yet", syscall(SYS_read, fd, b, LEN));
	t_sync();
	t_readable(fd, 2 * LEN);
	step("FIONREAD", syscall(SYS_ioctl, fd, FIONREAD, &(int){ 0 }));
	step("bad pointer", syscall(SYS_read, fd, 1L, LEN));
	step("whole", syscall(SYS_recvfrom, fd, b, 1, MSG_PEEK, NULL, NULL));
	step("first", syscall(SYS_read, fd, b, LEN));
	step("second", read(fd, b, LEN));
	say("%.5s", b);
	set_nonblock(fd, false);
	want_eof(fd);
	t_sync();
	close(fd);
}

static void client(int fd)
{
	int file = (int)ok(memfd_create("file", 0)), two, three;
	char b[LEN], p[LEN + 1], q[] = "later";

	for (int i = 0; i < TURNS; i++) {
		snprintf(p, sizeof(p), "%05d", i);
		must(put(fd, i % PUTS, p, file) == LEN);
		t_readable(fd, LEN);
		must(get(fd, (i + 3) % GETS, b) == LEN && !memcmp(b, p, LEN));
	}
	names(fd);
	t_sync();
	two = (int)ok(syscall(SYS_dup, fd));
	three = (int)ok(syscall(SYS_dup3, two, 100, O_CLOEXEC));
	must(three == 100);
	ok(syscall(SYS_close, fd));
	must(put(two, 0, p, file) == LEN && put(three, 2, q, file) == LEN);
	step("shutdown", syscall(SYS_shutdown, two, SHUT_WR));
	step("write", syscall(SYS_sendto, three, q, LEN, MSG_NOSIGNAL, NULL, 0));
	t_sync();
	ok(syscall(SYS_close_range, two, two, 0));
	step("closed", syscall(SYS_read, two, p, LEN));
	step("not a call", syscall(-1));
	close(three);
}

SOCK_PAIR(server, client)
