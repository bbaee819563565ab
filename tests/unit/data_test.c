// SPDX-License-Identifier: MIT
/*
 * The data path of the library without daemon and without preloading: the same calls on a TCP connection and on a local stream (a
 * socketpair with a page) must give the same transcript; remote streams are set up in each close state by hand.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* The library's entry points get names of their own here, so that the program itself is not intercepted. */
#define read iwt_read
#define write iwt_write
#define readv iwt_readv
#define writev iwt_writev
#define preadv2 iwt_preadv2
#define pwritev2 iwt_pwritev2
#define preadv64v2 iwt_preadv64v2
#define pwritev64v2 iwt_pwritev64v2
#define recv iwt_recv
#define recvfrom iwt_recvfrom
#define recvmsg iwt_recvmsg
#define recvmmsg iwt_recvmmsg
#define send iwt_send
#define sendto iwt_sendto
#define sendmsg iwt_sendmsg
#define sendmmsg iwt_sendmmsg
#define sendfile iwt_sendfile
#define sendfile64 iwt_sendfile64
#define splice iwt_splice
#define __read_chk iwt___read_chk
#define __recv_chk iwt___recv_chk
#define __recvfrom_chk iwt___recvfrom_chk
#define getsockopt iwt_getsockopt
#define setsockopt iwt_setsockopt
#define getsockname iwt_getsockname
#define getpeername iwt_getpeername
#define shutdown iwt_shutdown
#define ioctl iwt_ioctl
#define poll iwt_poll
#define ppoll iwt_ppoll
#define __poll_chk iwt___poll_chk
#define __ppoll_chk iwt___ppoll_chk
#define select iwt_select
#define pselect iwt_pselect
#define SYS_iwt_ppoll SYS_ppoll
#define SYS_iwt_shutdown SYS_shutdown
#define SYS_iwt_getsockopt SYS_getsockopt
#define SYS_iwt_setsockopt SYS_setsockopt
#define SYS_iwt_sendto SYS_sendto
#define SYS_iwt_ioctl SYS_ioctl

#include "../../preload/stream.h"
#include "../../proto/ctlmsg.h"

ssize_t read(int fd, void *buf, size_t len);
ssize_t write(int fd, const void *buf, size_t len);
ssize_t readv(int fd, const struct iovec *v, int n);
ssize_t writev(int fd, const struct iovec *v, int n);
ssize_t preadv2(int fd, const struct iovec *v, int n, off_t off, int flags);
ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t off, int flags);
ssize_t preadv64v2(int fd, const struct iovec *v, int n, off64_t off, int flags);
ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off64_t off, int flags);
ssize_t recv(int fd, void *buf, size_t len, int flags);
ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *a, socklen_t *l);
ssize_t recvmsg(int fd, struct msghdr *m, int flags);
int recvmmsg(int fd, struct mmsghdr *v, unsigned int n, int flags, struct timespec *t);
ssize_t send(int fd, const void *buf, size_t len, int flags);
ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *a, socklen_t l);
ssize_t sendmsg(int fd, const struct msghdr *m, int flags);
int sendmmsg(int fd, struct mmsghdr *v, unsigned int n, int flags);
ssize_t sendfile(int out, int in, off_t *off, size_t n);
ssize_t sendfile64(int out, int in, off64_t *off, size_t n);
ssize_t splice(int in, off64_t *pi, int out, off64_t *po, size_t n, unsigned int f);
int getsockopt(int fd, int level, int name, void *v, socklen_t *l);
int setsockopt(int fd, int level, int name, const void *v, socklen_t l);
int getsockname(int fd, struct sockaddr *a, socklen_t *l);
int getpeername(int fd, struct sockaddr *a, socklen_t *l);
int shutdown(int fd, int how);
int ioctl(int fd, unsigned long req, ...);
int poll(struct pollfd *p, nfds_t n, int ms);
int ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *m);
int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t);
int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *m);

#include "../../preload/data_rx.c"
#include "../../preload/tcpstate.c"
#include "../../preload/data_tx.c"
#define put_int opts_put_int
#include "../../preload/opts.c"
#undef put_int
#include "../../preload/opts_tcp.c"
#include "../../preload/ioctl.c"
#include "../../preload/names.c"
#include "../../preload/shutdown.c"
#include "../../preload/user.c"
#define begin poll_begin
#include "../../preload/poll.c"
#undef begin
#include "../../preload/select.c"

/* ---- the core, as far as the data path needs it ---- */

_Atomic uint32_t iw_fdtab[IW_FD_MAX], iw_connecting, iw_streams, iw_listeners_pending;
struct iw_real iw_real;

#define NSTREAMS 8
static struct iw_stream streams[NSTREAMS];
static int tcp_of[NSTREAMS];		/* the fake daemon's TCP socket */
static bool no_daemon;
static unsigned int rpcs;

static void real_init(void)
{
	/* the argument of # is not expanded, so it is libc's name */
#define X(ret, name, params, args, raw) *(void **)&iw_real.name = dlsym(RTLD_DEFAULT, #name);
	IW_REALS(X)
#undef X
	*(void **)&iw_real.ioctl = dlsym(RTLD_DEFAULT, "ioctl");
}

struct iw_stream *iw_stream_of(int fd)
{
	return &streams[atomic_load(&iw_fdtab[fd]) >> 4];
}

bool iw_stream_verify(int fd, struct iw_stream *s)
{
	return true;
}

int iw_stream_own(struct iw_stream *s, int fd)
{
	return no_daemon ? -ENOTCONN : 0;
}

enum iw_fd_kind iw_adopt_slow(int fd)
{
	return iw_fd_kind(fd);
}

void iw_fd_forget(int fd)
{
}

void iw_listeners_look(void)
{
}

void iw_rights_leaving_slow(const struct msghdr *m)
{
}

bool iw_ctl_up(void)
{
	return false;
}

void iw_epoll_look_again(int fd)
{
}

enum iw_fd_kind iw_connect_settle(int fd)
{
	return iw_fd_kind(fd);
}

int iw_connect_data(int fd, int flags)
{
	return iw_fd_kind(fd);
}

enum iw_fd_kind iw_connect_wait_begin(int fd)
{
	return iw_fd_kind(fd);
}

void iw_connect_wait_end(int fd)
{
}

void iw_tcp_plain(int fd, enum iw_reason reason)
{
}

void iw_ctl_init(void *msg, enum iw_ctl_type type, uint32_t seq)
{
	memset(msg, 0, sizeof(struct iw_ctl_hdr));
	((struct iw_ctl_hdr *)msg)->type = type;
}

/* The daemon: options of the stream's TCP socket, those of its list. */
int iw_rpc(void *msg, int fd_in, void *reply, size_t size, int fds[2])
{
	struct iw_ctl_opt *m = msg, *r = reply;
	int fd = tcp_of[m->stream_id - 1];
	socklen_t l = m->optlen;

	rpcs++;
	*r = *m;
	r->error = 0;
	if (m->h.type == IW_CTL_SETSOCKOPT)
		r->error = iw_real.setsockopt(fd, m->level, m->optname, m->val, l) ? errno : 0;
	else if (iw_real.getsockopt(fd, m->level, m->optname, r->val, &l))
		r->error = errno;
	r->optlen = l;
	return 0;
}

/* ---- pairs ---- */

static int a, b, ta, tb;	/* a, b: the ends under test; ta, tb: the TCP connection behind a stream */
static struct iw_page *page;
static enum { TCP, LOCAL } mode;

static void tcp_pair(int *x, int *y)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t l = sizeof(sin);
	int s = socket(AF_INET, SOCK_STREAM, 0);

	assert_false(bind(s, (void *)&sin, l));
	assert_false(listen(s, 1));
	assert_false(iw_real.getsockname(s, (void *)&sin, &l));
	*x = socket(AF_INET, SOCK_STREAM, 0);
	assert_false(connect(*x, (void *)&sin, l));
	*y = accept(s, NULL, NULL);
	assert_true(*y >= 0);
	close(s);
}

static void addr_of(struct iw_addr *to, int fd, bool peer)
{
	struct sockaddr_in sin;
	socklen_t l = sizeof(sin);

	assert_false((peer ? iw_real.getpeername : iw_real.getsockname)(fd, (void *)&sin, &l));
	memset(to, 0, sizeof(*to));
	to->family = AF_INET;
	to->port = ntohs(sin.sin_port);
	to->ip[10] = to->ip[11] = 0xff;
	memcpy(to->ip + 12, &sin.sin_addr, 4);
}

static void make_stream(int fd, unsigned int i, uint16_t flags, unsigned int end, int tcp)
{
	struct iw_stream *s = &streams[i];

	memset(s, 0, sizeof(*s));
	s->flags = flags;
	s->end = end;
	s->stream_id = i + 1;
	s->page = page;
	page->flags = flags;
	addr_of(&page->end[end].local, tcp, false);
	addr_of(&page->end[end].peer, tcp, true);
	tcp_of[i] = tcp;
	atomic_store(&iw_fdtab[fd], IW_FD_STREAM | i << 4);
	atomic_fetch_add(&iw_streams, 1);
}

static void pair_open(void)
{
	int v[2];

	tcp_pair(&ta, &tb);
	a = ta;
	b = tb;
	if (mode == TCP)
		return;
	memset(page, 0, IW_PAGE_SIZE);
	assert_false(socketpair(AF_UNIX, SOCK_STREAM, 0, v));
	a = v[0];
	b = v[1];
	make_stream(a, 0, IW_PAGE_LOCAL, 0, ta);
	make_stream(b, 1, IW_PAGE_LOCAL, 1, tb);
}

static void drop(int *fd)
{
	if (*fd >= 0 && atomic_exchange(&iw_fdtab[*fd], 0))
		atomic_fetch_sub(&iw_streams, 1);
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void pair_close(void)
{
	if (mode == TCP) {
		drop(&a);
		drop(&b);
		return;
	}
	drop(&a);
	drop(&b);
	drop(&ta);
	drop(&tb);
}

/* ---- transcripts ---- */

static char out[2][16384];
static size_t used[2];
static volatile sig_atomic_t sigpipes;

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	used[mode] += (size_t)vsnprintf(out[mode] + used[mode], sizeof(out[mode]) - used[mode], fmt, ap);
	va_end(ap);
	assert_true(used[mode] < sizeof(out[mode]));
}

static void step(const char *what, long r)
{
	int err = errno;

	say("%s %ld %s%s\n", what, r, r < 0 ? strerrorname_np(err) : "", sigpipes ? " SIGPIPE" : "");
	sigpipes = 0;
}

static void data(const char *what, const void *p, ssize_t r)
{
	step(what, r);
	if (r > 0)
		say("\t%.*s\n", (int)r, (const char *)p);
}

static void events(int fd)
{
	static const struct { short bit; const char *name; } names[] = {
		{ POLLIN, "IN" }, { POLLPRI, "PRI" }, { POLLOUT, "OUT" }, { POLLERR, "ERR" }, { POLLHUP, "HUP" }, { POLLNVAL, "NVAL" },
		{ POLLRDNORM, "RDN" }, { POLLRDBAND, "RDB" }, { POLLWRNORM, "WRN" }, { POLLWRBAND, "WRB" }, { POLLRDHUP, "RDHUP" },
	};
	struct pollfd p = { .fd = fd, .events = 0x23ff & ~(POLLERR | POLLHUP | POLLNVAL) };
	int r = poll(&p, 1, 0);

	say("poll %s %d:", fd == a ? "a" : "b", r);
	for (size_t i = 0; r > 0 && i < sizeof(names) / sizeof(names[0]); i++)
		if (p.revents & names[i].bit)
			say(" %s", names[i].name);
	say("\n");
}

/* Until the other end's kernel has acted (loopback TCP does so before the call returns, but for the softirq that was pushed off). */
static void until(int fd, short bits)
{
	struct pollfd p = { .fd = fd, .events = bits };

	for (int i = 0; i < 2000; i++) {
		p.revents = 0;
		poll(&p, 1, 1);
		if ((p.revents & bits) == bits)
			return;
	}
	fail_msg("%s: poll bits %x did not come, only %x", mode == TCP ? "TCP" : "stream", bits, p.revents);
}

static void x_recv(int fd, size_t n, int flags)
{
	char buf[64] = "", what[64];

	snprintf(what, sizeof(what), "recv %s %zu %#x", fd == a ? "a" : "b", n, flags);
	data(what, buf, recv(fd, buf, n, flags | MSG_DONTWAIT));
}

static void x_send(int fd, const char *s, int flags)
{
	char what[64];

	snprintf(what, sizeof(what), "send %s %s %#x", fd == a ? "a" : "b", s, flags);
	step(what, send(fd, s, strlen(s), flags | MSG_DONTWAIT));
}

static void x_name(int fd)
{
	struct sockaddr_in sin = { 0 }, me, other;
	socklen_t l = sizeof(sin);

	iw_real.getsockname(fd == a ? ta : tb, (void *)&me, &l);
	step("sockname", getsockname(fd, (void *)&sin, &l));
	say("\tfamily %d len %u own %d\n", sin.sin_family, l, sin.sin_port == me.sin_port);
	l = sizeof(other);
	step("peername", getpeername(fd, (void *)&other, &l));
}

static void x_error(int fd)
{
	int e = -1;
	socklen_t l = sizeof(e);

	step("SO_ERROR", getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &l));
	say("\t%s len %u\n", e ? strerrorname_np(e) : "0", l);
}

static void x_shut(int fd, int how)
{
	char what[32];

	snprintf(what, sizeof(what), "shutdown %s %d", fd == a ? "a" : "b", how);
	step(what, shutdown(fd, how));
}

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

static void linger_reset(void)
{
	struct linger l = { 1, 0 };

	step("linger", setsockopt(b, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	x_send(b, "tail", 0);
	until(a, POLLIN);
	events(a);
	drop(&b);
	if (mode == LOCAL)
		drop(&tb);
	until(a, POLLHUP);
	events(a);
	x_recv(a, 9, 0);
	x_recv(a, 9, 0);
	x_recv(a, 9, 0);
}

static void linger_taken_back(void)
{
	struct linger l = { 1, 0 };

	step("linger", setsockopt(b, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	l.l_onoff = 0;
	step("linger", setsockopt(b, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
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
	char c[3], d[64];
	struct iovec v = { c, 3 };
	struct sockaddr_in sin;
	char ctl[100];
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_name = &sin, .msg_namelen = sizeof(sin), .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	socklen_t l = sizeof(sin);

	x_send(b, "abcdefghijk", 0);
	until(a, POLLIN);
	data("recvmsg", c, recvmsg(a, &m, MSG_CMSG_CLOEXEC));
	say("\tname %u control %zu flags %x\n", m.msg_namelen, m.msg_controllen, m.msg_flags);
	data("recvfrom", d, recvfrom(a, d, 3, 0, (void *)&sin, &l));
	say("\tlen %u\n", l);
	l = (socklen_t)-1;
	step("recvfrom", recvfrom(a, d, 3, 0, (void *)&sin, &l));
	step("recvfrom", recvfrom(a, d, 3, 0, (void *)&sin, NULL));
	step("recvmsg", recvmsg(a, NULL, 0));
	step("recv", recv(a, NULL, 3, MSG_DONTWAIT));
	x_shut(b, SHUT_WR);
	until(a, POLLRDHUP);
	m.msg_namelen = sizeof(sin);
	m.msg_controllen = sizeof(ctl);
	step("recvmsg", recvmsg(a, &m, 0));
	say("\tname %u control %zu flags %x\n", m.msg_namelen, m.msg_controllen, m.msg_flags);
	l = sizeof(sin);
	step("recvfrom", recvfrom(a, d, 3, 0, (void *)&sin, &l));
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
	char c[6] = "", d[6] = "";
	struct iovec v[3] = { { c, 2 }, { NULL, 0 }, { d, 4 } }, w[2] = { { "abc", 3 }, { "def", 3 } }, none = { c, 0 };
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
	step("pwritev2 1", pwritev2(a, w, 2, 1, 0));
	step("pwritev2 bad", pwritev2(a, w, 2, -1, 0x4000));
	until(b, POLLIN);
	step("readv", readv(b, v, 3));
	say("\t%.2s %.4s\n", c, d);
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

static void x_get(int level, int name, const char *text, int how)
{
	unsigned char v[256] = { 0 };
	socklen_t l = sizeof(v);
	int r = getsockopt(a, level, name, v, &l), first;

	step(text, r);
	if (r < 0)
		return;
	memcpy(&first, v, sizeof(first));
	if (how)
		say("\tlen %u value %d\n", l, how > 1 ? !!first : first);
}

static void x_set(int level, int name, const char *text, int v)
{
	char what[64];

	snprintf(what, sizeof(what), "set %s %d", text, v);
	step(what, setsockopt(a, level, name, &v, sizeof(v)));
	x_get(level, name, text, 1);
}

#define GET(level, name) x_get(level, name, #name, 1)
#define SET(level, name, v) x_set(level, name, #name, v)

static void options(void)
{
	GET(SOL_SOCKET, SO_TYPE);
	GET(SOL_SOCKET, SO_DOMAIN);
	GET(SOL_SOCKET, SO_PROTOCOL);
	GET(SOL_SOCKET, SO_ACCEPTCONN);
	GET(SOL_SOCKET, SO_ERROR);
	GET(SOL_SOCKET, SO_PEERCRED);
	GET(SOL_SOCKET, SO_PEERGROUPS);
	GET(SOL_SOCKET, SO_PASSCRED);
	GET(SOL_SOCKET, SO_LINGER);
	GET(SOL_SOCKET, SO_TIMESTAMP);
	GET(SOL_SOCKET, SO_ZEROCOPY);
	GET(SOL_SOCKET, SO_OOBINLINE);
	GET(SOL_SOCKET, SO_RCVLOWAT);
	GET(SOL_SOCKET, SO_SNDLOWAT);
	GET(SOL_SOCKET, 9999);
	GET(9999, 1);
	GET(IPPROTO_TCP, 9999);
	GET(IPPROTO_TCP, TCP_NODELAY);
	GET(IPPROTO_TCP, TCP_CORK);
	GET(IPPROTO_TCP, TCP_NOTSENT_LOWAT);
	x_get(IPPROTO_TCP, TCP_MAXSEG, "TCP_MAXSEG", 2);
	x_get(IPPROTO_TCP, TCP_CONGESTION, "TCP_CONGESTION", 1);
	GET(IPPROTO_TCP, TCP_ULP);
	GET(IPPROTO_IP, IP_TTL);
	GET(IPPROTO_IPV6, IPV6_V6ONLY);
	SET(SOL_SOCKET, SO_KEEPALIVE, 1);
	SET(SOL_SOCKET, SO_REUSEADDR, 1);
	SET(SOL_SOCKET, SO_BROADCAST, 1);
	SET(SOL_SOCKET, SO_PRIORITY, 3);
	SET(SOL_SOCKET, SO_OOBINLINE, 1);
	SET(SOL_SOCKET, SO_OOBINLINE, 0);
	SET(SOL_SOCKET, SO_SNDBUF, 20000);
	SET(SOL_SOCKET, SO_SNDBUF, 1);
	SET(SOL_SOCKET, SO_RCVBUF, 30000);
	SET(SOL_SOCKET, SO_RCVLOWAT, 5);
	SET(SOL_SOCKET, SO_RCVLOWAT, 1);
	SET(SOL_SOCKET, SO_TYPE, 1);
	SET(SOL_SOCKET, SO_ERROR, 1);
	SET(SOL_SOCKET, 9999, 1);
	SET(IPPROTO_TCP, TCP_NODELAY, 1);
	SET(IPPROTO_TCP, TCP_NODELAY, 0);
	SET(IPPROTO_TCP, TCP_CORK, 7);
	SET(IPPROTO_TCP, TCP_CORK, 0);
	SET(IPPROTO_TCP, TCP_KEEPIDLE, 33);
	SET(IPPROTO_TCP, TCP_KEEPIDLE, 0);
	SET(IPPROTO_TCP, TCP_USER_TIMEOUT, 12345);
	SET(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 4096);
	SET(IPPROTO_IP, IP_TOS, 0x10);
	SET(IPPROTO_IP, IP_TTL, 0);
	step("ulp", setsockopt(a, IPPROTO_TCP, TCP_ULP, "nonesuch", 8));
	step("congestion", setsockopt(a, IPPROTO_TCP, TCP_CONGESTION, "nonesuch", 8));
	step("short", setsockopt(a, IPPROTO_TCP, TCP_NODELAY, "a", 1));
	step("short", setsockopt(a, SOL_SOCKET, SO_KEEPALIVE, "a", 1));
	step("null", setsockopt(a, IPPROTO_TCP, TCP_NODELAY, NULL, 4));
	step("null", setsockopt(a, SOL_SOCKET, SO_KEEPALIVE, NULL, 4));
}

static void option_lengths(void)
{
	static int heap[4];	/* not on the stack */
	struct timeval tv = { 1, 500000 }, got;
	struct tcp_info ti = { 0 };
	socklen_t l = 2;

	step("get 2", getsockopt(a, IPPROTO_TCP, TCP_NODELAY, heap, &l));
	say("\t%u\n", l);
	l = 0;
	step("get 0", getsockopt(a, SOL_SOCKET, SO_TYPE, heap, &l));
	say("\t%u\n", l);
	l = (socklen_t)-1;
	step("get -1", getsockopt(a, SOL_SOCKET, SO_PROTOCOL, heap, &l));
	l = 4;
	step("null", getsockopt(a, SOL_SOCKET, SO_DOMAIN, NULL, &l));
	step("null len", getsockopt(a, SOL_SOCKET, SO_DOMAIN, heap, NULL));
	step("bad", getsockopt(a, SOL_SOCKET, SO_DOMAIN, (void *)-4096, &l));
	step("set timeo", setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	l = sizeof(got);
	step("get timeo", getsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &got, &l));
	say("\t%u %ld %ld\n", l, (long)got.tv_sec, (long)got.tv_usec);
	l = sizeof(ti);
	step("info", getsockopt(a, IPPROTO_TCP, TCP_INFO, &ti, &l));
	say("\t%u state %u\n", l, ti.tcpi_state);
	x_shut(a, SHUT_WR);
	until(b, POLLRDHUP);
	l = sizeof(ti);
	getsockopt(a, IPPROTO_TCP, TCP_INFO, &ti, &l);
	say("\tstate %u\n", ti.tcpi_state == 4 ? 5 : ti.tcpi_state);	/* FIN_WAIT1 until the FIN is acknowledged */
	l = sizeof(ti);
	getsockopt(b, IPPROTO_TCP, TCP_INFO, &ti, &l);
	say("\tstate %u\n", ti.tcpi_state);
}

static void names(void)
{
	static char room[64];
	socklen_t l = sizeof(room);

	x_name(a);
	x_name(b);
	l = 4;
	step("short", getsockname(a, (void *)room, &l));
	say("\t%u %d\n", l, room[0]);
	l = (socklen_t)-1;
	step("negative", getpeername(a, (void *)room, &l));
	l = 16;
	step("null", getpeername(a, NULL, &l));
	step("null len", getsockname(a, (void *)room, NULL));
	l = 0;
	step("zero", getpeername(a, NULL, &l));
	say("\t%u\n", l);
}

static void x_ioctl(int fd, unsigned long req, const char *text, int in)
{
	int v = in;

	step(text, ioctl(fd, req, &v));
	say("\t%d\n", v);
}

static void ioctls(void)
{
	char ifr[40] = "lo";

	x_ioctl(a, FIONREAD, "FIONREAD", -1);
	x_ioctl(a, TIOCOUTQ, "SIOCOUTQ", -1);
	x_ioctl(a, 0x894b, "SIOCOUTQNSD", -1);
	x_ioctl(a, 0x8905, "SIOCATMARK", -1);
	x_send(b, "abcd", 0);
	until(a, POLLIN);
	x_ioctl(a, FIONREAD, "FIONREAD", -1);
	x_ioctl(b, TIOCOUTQ, "SIOCOUTQ", -1);
	x_ioctl(a, FIONBIO, "FIONBIO", 1);
	say("\tflags %d\n", fcntl(a, F_GETFL) & O_NONBLOCK);
	x_ioctl(a, FIONBIO, "FIONBIO", 0);
	x_ioctl(a, 0x8901, "FIOSETOWN", getpid());
	x_ioctl(a, 0x5401, "TCGETS", 0);
	step("isatty", isatty(a));
	step("SIOCGIFINDEX", ioctl(a, 0x8933, ifr));
	step("SIOCGIFADDR", ioctl(a, 0x8915, ifr));
	step("SIOCGIFADDR bad", ioctl(a, 0x8915, NULL));
	step("SIOCGSTAMP", ioctl(a, 0x8906, ifr));
	x_ioctl(a, 0x89e0, "SIOCUNIXFILE", 0);
	x_ioctl(a, 0x1234, "no such", 0);
	step("FIONREAD null", ioctl(a, FIONREAD, NULL));
	step("SIOCOUTQ null", ioctl(a, TIOCOUTQ, NULL));
	x_shut(b, SHUT_WR);
	until(a, POLLRDHUP);
	x_ioctl(a, FIONREAD, "FIONREAD", -1);
	x_recv(a, 9, 0);
	x_ioctl(a, FIONREAD, "FIONREAD", -1);
}

static void urgent(void)
{
	int v;

	x_send(b, "abcX", MSG_OOB);
	until(a, POLLPRI);
	events(a);
	x_ioctl(a, 0x8905, "SIOCATMARK", -1);
	x_recv(a, 9, 0);
	x_ioctl(a, 0x8905, "SIOCATMARK", -1);
	events(a);
	x_recv(a, 1, MSG_OOB);
	x_recv(a, 1, MSG_OOB);
	x_send(b, "def", 0);
	until(a, POLLIN);
	events(a);
	x_recv(a, 9, 0);
	v = 1;
	step("inline", setsockopt(a, SOL_SOCKET, SO_OOBINLINE, &v, sizeof(v)));
	x_send(b, "ghiY", MSG_OOB);
	x_send(b, "jk", 0);
	until(a, POLLPRI);
	x_recv(a, 9, 0);
	x_recv(a, 9, MSG_OOB);
	x_recv(a, 9, 0);
	events(a);
}

/* A wait for nothing but POLLHUP, or for POLLPRI: TCP does not end it when the peer closes. */
static void quiet_wait(void)
{
	struct pollfd p = { .fd = a };
	struct timespec t = { 0, 20000000 };

	drop(&b);
	until(a, POLLRDHUP);
	step("poll 0", poll(&p, 1, 20));
	step("ppoll 0", ppoll(&p, 1, &t, NULL));
	p.events = POLLPRI;
	step("poll PRI", poll(&p, 1, 0));
	p.events = POLLOUT;
	step("poll OUT", poll(&p, 1, -1));
	say("\t%x\n", p.revents);
	x_shut(a, SHUT_WR);
	until(a, POLLHUP);
	p.events = 0;
	step("poll 0", poll(&p, 1, -1));
	say("\t%x\n", p.revents);
}

/* poll with SO_RCVLOWAT wakes up for enough octets, or for the end. */
static void low_water(void)
{
	struct pollfd p = { .fd = a, .events = POLLIN | POLLRDHUP };
	int low = 6;

	step("lowat", setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	x_send(b, "abc", 0);
	until(a, POLLOUT);
	step("poll 3", poll(&p, 1, 30));
	p.events |= POLLOUT;
	step("poll 3", poll(&p, 1, 30));
	say("\t%x\n", p.revents);
	p.events = POLLIN | POLLRDHUP;
	x_send(b, "def", 0);
	step("poll 6", poll(&p, 1, 5000));
	say("\t%x\n", p.revents);
	x_recv(a, 6, 0);
	x_send(b, "g", 0);
	step("poll 1", poll(&p, 1, 30));
	x_shut(b, SHUT_WR);
	step("poll end", poll(&p, 1, 5000));
	say("\t%x\n", p.revents);
}

static void *send_twice(void *arg)
{
	for (int i = 0; i < 2; i++) {
		struct timespec t = { 0, 20000000 };

		nanosleep(&t, NULL);
		iw_real.send(b, "abc", 3, 0);
	}
	return NULL;
}

static void low_water_sleeps(void)
{
	struct pollfd p = { .fd = a, .events = POLLIN };
	int low = 6, have = 0;
	pthread_t t;

	step("lowat", setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	assert_false(pthread_create(&t, NULL, send_twice, NULL));
	step("poll", poll(&p, 1, 10000));
	ioctl(a, FIONREAD, &have);
	say("\t%x %d\n", p.revents, have);
	pthread_join(t, NULL);
}

static void selects(void)
{
	struct timeval t = { 0, 0 };
	fd_set r, w, e;
	int top = (a > b ? a : b) + 1;

#define ALL do { FD_ZERO(&r); FD_SET(a, &r); w = e = r; } while (0)
#define SHOW say("\t%d %d %d\n", !!FD_ISSET(a, &r), !!FD_ISSET(a, &w), !!FD_ISSET(a, &e))
	ALL;
	step("select", select(top, &r, &w, &e, &t));
	SHOW;
	x_send(b, "x", 0);
	until(a, POLLIN);
	ALL;
	step("select", select(top, &r, &w, &e, &t));
	SHOW;
	drop(&b);
	until(a, POLLRDHUP);
	ALL;
	step("pselect", pselect(top, &r, &w, &e, &(struct timespec){ 0, 0 }, NULL));
	SHOW;
	x_send(a, "x", 0);
	until(a, POLLHUP);
	ALL;
	step("select", select(top, &r, &w, &e, &t));
	SHOW;
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

/* ---- the comparison ---- */

static void on_sigpipe(int sig, siginfo_t *i, void *ctx)
{
	sigpipes = i->si_code == SI_USER ? 1 : 2;
}

static void both(void **state)
{
	void (*scenario)(void) = **(void (***)(void))state;

	for (mode = TCP; mode <= LOCAL; mode++) {
		used[mode] = 0;
		out[mode][0] = 0;
		pair_open();
		scenario();
		pair_close();
	}
	if (strcmp(out[TCP], out[LOCAL])) {
		const char *x = out[TCP], *y = out[LOCAL];

		while (*x == *y)
			x++, y++;
		while (x > out[TCP] && x[-1] != '\n')
			x--, y--;
		fail_msg("differs at:\nTCP:\n%.200s\nstream:\n%.200s\nall of TCP:\n%s", x, y, out[TCP]);
	}
}

/* ---- remote streams, the daemon's end in hand ---- */

static int d;	/* the daemon's end of the carrier */

static void remote_open(void)
{
	int v[2];

	mode = LOCAL;
	tcp_pair(&ta, &tb);
	memset(page, 0, IW_PAGE_SIZE);
	assert_false(socketpair(AF_UNIX, SOCK_STREAM, 0, v));
	a = v[0];
	b = -1;
	d = v[1];
	make_stream(a, 0, 0, 0, ta);
}

static void remote_close(void)
{
	drop(&a);
	drop(&ta);
	drop(&tb);
	if (d >= 0)
		close(d);
}

static void daemon_gone(void)
{
	close(d);
	d = -1;
}

static int revents(short ev)
{
	struct pollfd p = { .fd = a, .events = ev };

	return poll(&p, 1, 0) > 0 ? p.revents : 0;
}

#define ALLEV (POLLIN | POLLOUT | POLLRDHUP)
#define want(expr, r, e) do { errno = 0; assert_int_equal(expr, r); if ((r) < 0) assert_int_equal(errno, e); } while (0)

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

static void remote_outq(void **state)
{
	int q = -1;

	remote_open();
	want(ioctl(a, TIOCOUTQ, &q), 0, 0);
	assert_int_equal(q, 0);
	want(send(a, "abc", 3, 0), 3, 0);
	want(ioctl(a, TIOCOUTQ, &q), 0, 0);
	assert_true(q > 0);
	assert_int_equal(iw_real.recv(d, &q, 3, 0), 3);
	atomic_store(&page->end[0].tx_taken, 3);
	want(ioctl(a, TIOCOUTQ, &q), 0, 0);
	assert_int_equal(q, 3);
	atomic_store(&page->end[0].tx_acked, 3);
	want(ioctl(a, TIOCOUTQ, &q), 0, 0);
	assert_int_equal(q, 0);
	remote_close();
}

/* What cannot be given is an error; what is asked often costs no message. */
static void remote_options(void **state)
{
	int v = 1;
	socklen_t l = sizeof(v);

	remote_open();
	want(setsockopt(a, SOL_SOCKET, SO_ZEROCOPY, &v, l), -1, EOPNOTSUPP);
	want(setsockopt(a, SOL_SOCKET, SO_TIMESTAMP, &v, l), -1, EOPNOTSUPP);
	want(setsockopt(a, IPPROTO_TCP, TCP_ULP, "tls", 3), -1, ENOENT);
	want(setsockopt(a, IPPROTO_TCP, TCP_REPAIR, &v, l), -1, EPERM);
	rpcs = 0;
	want(setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &v, l), 0, 0);
	want(setsockopt(a, IPPROTO_TCP, TCP_CORK, &v, l), 0, 0);
	want(getsockopt(a, SOL_SOCKET, SO_ERROR, &v, &l), 0, 0);
	want(getsockopt(a, SOL_SOCKET, SO_DOMAIN, &v, &l), 0, 0);
	assert_int_equal(v, AF_INET);
	assert_int_equal(rpcs, 0);
	v = 1;
	want(setsockopt(a, SOL_SOCKET, SO_KEEPALIVE, &v, l), 0, 0);
	assert_int_equal(rpcs, 1);
	v = 0;
	iw_real.getsockopt(ta, SOL_SOCKET, SO_KEEPALIVE, &v, &l);
	assert_int_equal(v, 1);
	/* without a daemon: the kernel's verdict and initial values */
	no_daemon = true;
	want(getsockopt(a, IPPROTO_TCP, TCP_KEEPIDLE, &v, &l), 0, 0);
	assert_true(v > 0);
	want(getsockopt(a, IPPROTO_TCP, 9999, &v, &l), -1, ENOPROTOOPT);
	want(setsockopt(a, IPPROTO_TCP, TCP_KEEPIDLE, &v, 2), -1, EINVAL);
	no_daemon = false;
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

#define DUAL(f) { #f, both, NULL, NULL, &(void (*[1])(void)){ f } }

int main(void)
{
	const struct CMUnitTest tests[] = {
		DUAL(peer_closes), DUAL(peer_closes_then_writes), DUAL(reset_then_send), DUAL(reset_then_recv), DUAL(reset_then_error),
		DUAL(reset_then_peek), DUAL(fin_then_reset), DUAL(linger_reset), DUAL(linger_taken_back), DUAL(half_close), DUAL(shut_rd),
		DUAL(shut_rdwr), DUAL(shut_bad), DUAL(recv_flags), DUAL(recv_msg), DUAL(send_flags), DUAL(send_control), DUAL(vectors),
		DUAL(many_messages), DUAL(files), DUAL(splice_reset), DUAL(options), DUAL(option_lengths), DUAL(names), DUAL(ioctls),
		DUAL(urgent), DUAL(quiet_wait), DUAL(low_water), DUAL(low_water_sleeps), DUAL(selects), DUAL(send_interrupted_by_reset),
		cmocka_unit_test(remote_fin), cmocka_unit_test(remote_daemon_dies), cmocka_unit_test(remote_dies_with_unread),
		cmocka_unit_test(remote_reset), cmocka_unit_test(remote_urgent), cmocka_unit_test(remote_outq),
		cmocka_unit_test(remote_options), cmocka_unit_test(peek_waits_for_all),
	};
	struct sigaction sa = { .sa_sigaction = on_sigpipe, .sa_flags = SA_SIGINFO };

	real_init();
	sigaction(SIGPIPE, &sa, NULL);
	page = mmap(NULL, IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("data", tests, NULL, NULL);
}
