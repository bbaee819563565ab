// SPDX-License-Identifier: MIT
/*
 * The library's data path without daemon and without preloading, for unit tests: its sources under names of their own, a core and
 * a daemon as far as they need one, pairs of sockets and transcripts of what calls on them gave.
 */
#ifndef TESTS_DATA_ENV_H
#define TESTS_DATA_ENV_H

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
#define SYS_iwt_recvfrom SYS_recvfrom
#define SYS_iwt_ioctl SYS_ioctl

#include "preload/fdtab.h"
#include "preload/stream.h"
#include "proto/ctlmsg.h"

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

#include "preload/user.c"
#include "no_faults.h"
#define NO_MAPS
#include "no_rings.h"
#include "preload/paths/carrier.c"
#include "preload/data_rx.c"
#include "preload/tcpstate.c"
#include "preload/data_tx.c"
#define put_int opts_put_int
#include "preload/opts.c"
#undef put_int
#include "preload/opts_tcp.c"
#include "preload/ioctl.c"
#include "preload/names.c"
#include "preload/shutdown.c"
#define count poll_count
#include "preload/spin.c"
_Atomic uint8_t iw_conf_spin;
_Atomic bool iw_streams_near;
_Atomic uint32_t iw_streams_carried;
_Atomic uint32_t iw_handlers, iw_handlers_unseen;
_Atomic uint64_t iw_handlers_restart, iw_handlers_interrupt;
__thread struct iw_handlers_step iw_handlers_step __attribute__((tls_model("initial-exec")));
void iw_handlers_late(void) { }
#include "preload/poll.c"
#undef count
#include "preload/select.c"

/* ---- the core, as far as the data path needs it ---- */

_Atomic uint32_t iw_fdtab[IW_FD_MAX], iw_streams, iw_movable, iw_gates;
struct iw_real iw_real;

struct iw_stream *_Atomic iw_stream_chunks[IW_STREAMS_CHUNKS];
#define NSTREAMS 8
static struct iw_stream streams[NSTREAMS];
static int tcp_of[NSTREAMS];		/* the fake daemon's TCP socket */
static bool no_daemon;
static unsigned int rpcs;

static void real_init(void)
{
	iw_stream_chunks[0] = streams;
	/* the argument of # is not expanded, so it is libc's name */
#define X(ret, name, params, args, raw) *(void **)&iw_real.name = dlsym(RTLD_DEFAULT, #name);
	IW_REALS(X)
#undef X
	*(void **)&iw_real.ioctl = dlsym(RTLD_DEFAULT, "ioctl");
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

void iw_rights_leaving(const struct msghdr *m)
{
}

void iw_rights_left(const struct msghdr *m)
{
}

void iw_reg_room(int fd)
{
}

void iw_sleep_begin(struct iw_slept *h, int fd, int watch, struct iw_stream *const *s, uint32_t n)
{
}

bool iw_sleep_end(struct iw_slept *h)
{
	return true;
}

bool iw_kick_may(void)
{
	return false;
}

int iw_kick_watch(void)
{
	return -1;
}

void iw_kick_seen(int watch)
{
}

void iw_kick_done(int watch)
{
}

_Atomic bool iw_reg_mapped;
_Atomic uint32_t iw_reg_swaps;
bool iw_reg_was_apart(uint32_t seq) { return false; }

void iw_ready_watched(uint32_t set)
{
}

void iw_ready_sets(void)
{
}

bool iw_ready_set(int epfd)
{
	return true;
}

uint32_t iw_set_of(int epfd)
{
	return 0;
}

void iw_kick(void)
{
}

void iw_reg_look_again(int fd)
{
}

/* Nobody switches anything here, and nobody is looked for. */
struct iw_candidate *_Atomic iw_candidates;
static struct iw_slot slot;
__thread struct iw_slot *iw_slot = &slot;

void iw_call_begin_nested(int fd, uint32_t n, const void *v0, const void *v1, const void *v2, uintptr_t sp)
{
}

void iw_call_end_nested(uintptr_t sp)
{
}

void iw_turn_exec(const struct iw_turn *t, int fd, bool cloexec)
{
}

/* Nothing is mapped here. */
_Atomic uint64_t iw_bursts;

void iw_bursts_send(const struct iw_stream *but)
{
}

ssize_t iw_carrier_rx_all(struct iw_stream *s, int fd, struct iw_io *io, int flags, ssize_t (*rx)(int fd, struct iw_io *io, int flags))
{
	return rx(fd, io, flags);
}

void iw_map_lock(struct iw_stream *s, struct iw_step *st)
{
}

void iw_map_unlock(struct iw_stream *s, const struct iw_step *st)
{
}

void iw_map_held(struct iw_stream *s)
{
}

void iw_map_give(int fd, struct iw_stream *s)
{
}

void iw_map_timeouts(int fd, struct iw_stream *s)
{
}

void iw_map_sweep(struct iw_stream *s)
{
}

void iw_map_gather(struct iw_stream *s)
{
}

bool iw_switch_urgent(int fd, struct iw_stream *s)
{
	return false;
}

int iw_turn_slow(struct iw_turn *t, int fd, enum iw_turn_how how)
{
	iw_call_end();
	return 0;
}

void iw_turn_after(int fd, struct iw_candidate *c)
{
}

int iw_turn_gated_poll(const struct pollfd *v, nfds_t n)
{
	return -1;
}

int iw_turn_gated_select(int n, const fd_set *r, const fd_set *w, const fd_set *e)
{
	return -1;
}

uint32_t iw_gate_wait(int fd)
{
	return iw_word(fd);
}

void iw_ctl_init(void *msg, enum iw_ctl_type type, uint32_t seq)
{
	memset(msg, 0, sizeof(struct iw_ctl_hdr));
	((struct iw_ctl_hdr *)msg)->type = type;
}

/* The daemon: options of the stream's TCP socket, those of its list. */
int iw_daemon_ask(void *msg, int fd_in, void *reply, size_t size, int fds[2], uint64_t gen)
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
	s->flags = flags | (flags ? IW_PAGE_NEAR : 0);
	s->end = end;
	s->stream_id = i + 1;
	s->page = page;
	atomic_store(&s->path, &iw_carrier);
	atomic_store(&page->end[1].hand, flags & IW_PAGE_LOCAL ? IW_HAND_TAKEN : IW_HAND_OFFERED);
	addr_of(&s->local, tcp, false);
	addr_of(&s->peer, tcp, true);
	tcp_of[i] = tcp;
	atomic_store(&iw_fdtab[fd], IW_FD_STREAM | i << 4);
	atomic_fetch_add(&iw_streams, 1);
	atomic_fetch_add(&iw_movable, 1);
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
		atomic_fetch_sub(&iw_streams, 1), atomic_fetch_sub(&iw_movable, 1);
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

__attribute__((unused)) static void x_name(int fd)
{
	struct sockaddr_in sin = { 0 }, me, other;
	socklen_t l = sizeof(sin);

	iw_real.getsockname(fd == a ? ta : tb, (void *)&me, &l);
	step("sockname", getsockname(fd, (void *)&sin, &l));
	say("\tfamily %d len %u own %d\n", sin.sin_family, l, sin.sin_port == me.sin_port);
	l = sizeof(other);
	step("peername", getpeername(fd, (void *)&other, &l));
}

__attribute__((unused)) static void x_error(int fd)
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

__attribute__((unused)) static void daemon_gone(void)
{
	close(d);
	d = -1;
}

__attribute__((unused)) static int revents(short ev)
{
	struct pollfd p = { .fd = a, .events = ev };

	return poll(&p, 1, 0) > 0 ? p.revents : 0;
}

#define ALLEV (POLLIN | POLLOUT | POLLRDHUP)
#define want(expr, r, e) do { errno = 0; assert_int_equal(expr, r); if ((r) < 0) assert_int_equal(errno, e); } while (0)

#define DUAL(f) { #f, both, NULL, NULL, &(void (*[1])(void)){ f } }

static int data_main(const char *name, const struct CMUnitTest *tests, size_t n)
{
	struct sigaction sa = { .sa_sigaction = on_sigpipe, .sa_flags = SA_SIGINFO };
	sigset_t pipe_only;

	real_init();
	sigaction(SIGPIPE, &sa, NULL);
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigprocmask(SIG_UNBLOCK, &pipe_only, NULL);
	page = mmap(NULL, IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}

#endif
