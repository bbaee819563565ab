// SPDX-License-Identifier: MIT
/*
 * Sending, receiving and closing: the same calls on a TCP connection and on a local stream (a socketpair with a page) must give
 * the same transcript; remote streams are set up in each close state by hand.
 */
#include "data_env.h"

/* ---- what is done on both ---- */

static void peer_closes(void)
{
	drop(&b);
	until(a, POLLIN | POLLRDHUP);
	events(a);
	x_name(a);
	x_recv(a, 5, 0);
	x_send(a, "x", 0);
	until(a, POLLHUP);
	events(a);
	x_name(a);
	x_recv(a, 5, 0);
	x_error(a);
	x_error(a);
	x_send(a, "x", 0);
	x_send(a, "x", MSG_NOSIGNAL);
	x_recv(a, 5, 0);
	events(a);
	x_shut(a, SHUT_WR);
}

static void peer_closes_then_writes(void)
{
	drop(&b);
	until(a, POLLIN | POLLRDHUP);
	step("zero", send(a, "", 0, 0));
	events(a);
	step("write", write(a, "abc", 3));
	until(a, POLLHUP);
	step("write", write(a, "abc", 3));
	step("write", write(a, "abc", 3));
	step("zero", write(a, "abc", 0));
	x_recv(a, 5, 0);
	x_error(a);
}

static void reset_then_send(void)
{
	x_send(a, "unread", 0);
	until(b, POLLIN);
	drop(&b);
	until(a, POLLHUP);
	events(a);
	x_name(a);
	x_send(a, "x", 0);
	x_send(a, "x", 0);
	x_recv(a, 5, 0);
	events(a);
	x_shut(a, SHUT_WR);
	x_shut(a, SHUT_RDWR);
}

static void reset_then_recv(void)
{
	x_send(a, "unread", 0);
	x_send(b, "tail", 0);
	until(b, POLLIN);
	until(a, POLLIN);
	drop(&b);
	until(a, POLLHUP);
	events(a);
	x_recv(a, 2, 0);
	x_recv(a, 9, 0);
	events(a);
	x_recv(a, 9, 0);
	x_recv(a, 9, 0);
	x_error(a);
	x_send(a, "x", 0);
	events(a);
}

static void reset_then_error(void)
{
	x_send(a, "unread", 0);
	until(b, POLLIN);
	drop(&b);
	until(a, POLLHUP);
	x_error(a);
	x_error(a);
	events(a);
	x_recv(a, 9, 0);
	x_send(a, "x", 0);
}

static void reset_then_peek(void)
{
	char c;

	x_send(a, "unread", 0);
	until(b, POLLIN);
	drop(&b);
	until(a, POLLHUP);
	step("peek", recv(a, &c, 1, MSG_PEEK));
	step("read", read(a, &c, 1));
	step("zero", recv(a, &c, 0, 0));
}

static void fin_then_reset(void)
{
	x_send(a, "unread", 0);
	until(b, POLLIN);
	x_shut(b, SHUT_WR);
	until(a, POLLRDHUP);
	events(a);
	drop(&b);
	until(a, POLLHUP);
	events(a);
	x_recv(a, 9, 0);
	x_error(a);
	x_send(a, "x", 0);
	x_name(a);
}

static void linger_set(int fd, int on)
{
	struct linger l = { on, 0 };

	step("linger", setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
}

/* What was sent before can be read, then the error, then the end. */
static void reset_behind(void)
{
	until(a, POLLHUP);
	events(a);
	x_recv(a, 9, 0);
	x_recv(a, 9, 0);
	x_recv(a, 9, 0);
}

static void linger_reset(void)
{
	linger_set(b, 1);
	x_send(b, "tail", 0);
	until(a, POLLIN);
	events(a);
	drop(&b);
	if (mode == LOCAL)
		drop(&tb);
	reset_behind();
}

/* The other library takes its end of the carrier behind the close. */
static void linger_before_join(void)
{
	if (mode == LOCAL) {
		atomic_store(&streams[0].flags, IW_PAGE_NEAR);
		atomic_store(&streams[1].flags, IW_PAGE_NEAR);
		atomic_store(&page->end[1].hand, IW_HAND_OFFERED);
	}
	linger_set(b, 1);
	x_send(b, "tail", 0);
	drop(&b);
	if (mode == LOCAL) {
		drop(&tb);
		atomic_store(&page->end[1].hand, IW_HAND_TAKEN);
	}
	reset_behind();
}

static void linger_taken_back(void)
{
	linger_set(b, 1);
	linger_set(b, 0);
	drop(&b);
	until(a, POLLRDHUP);
	events(a);
	x_recv(a, 9, 0);
}

static void half_close(void)
{
	x_shut(a, SHUT_WR);
	events(a);
	x_send(a, "x", 0);
	x_send(a, "x", MSG_NOSIGNAL);
	x_shut(a, SHUT_WR);
	x_recv(a, 5, 0);
	x_send(b, "abc", 0);
	until(a, POLLIN);
	x_recv(a, 9, 0);
	x_name(a);
	x_recv(b, 9, 0);
	events(b);
	x_shut(b, SHUT_WR);
	until(a, POLLHUP);
	until(b, POLLHUP);
	events(a);
	events(b);
	x_recv(a, 5, 0);
	x_name(a);
	x_name(b);
	x_shut(a, SHUT_RD);
	x_shut(b, SHUT_RDWR);
	x_send(b, "x", 0);
	x_recv(b, 5, 0);
	x_error(a);
	x_error(b);
}

static void shut_rd(void)
{
	x_send(b, "early", 0);
	until(a, POLLIN);
	x_shut(a, SHUT_RD);
	events(a);
	x_recv(a, 9, 0);
	x_recv(a, 9, 0);
	x_send(b, "late", 0);
	x_send(b, "later", 0);
	events(b);
	x_send(a, "x", 0);
	until(b, POLLIN);
	x_recv(b, 9, 0);
	x_shut(a, SHUT_RD);
	x_name(b);
}

static void shut_rdwr(void)
{
	x_shut(a, SHUT_RDWR);
	until(b, POLLRDHUP);
	events(a);
	events(b);
	x_recv(a, 5, 0);
	x_recv(b, 5, 0);
	x_name(a);
	x_send(b, "late", 0);
	until(b, POLLHUP);
	events(a);
	events(b);
	x_recv(a, 5, 0);
	x_recv(a, 5, 0);
	x_send(a, "x", 0);
	x_send(b, "x", 0);
	x_recv(b, 5, 0);
	x_name(a);
	x_name(b);
	x_shut(a, SHUT_RD);
}

static void shut_bad(void)
{
	x_shut(a, 3);
	x_shut(a, -1);
	x_shut(a, SHUT_RDWR);
	x_shut(a, SHUT_RDWR);
	until(b, POLLRDHUP);
	x_shut(b, SHUT_WR);
	until(a, POLLHUP);
	x_shut(a, SHUT_RDWR);
	x_shut(b, SHUT_WR);
}

static void recv_flags(void)
{
	char c[8];
	struct iovec v[2] = { { c, 2 }, { c + 2, 3 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	x_recv(a, 5, 0);
	x_recv(a, 0, 0);
	x_recv(a, 5, MSG_ERRQUEUE);
	x_recv(a, 5, MSG_OOB);
	x_send(b, "abcdefghij", 0);
	until(a, POLLIN);
	x_recv(a, 5, MSG_PEEK);
	x_recv(a, 0, 0);
	x_recv(a, 0, MSG_TRUNC);
	step("trunc", recv(a, NULL, 3, MSG_TRUNC | MSG_DONTWAIT));
	step("peek trunc", recv(a, NULL, 3, MSG_TRUNC | MSG_PEEK));
	step("peek trunc", recv(a, NULL, 100, MSG_TRUNC | MSG_PEEK));
	x_recv(a, 4, MSG_PEEK | MSG_WAITALL);
	x_recv(a, 40, MSG_PEEK | MSG_WAITALL);
	step("recvmsg trunc", recvmsg(a, &m, MSG_TRUNC));
	say("\tflags %x\n", m.msg_flags);
	x_recv(a, 5, MSG_WAITALL);
	x_recv(a, 5, MSG_TRUNC);
	x_recv(a, 5, MSG_WAITALL);
}

static void recv_msg(void)
{
	char c[3], big[64];
	struct iovec v = { c, 3 };
	struct sockaddr_in sin;
	char ctl[100];
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_name = &sin, .msg_namelen = sizeof(sin), .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	socklen_t l = sizeof(sin);

	x_send(b, "abcdefghijk", 0);
	until(a, POLLIN);
	data("recvmsg", c, recvmsg(a, &m, MSG_CMSG_CLOEXEC));
	say("\tname %u control %zu flags %x\n", m.msg_namelen, m.msg_controllen, m.msg_flags);
	data("recvfrom", big, recvfrom(a, big, 3, 0, (void *)&sin, &l));
	say("\tlen %u\n", l);
	l = (socklen_t)-1;
	step("recvfrom", recvfrom(a, big, 3, 0, (void *)&sin, &l));
	step("recvfrom", recvfrom(a, big, 3, 0, (void *)&sin, NULL));
	step("recvmsg", recvmsg(a, NULL, 0));
	step("recv", recv(a, NULL, 3, MSG_DONTWAIT));
	x_shut(b, SHUT_WR);
	until(a, POLLRDHUP);
	m.msg_namelen = sizeof(sin);
	m.msg_controllen = sizeof(ctl);
	step("recvmsg", recvmsg(a, &m, 0));
	say("\tname %u control %zu flags %x\n", m.msg_namelen, m.msg_controllen, m.msg_flags);
	l = sizeof(sin);
	step("recvfrom", recvfrom(a, big, 3, 0, (void *)&sin, &l));
	say("\tlen %u\n", l);
}

static void send_flags(void)
{
	static const int flags[] = { MSG_FASTOPEN, MSG_ZEROCOPY, MSG_MORE, MSG_EOR, MSG_DONTROUTE, MSG_CONFIRM, MSG_ERRQUEUE, MSG_WAITALL, MSG_PEEK, MSG_TRUNC, MSG_CTRUNC, MSG_SYN, MSG_RST, MSG_FIN, 0x40000 };
	struct sockaddr_in sin = { .sin_family = AF_INET };

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		x_send(a, "x", flags[i]);
	step("sendto", sendto(a, "y", 1, 0, (void *)&sin, sizeof(sin)));
	step("sendto", sendto(a, "y", 1, 0, (void *)&sin, 200));
	step("sendto", sendto(a, "y", 1, 0, (void *)&sin, (socklen_t)-1));
	step("sendto", sendto(a, "y", 1, 0, NULL, 200));
	until(b, POLLIN);
	x_recv(b, 60, 0);
	step("send", send(a, NULL, 3, 0));
	step("sendmsg", sendmsg(a, NULL, 0));
	x_recv(b, 60, 0);
}

static void control(int type, int level, int value, size_t len)
{
	union { struct cmsghdr h; char room[64]; } u = { .h = { .cmsg_len = len, .cmsg_level = level, .cmsg_type = type } };
	struct iovec v = { "z", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = CMSG_SPACE(4) };
	char what[48];

	memcpy(CMSG_DATA(&u.h), &value, sizeof(value));
	snprintf(what, sizeof(what), "control %d %d %zu", level, type, len);
	step(what, sendmsg(a, &m, 0));
}

static void send_control(void)
{
	char c[8], ctl[200];
	struct iovec v = { c, 8 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl) };

	control(SCM_RIGHTS, SOL_SOCKET, a, CMSG_LEN(4));
	control(SCM_CREDENTIALS, SOL_SOCKET, 0, CMSG_LEN(4));
	control(99, SOL_SOCKET, 0, CMSG_LEN(4));
	control(61 /* SCM_TXTIME */, SOL_SOCKET, 0, CMSG_LEN(4));
	control(1, IPPROTO_IP, 0, CMSG_LEN(4));
	control(1, IPPROTO_TCP, 0, CMSG_LEN(4));
	control(SCM_RIGHTS, SOL_SOCKET, 0, 3);
	control(SCM_RIGHTS, SOL_SOCKET, 0, 5000);
	until(b, POLLIN);
	data("recvmsg", c, recvmsg(b, &m, 0));
	say("\tcontrol %zu flags %x\n", m.msg_controllen, m.msg_flags);
}

static void vectors(void)
{
	static struct iovec many[1100];
	char c[6] = "", rest[6] = "";
	struct iovec v[3] = { { c, 2 }, { NULL, 0 }, { rest, 4 } }, w[2] = { { "abc", 3 }, { "def", 3 } }, none = { c, 0 };
	struct msghdr m = { .msg_iov = many, .msg_iovlen = 1100 };

	for (int i = 0; i < 1100; i++)
		many[i] = (struct iovec){ c, 1 };
	step("writev", writev(a, w, 2));
	step("writev 0", writev(a, w, 0));
	step("writev -1", writev(a, w, -1));
	step("writev many", writev(a, many, 1100));
	step("writev empty", writev(a, &none, 1));
	step("sendmsg many", sendmsg(a, &m, 0));
	m.msg_iovlen = 0;
	step("sendmsg none", sendmsg(a, &m, 0));
	step("pwritev2", pwritev2(a, w, 2, -1, RWF_NOWAIT));
	step("pwritev2 0", pwritev2(a, w, 2, 0, 0));
	step("pwritev2 1", pwritev2(a, w, 2, 1, 0));
	step("pwritev2 bad", pwritev2(a, w, 2, -1, 0x4000));
	until(b, POLLIN);
	step("readv", readv(b, v, 3));
	say("\t%.2s %.4s\n", c, rest);
	step("readv 0", readv(b, v, 0));
	step("readv many", readv(b, many, 1100));
	step("readv -1", readv(b, v, -1));
	step("preadv2", preadv2(b, v, 3, -1, RWF_NOWAIT));
	step("preadv2", preadv2(b, v, 3, -1, RWF_NOWAIT));
	step("preadv2 1", preadv2(b, v, 3, 1, 0));
	step("read 0", read(b, c, 0));
	x_shut(a, SHUT_WR);
	until(b, POLLRDHUP);
	step("writev empty", writev(a, &none, 1));
	step("writev", writev(a, w, 2));
	step("pwritev2", pwritev2(a, w, 2, -1, 0));
	step("pwritev2 empty", pwritev2(a, &none, 1, -1, 0));
	step("pwritev2 sync", pwritev2(a, w, 2, -1, RWF_SYNC));
	step("readv", readv(b, v, 3));
	step("preadv2", preadv2(b, v, 3, -1, 0));
	step("read", read(b, c, 3));
}

static void many_messages(void)
{
	char c[4][4] = { "" };
	struct iovec v[4], w[2] = { { "abcdef", 6 }, { "ghi", 3 } };
	struct mmsghdr r[4] = { 0 }, s[2] = { 0 };
	struct timespec t = { 0, 50000000 };
	int n;

	for (int i = 0; i < 4; i++) {
		v[i] = (struct iovec){ c[i], 4 };
		r[i].msg_hdr = (struct msghdr){ .msg_iov = &v[i], .msg_iovlen = 1 };
	}
	for (int i = 0; i < 2; i++)
		s[i].msg_hdr = (struct msghdr){ .msg_iov = &w[i], .msg_iovlen = 1 };
	step("recvmmsg", recvmmsg(b, r, 4, MSG_DONTWAIT, NULL));
	step("sendmmsg", sendmmsg(a, s, 2, 0));
	say("\t%u %u\n", s[0].msg_len, s[1].msg_len);
	until(b, POLLIN);
	n = recvmmsg(b, r, 4, MSG_WAITFORONE, &t);
	step("recvmmsg", n);
	for (int i = 0; i < n; i++)
		say("\t%u %.4s\n", r[i].msg_len, c[i]);
	t.tv_nsec = -1;
	step("recvmmsg", recvmmsg(b, r, 4, MSG_DONTWAIT, &t));
	step("recvmmsg", recvmmsg(b, r, 0, MSG_DONTWAIT, NULL));
	x_send(b, "unread", 0);
	step("sendmmsg", sendmmsg(a, s, 1, 0));
	until(b, POLLIN);
	until(a, POLLIN);
	drop(&a);
	until(b, POLLHUP);
	n = recvmmsg(b, r, 4, 0, NULL);
	step("recvmmsg", n);
	for (int i = 0; i < n; i++)
		say("\t%u %.4s\n", r[i].msg_len, r[i].msg_len ? c[i] : "");
	step("sendmmsg", sendmmsg(b, s, 2, 0));
	step("sendmmsg", sendmmsg(b, s, 2, 0));
}

static void files(void)
{
	int f = memfd_create("x", 0), p[2];
	char c[16];
	off_t off = 2;

	assert_int_equal(iw_real.write(f, "0123456789", 10), 10);
	step("sendfile", sendfile(a, f, &off, 4));
	say("\toff %ld\n", (long)off);
	until(b, POLLIN);
	x_recv(b, 16, 0);
	assert_false(pipe(p));
	assert_int_equal(iw_real.write(p[1], "piped", 5), 5);
	step("splice out", splice(p[0], NULL, a, NULL, 5, 0));
	until(b, POLLIN);
	step("splice in", splice(b, NULL, p[1], NULL, 16, 0));
	data("pipe", c, iw_real.read(p[0], c, 16));
	assert_false(fcntl(b, F_SETFL, O_NONBLOCK));
	step("splice in", splice(b, NULL, p[1], NULL, 16, SPLICE_F_NONBLOCK));
	x_shut(a, SHUT_WR);
	until(b, POLLRDHUP);
	step("splice in", splice(b, NULL, p[1], NULL, 16, 0));
	off = 0;
	step("sendfile", sendfile(a, f, &off, 4));
	assert_int_equal(iw_real.write(p[1], "piped", 5), 5);
	step("splice out", splice(p[0], NULL, a, NULL, 5, 0));
	step("pread", pread(a, c, 1, 0));
	step("pwrite", pwrite(a, c, 1, 0));
	close(f);
	close(p[0]);
	close(p[1]);
}

static void splice_reset(void)
{
	int p[2];

	assert_false(pipe(p));
	x_send(a, "unread", 0);
	until(b, POLLIN);
	drop(&b);
	until(a, POLLHUP);
	step("splice", splice(a, NULL, p[1], NULL, 16, 0));
	step("splice", splice(a, NULL, p[1], NULL, 16, 0));
	close(p[0]);
	close(p[1]);
}

/* A send whose reader goes away in the middle. */
static void *closes_b(void *arg)
{
	char c[4096];

	iw_real.read(b, c, sizeof(c));
	iw_real.recv(b, c, 1, MSG_PEEK);
	close(b);	/* with octets unread: a reset */
	return NULL;
}

static void send_interrupted_by_reset(void)
{
	static char big[64 << 20];
	pthread_t t;
	ssize_t n;

	assert_false(pthread_create(&t, NULL, closes_b, NULL));
	n = write(a, big, sizeof(big));
	pthread_join(t, NULL);
	atomic_store(&iw_fdtab[b], 0);
	b = -1;
	say("short %d\n", n > 0 && n < (ssize_t)sizeof(big));
	until(a, POLLHUP);
	step("write", write(a, "x", 1));
	step("write", write(a, "x", 1));
	x_recv(a, 1, 0);
}

/* ---- remote streams ---- */

static void remote_fin(void **state)
{
	char c;

	remote_open();
	assert_int_equal(iw_real.send(d, "x", 1, 0), 1);
	atomic_store(&page->end[0].close_state, IW_CLOSE_FIN);
	iw_real.shutdown(d, SHUT_WR);
	assert_int_equal(revents(ALLEV), ALLEV);
	want(recv(a, &c, 1, 0), 1, 0);
	want(recv(a, &c, 1, 0), 0, 0);
	want(read(a, &c, 1), 0, 0);
	want(send(a, "x", 1, 0), 1, 0);
	want(getpeername(a, (void *)&(struct sockaddr_in){ 0 }, &(socklen_t){ 16 }), 0, 0);
	want(shutdown(a, SHUT_WR), 0, 0);
	assert_int_equal(revents(ALLEV), ALLEV | POLLHUP);
	want(shutdown(a, SHUT_WR), -1, ENOTCONN);
	want(getpeername(a, (void *)&(struct sockaddr_in){ 0 }, &(socklen_t){ 16 }), -1, ENOTCONN);
	daemon_gone();
	want(recv(a, &c, 1, 0), 0, 0);
	assert_int_equal(revents(ALLEV), ALLEV | POLLHUP);
	remote_close();
}

/* EOF without a recorded FIN is a reset, once, then end of stream. */
static void remote_daemon_dies(void **state)
{
	char c[4];
	int e = 0;
	socklen_t l = sizeof(e);

	remote_open();
	assert_int_equal(iw_real.send(d, "xy", 2, 0), 2);
	daemon_gone();
	assert_int_equal(revents(ALLEV), ALLEV | POLLHUP | POLLERR);
	want(recv(a, c, 2, 0), 2, 0);
	want(recv(a, c, 2, 0), -1, ECONNRESET);
	want(recv(a, c, 2, 0), 0, 0);
	assert_int_equal(revents(ALLEV), ALLEV | POLLHUP);
	want(send(a, c, 2, MSG_NOSIGNAL), -1, EPIPE);
	want(getsockopt(a, SOL_SOCKET, SO_ERROR, &e, &l), 0, 0);
	assert_int_equal(e, 0);
	want(getpeername(a, (void *)c, &l), -1, ENOTCONN);
	remote_close();

	remote_open();
	daemon_gone();
	sigpipes = 0;
	want(send(a, c, 2, 0), -1, ECONNRESET);
	assert_int_equal(sigpipes, 0);
	want(send(a, c, 2, 0), -1, EPIPE);
	assert_int_not_equal(sigpipes, 0);
	want(recv(a, c, 2, 0), 0, 0);
	remote_close();

	remote_open();
	daemon_gone();
	want(getsockopt(a, SOL_SOCKET, SO_ERROR, &e, &l), 0, 0);
	assert_int_equal(e, ECONNRESET);
	want(recv(a, c, 2, 0), 0, 0);
	remote_close();
}

static void remote_dies_with_unread(void **state)
{
	char c[4];

	remote_open();
	want(send(a, "ab", 2, 0), 2, 0);
	daemon_gone();
	assert_int_equal(revents(ALLEV), ALLEV | POLLHUP | POLLERR);
	want(recv(a, c, 2, 0), -1, ECONNRESET);
	want(recv(a, c, 2, 0), 0, 0);
	want(send(a, c, 2, MSG_NOSIGNAL), -1, EPIPE);
	assert_int_equal(revents(ALLEV), ALLEV | POLLHUP);
	remote_close();
}

static void remote_reset(void **state)
{
	char c[4];
	int e = 0;
	socklen_t l = sizeof(e);

	remote_open();
	atomic_store(&page->end[0].close_errno, ETIMEDOUT);
	atomic_store(&page->end[0].close_state, IW_CLOSE_RESET);
	daemon_gone();
	want(read(a, c, 1), -1, ETIMEDOUT);
	want(read(a, c, 1), 0, 0);
	remote_close();

	/* after FIN: EPIPE, and the reader sees an ordinary end */
	remote_open();
	atomic_store(&page->end[0].close_state, IW_CLOSE_FIN);
	iw_real.shutdown(d, SHUT_WR);
	want(recv(a, c, 1, 0), 0, 0);
	daemon_gone();
	assert_int_equal(revents(ALLEV), ALLEV | POLLHUP | POLLERR);
	want(recv(a, c, 1, 0), 0, 0);
	want(getsockopt(a, SOL_SOCKET, SO_ERROR, &e, &l), 0, 0);
	assert_int_equal(e, EPIPE);
	want(send(a, c, 1, MSG_NOSIGNAL), -1, EPIPE);
	assert_int_equal(revents(ALLEV), ALLEV | POLLHUP);
	remote_close();
}

static void remote_urgent(void **state)
{
	char c;

	remote_open();
	want(send(a, "x", 1, MSG_OOB), -1, EOPNOTSUPP);
	want(recv(a, &c, 1, MSG_OOB), -1, EINVAL);
	remote_close();
}

static void *late_writer(void *arg)
{
	struct timespec t = { 0, 20000000 };

	nanosleep(&t, NULL);
	assert_int_equal(iw_real.send(d, "def", 3, 0), 3);
	return NULL;
}

static void peek_waits_for_all(void **state)
{
	char c[8] = "";
	int n = 0, timeo_set;
	struct timeval tv = { 0, 30000 };
	pthread_t t;

	remote_open();
	assert_int_equal(iw_real.send(d, "abc", 3, 0), 3);
	assert_false(pthread_create(&t, NULL, late_writer, NULL));
	want(recv(a, c, 6, MSG_PEEK | MSG_WAITALL), 6, 0);
	assert_memory_equal(c, "abcdef", 6);
	pthread_join(t, NULL);
	want(ioctl(a, FIONREAD, &n), 0, 0);
	assert_int_equal(n, 6);
	timeo_set = setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	assert_int_equal(timeo_set, 0);
	want(recv(a, c, 8, MSG_PEEK | MSG_WAITALL), 6, 0);
	want(recv(a, c, 8, MSG_WAITALL), 6, 0);
	want(recv(a, c, 8, MSG_PEEK | MSG_WAITALL), -1, EAGAIN);
	remote_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DUAL(peer_closes), DUAL(peer_closes_then_writes), DUAL(reset_then_send), DUAL(reset_then_recv), DUAL(reset_then_error),
		DUAL(reset_then_peek), DUAL(fin_then_reset), DUAL(linger_reset), DUAL(linger_before_join), DUAL(linger_taken_back), DUAL(half_close),
		DUAL(shut_rd), DUAL(shut_rdwr), DUAL(shut_bad), DUAL(recv_flags), DUAL(recv_msg), DUAL(send_flags), DUAL(send_control),
		DUAL(vectors), DUAL(many_messages), DUAL(files), DUAL(splice_reset), DUAL(send_interrupted_by_reset),
		cmocka_unit_test(remote_fin), cmocka_unit_test(remote_daemon_dies), cmocka_unit_test(remote_dies_with_unread),
		cmocka_unit_test(remote_reset), cmocka_unit_test(remote_urgent), cmocka_unit_test(peek_waits_for_all),
	};

	return data_main("data", tests, sizeof(tests) / sizeof(tests[0]));
}
