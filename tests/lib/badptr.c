// SPDX-License-Identifier: MIT
/*
 * Every call that the library intercepts, with every pointer it takes bad in every way, on descriptors of every kind: one line per case.
 * What it prints must not depend on the library. tests/badptr.t runs it and compares.
 *
 *	badptr list			the names of libiwsock.map: "NAME cases" or "NAME none"
 *	badptr count			the number of cases of a run
 *	badptr serve			a peer on another host: prints its port
 *	badptr run [-c] [ADDRESS PORT]	-c: while a connect is under way; with a peer: connected sockets are connected to it, the only kind
 *
 * IW_TEST_STREAMS=1: when the case begins, connected sockets have been switched at both ends; and with a peer, the wire is upgraded.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"

#define PAGE 4096

static int fd, ep, file, ready, pipes[2];	/* fd: the one of this kind; the others are there for calls that take two */
static void *P;
static char buf[64];
static const struct sockaddr_in *peer;

static struct iovec vec = { buf, 8 };
static socklen_t room = 16;
static const struct timespec soon = { 0, 0 };

static struct msghdr *header(void)
{
	static struct msghdr m;

	m = (struct msghdr){ .msg_iov = &vec, .msg_iovlen = 1 };
	return &m;
}

static struct mmsghdr *headers(void)
{
	static struct mmsghdr v[2];

	v[0].msg_hdr = v[1].msg_hdr = *header();
	v[0].msg_len = v[1].msg_len = 0;
	return v;
}

static struct iovec *at(void *p)
{
	static struct iovec v;

	v = (struct iovec){ p, 8 };
	return &v;
}

#define WITH(field, value) ({ struct msghdr *m_ = header(); m_->field = (value); m_; })
#define MANY(field, value) ({ struct mmsghdr *v_ = headers(); v_[0].msg_hdr.field = (value); v_; })
#define SECOND(field, value) ({ struct mmsghdr *v_ = headers(); v_[1].msg_hdr.field = (value); v_; })
#define NAMED(n) ({ struct msghdr *m_ = header(); m_->msg_name = P; m_->msg_namelen = (n); m_; })
#define CONTROL(n) ({ struct msghdr *m_ = header(); m_->msg_control = P; m_->msg_controllen = (n); m_; })

static struct pollfd *pfd(short events)
{
	static struct pollfd p;

	p = (struct pollfd){ fd, events, 0 };
	return &p;
}

static fd_set *set(void)
{
	static fd_set s;

	FD_ZERO(&s);
	FD_SET(fd, &s);
	return &s;
}

static struct epoll_event *event(void)
{
	static struct epoll_event e;

	e = (struct epoll_event){ .events = EPOLLIN | EPOLLOUT };
	return &e;
}

static struct epoll_event *events(void)
{
	static struct epoll_event e[4];

	return e;
}

static struct timeval *no_time(void)
{
	static struct timeval t;

	t = (struct timeval){ 0, 0 };
	return &t;
}

static socklen_t *len(socklen_t n)
{
	room = n;
	return &room;
}

/* A name of libc's that no header declares; the plain name where this libc does not have it. */
static void *named(const char *name, void *otherwise)
{
	void *p = dlsym(RTLD_DEFAULT, name);

	return p ? p : otherwise;
}
#define AS(name, like) ((__typeof__(like) *)named(#name, (void *)like))

#define DW	(MSG_DONTWAIT | MSG_NOSIGNAL)

int __dprintf_chk(int fd, int flag, const char *format, ...);
int __vdprintf_chk(int fd, int flag, const char *format, va_list ap);

static int listed(int (*f)(int on, const char *format, va_list ap), int on, ...)
{
	va_list ap;
	int n;

	va_start(ap, on);
	n = f(on, "%s", ap);
	va_end(ap);
	return n;
}

static int chk(int on, const char *format, va_list ap)
{
	return __vdprintf_chk(on, 1, format, ap);
}

#define by_list(fd, p)		listed(vdprintf, fd, p)
#define by_list_chk(fd, p)	listed(chk, fd, p)

ssize_t __read_chk(int f, void *b, size_t n, size_t size);
ssize_t __recv_chk(int f, void *b, size_t n, size_t size, int flags);
ssize_t __recvfrom_chk(int f, void *b, size_t n, size_t size, int flags, struct sockaddr *a, socklen_t *l);
int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size);
int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size);

static long then_close(long r)
{
	if (r < 0)
		return r;
	close((int)r);
	return 1;
}

static long fault(long r)
{
	return r < 0 && errno == EFAULT ? -1 : 0;
}

static long add_then(int op, void *ev)
{
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, event());
	return epoll_ctl(ep, op, fd, ev);
}

static long wait_added(int (*wait)(void))
{
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, event());
	return wait();
}
static int epw(void) { return epoll_wait(ep, P, 4, 0); }
static int eppw(void) { return epoll_pwait(ep, P, 4, 0, NULL); }
static int eppw_m(void) { return epoll_pwait(ep, events(), 4, 0, P); }
static int eppw2(void) { return epoll_pwait2(ep, P, 4, &soon, NULL); }
static int eppw2_t(void) { return epoll_pwait2(ep, events(), 4, P, NULL); }
static int eppw2_m(void) { return epoll_pwait2(ep, events(), 4, &soon, P); }

static pid_t child;
static char *none_at_all[] = { "true", NULL };

/* How the program ended, or why there is none. */
static long ended(int err)
{
	int status = -1;

	if (!err)
		waitpid(child, &status, 0);
	return err ? -err : status;
}

static long closed(FILE *f)
{
	return f ? pclose(f) : -1;
}

/*
 * X(number, name of the call, which pointer, octets that it takes there, expression): P is the pointer. "NONE": takes none.
 * tests/badptr.t compares the names with tests/exports.list.
 */
#define GET(X, option, level, n) \
	X(getsockopt, #option, n, getsockopt(fd, level, option, P, len(n))) \
	X(getsockopt, #option ".len", 4, getsockopt(fd, level, option, buf, P))
#define SET(X, option, level, n) X(setsockopt, #option, n, setsockopt(fd, level, option, P, n))
/* A stream cannot honour it (docs/semantics.md): only whether the pointer is what is wrong. */
#define REFUSED(X, option, level, n) X(setsockopt, #option, n, fault(setsockopt(fd, level, option, P, n)))
#define FCNTL(X, name, like) \
	X(name, "F_GETLK", 32, AS(name, like)(fd, F_GETLK, P)) X(name, "F_GETOWN_EX", 8, AS(name, like)(fd, F_GETOWN_EX, P)) \
	X(name, "F_SETOWN_EX", 8, AS(name, like)(fd, F_SETOWN_EX, P))
#define READS(X, name, like) X(name, "buf", 8, AS(name, like)(fd, P, 8))
#define RECVS(X, name, like) X(name, "buf", 8, AS(name, like)(fd, P, 8, DW))

#define CASES(X) \
	READS(X, read, read) READS(X, __read, read) READS(X, write, write) READS(X, __write, write) \
	X(__read_chk, "buf", 8, __read_chk(fd, P, 8, 8)) \
	RECVS(X, recv, recv) RECVS(X, __recv, recv) RECVS(X, send, send) RECVS(X, __send, send) \
	X(__recv_chk, "buf", 8, __recv_chk(fd, P, 8, 8, DW)) \
	X(recv, "buf-peek-all", 8, recv(fd, P, 8, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT)) \
	X(recv, "buf-trunc", 8, recv(fd, P, 8, MSG_TRUNC | MSG_DONTWAIT)) \
	X(recv, "buf-oob", 8, recv(fd, P, 8, MSG_OOB | MSG_DONTWAIT)) \
	X(recv, "buf-errqueue", 8, recv(fd, P, 8, MSG_ERRQUEUE | MSG_DONTWAIT)) \
	X(send, "buf-fastopen", 8, send(fd, P, 8, DW | MSG_FASTOPEN)) \
	X(recvfrom, "buf", 8, recvfrom(fd, P, 8, DW, NULL, NULL)) \
	X(recvfrom, "addr", 16, recvfrom(fd, buf, 8, DW, P, len(16))) \
	X(recvfrom, "len", 4, recvfrom(fd, buf, 8, DW, (struct sockaddr *)buf + 1, P)) \
	X(recvfrom, "len-peek-all", 4, recvfrom(fd, buf, 8, DW | MSG_PEEK | MSG_WAITALL, (struct sockaddr *)buf + 1, P)) \
	X(__recvfrom_chk, "buf", 8, __recvfrom_chk(fd, P, 8, 8, DW, NULL, NULL)) \
	X(__recvfrom_chk, "addr", 16, __recvfrom_chk(fd, buf, 8, 8, DW, P, len(16))) \
	X(__recvfrom_chk, "len", 4, __recvfrom_chk(fd, buf, 8, 8, DW, (struct sockaddr *)buf + 1, P)) \
	X(sendto, "buf", 8, sendto(fd, P, 8, DW, NULL, 0)) \
	X(sendto, "addr", 16, sendto(fd, buf, 8, DW, P, 16)) \
	X(readv, "vec", 16, readv(fd, P, 1)) X(readv, "base", 8, readv(fd, at(P), 1)) \
	X(writev, "vec", 16, writev(fd, P, 1)) X(writev, "base", 8, writev(fd, at(P), 1)) \
	X(preadv2, "vec", 16, preadv2(fd, P, 1, -1, 0)) X(preadv2, "base", 8, preadv2(fd, at(P), 1, -1, 0)) \
	X(preadv64v2, "vec", 16, preadv64v2(fd, P, 1, -1, 0)) X(preadv64v2, "base", 8, preadv64v2(fd, at(P), 1, -1, 0)) \
	X(pwritev2, "vec", 16, pwritev2(fd, P, 1, -1, 0)) X(pwritev2, "base", 8, pwritev2(fd, at(P), 1, -1, 0)) \
	X(pwritev64v2, "vec", 16, pwritev64v2(fd, P, 1, -1, 0)) X(pwritev64v2, "base", 8, pwritev64v2(fd, at(P), 1, -1, 0)) \
	X(sendmsg, "msg", 56, sendmsg(fd, P, DW)) X(sendmsg, "name", 16, sendmsg(fd, NAMED(16), DW)) \
	X(sendmsg, "name-negative", 16, sendmsg(fd, NAMED((socklen_t)-1), DW)) \
	X(sendmsg, "vec", 16, sendmsg(fd, WITH(msg_iov, P), DW)) X(sendmsg, "base", 8, sendmsg(fd, WITH(msg_iov, at(P)), DW)) \
	X(sendmsg, "control", 64, sendmsg(fd, CONTROL(64), DW)) X(sendmsg, "control-huge", 64, sendmsg(fd, CONTROL(1ul << 40), DW)) \
	X(sendmsg, "vec-fastopen", 16, sendmsg(fd, WITH(msg_iov, P), DW | MSG_FASTOPEN)) \
	X(recvmsg, "msg", 56, recvmsg(fd, P, DW)) X(recvmsg, "name", 16, recvmsg(fd, NAMED(16), DW)) \
	X(recvmsg, "name-negative", 16, recvmsg(fd, NAMED((socklen_t)-1), DW)) \
	X(recvmsg, "vec", 16, recvmsg(fd, WITH(msg_iov, P), DW)) X(recvmsg, "base", 8, recvmsg(fd, WITH(msg_iov, at(P)), DW)) \
	X(recvmsg, "control", 64, recvmsg(fd, CONTROL(64), DW)) \
	X(recvmsg, "vec-trunc", 16, recvmsg(fd, WITH(msg_iov, P), DW | MSG_TRUNC)) \
	X(recvmsg, "base-trunc", 8, recvmsg(fd, WITH(msg_iov, at(P)), DW | MSG_TRUNC)) \
	X(recvmsg, "vec-peek-all", 16, recvmsg(fd, WITH(msg_iov, P), DW | MSG_PEEK | MSG_WAITALL)) \
	X(recvmsg, "vec-errqueue", 16, recvmsg(fd, WITH(msg_iov, P), DW | MSG_ERRQUEUE)) \
	X(recvmsg, "msg-errqueue", 56, recvmsg(fd, P, DW | MSG_ERRQUEUE)) \
	X(recvmsg, "name-negative-errqueue", 16, recvmsg(fd, NAMED((socklen_t)-1), DW | MSG_ERRQUEUE)) \
	X(recvmsg, "vec-oob", 16, recvmsg(fd, WITH(msg_iov, P), DW | MSG_OOB)) \
	X(sendmmsg, "vec", 64, sendmmsg(fd, P, 1, DW)) X(sendmmsg, "name", 16, sendmmsg(fd, MANY(msg_name, P), 1, DW)) \
	X(sendmmsg, "iov", 16, sendmmsg(fd, MANY(msg_iov, P), 1, DW)) X(sendmmsg, "iov2", 16, sendmmsg(fd, SECOND(msg_iov, P), 2, DW)) \
	X(sendmmsg, "base", 8, sendmmsg(fd, MANY(msg_iov, at(P)), 2, DW)) \
	X(__sendmmsg, "vec", 64, AS(__sendmmsg, sendmmsg)(fd, P, 1, DW)) \
	X(recvmmsg, "vec", 64, recvmmsg(fd, P, 1, DW, NULL)) X(recvmmsg, "time", 16, recvmmsg(fd, headers(), 1, DW, P)) \
	X(recvmmsg, "iov", 16, recvmmsg(fd, MANY(msg_iov, P), 1, DW, NULL)) X(recvmmsg, "iov2", 16, recvmmsg(fd, SECOND(msg_iov, P), 2, DW, NULL)) \
	X(recvmmsg, "base", 8, recvmmsg(fd, MANY(msg_iov, at(P)), 2, DW, NULL)) \
	X(sendfile, "offset", 8, sendfile(fd, file, P, 8)) X(sendfile64, "offset", 8, sendfile64(fd, file, P, 8)) \
	X(splice, "in", 8, splice(pipes[0], P, fd, NULL, 3, SPLICE_F_NONBLOCK)) X(splice, "out", 8, splice(pipes[0], NULL, fd, P, 3, SPLICE_F_NONBLOCK)) \
	X(splice, "from", 8, splice(fd, P, pipes[1], NULL, 3, SPLICE_F_NONBLOCK)) \
	X(connect, "addr", 16, connect(fd, P, 16)) X(connect, "addr-short", 1, connect(fd, P, 1)) \
	X(connect, "addr-long", 128, connect(fd, P, 128)) X(connect, "addr-negative", 16, connect(fd, P, (socklen_t)-1)) \
	X(__connect, "addr", 16, AS(__connect, connect)(fd, P, 16)) \
	X(accept, "addr", 16, then_close(accept(fd, P, len(16)))) X(accept, "len", 4, then_close(accept(fd, (struct sockaddr *)buf, P))) \
	X(accept4, "addr", 16, then_close(accept4(fd, P, len(16), SOCK_CLOEXEC))) \
	X(accept4, "len", 4, then_close(accept4(fd, (struct sockaddr *)buf, P, 0))) \
	X(getsockname, "addr", 16, getsockname(fd, P, len(16))) X(getsockname, "len", 4, getsockname(fd, (struct sockaddr *)buf + 1, P)) \
	X(getpeername, "addr", 16, getpeername(fd, P, len(16))) X(getpeername, "len", 4, getpeername(fd, (struct sockaddr *)buf + 1, P)) \
	GET(X, SO_ERROR, SOL_SOCKET, 4) GET(X, SO_KEEPALIVE, SOL_SOCKET, 4) GET(X, SO_LINGER, SOL_SOCKET, 8) GET(X, SO_TYPE, SOL_SOCKET, 4) \
	GET(X, SO_RCVBUF, SOL_SOCKET, 4) GET(X, SO_DOMAIN, SOL_SOCKET, 4) GET(X, SO_PEERCRED, SOL_SOCKET, 12) GET(X, SO_RCVTIMEO, SOL_SOCKET, 16) \
	GET(X, TCP_NODELAY, IPPROTO_TCP, 4) GET(X, TCP_INFO, IPPROTO_TCP, 104) GET(X, TCP_CONGESTION, IPPROTO_TCP, 16) \
	GET(X, IP_TOS, IPPROTO_IP, 4) \
	SET(X, SO_KEEPALIVE, SOL_SOCKET, 4) SET(X, SO_LINGER, SOL_SOCKET, 8) SET(X, SO_RCVBUF, SOL_SOCKET, 4) SET(X, SO_RCVTIMEO, SOL_SOCKET, 16) \
	SET(X, SO_RCVLOWAT, SOL_SOCKET, 4) SET(X, SO_OOBINLINE, SOL_SOCKET, 4) REFUSED(X, SO_TIMESTAMP, SOL_SOCKET, 4) \
	REFUSED(X, SO_ZEROCOPY, SOL_SOCKET, 4) REFUSED(X, SO_MARK, SOL_SOCKET, 4) SET(X, SO_PEEK_OFF, SOL_SOCKET, 4) \
	REFUSED(X, SO_ATTACH_FILTER, SOL_SOCKET, 16) SET(X, TCP_NODELAY, IPPROTO_TCP, 4) SET(X, TCP_DEFER_ACCEPT, IPPROTO_TCP, 4) \
	SET(X, TCP_CONGESTION, IPPROTO_TCP, 4) SET(X, TCP_FASTOPEN_CONNECT, IPPROTO_TCP, 4) SET(X, TCP_ULP, IPPROTO_TCP, 4) \
	REFUSED(X, TCP_REPAIR, IPPROTO_TCP, 4) SET(X, TCP_NOTSENT_LOWAT, IPPROTO_TCP, 4) SET(X, IP_TOS, IPPROTO_IP, 4) \
	X(ioctl, "FIONREAD", 4, ioctl(fd, FIONREAD, P)) X(ioctl, "FIONBIO", 4, ioctl(fd, FIONBIO, P)) X(ioctl, "FIOASYNC", 4, ioctl(fd, FIOASYNC, P)) \
	X(ioctl, "SIOCOUTQ", 4, ioctl(fd, SIOCOUTQ, P)) X(ioctl, "SIOCOUTQNSD", 4, ioctl(fd, SIOCOUTQNSD, P)) \
	X(ioctl, "SIOCATMARK", 4, ioctl(fd, SIOCATMARK, P)) X(ioctl, "SIOCGIFCONF", 16, ioctl(fd, SIOCGIFCONF, P)) \
	X(ioctl, "FIOGETOWN", 4, ioctl(fd, FIOGETOWN, P)) X(ioctl, "FIOSETOWN", 4, ioctl(fd, FIOSETOWN, P)) \
	FCNTL(X, fcntl, fcntl) FCNTL(X, __fcntl, fcntl) FCNTL(X, fcntl64, fcntl64) \
	X(poll, "fds", 8, poll(P, 1, 0)) X(poll, "fds-many", 8, poll(P, 1ul << 40, 0)) \
	X(__poll, "fds", 8, AS(__poll, poll)(P, 1, 0)) X(__poll_chk, "fds", 8, __poll_chk(P, 1, 0, 8)) \
	X(ppoll, "fds", 8, ppoll(P, 1, &soon, NULL)) X(ppoll, "time", 16, ppoll(pfd(POLLIN | POLLOUT), 1, P, NULL)) \
	X(ppoll, "mask", 8, ppoll(pfd(POLLIN | POLLOUT), 1, &soon, P)) \
	X(__ppoll_chk, "fds", 8, __ppoll_chk(P, 1, &soon, NULL, 8)) X(__ppoll_chk, "time", 16, __ppoll_chk(pfd(POLLIN | POLLOUT), 1, P, NULL, 8)) \
	X(__ppoll_chk, "mask", 8, __ppoll_chk(pfd(POLLIN | POLLOUT), 1, &soon, P, 8)) \
	X(select, "read", 8, select(fd + 1, P, NULL, NULL, no_time())) X(select, "write", 8, select(fd + 1, NULL, P, NULL, no_time())) \
	X(select, "except", 8, select(fd + 1, NULL, NULL, P, no_time())) X(select, "time", 16, select(fd + 1, set(), set(), NULL, P)) \
	X(__select, "read", 8, AS(__select, select)(fd + 1, P, NULL, NULL, no_time())) \
	X(pselect, "read", 8, pselect(fd + 1, P, NULL, NULL, &soon, NULL)) X(pselect, "write", 8, pselect(fd + 1, NULL, P, NULL, &soon, NULL)) \
	X(pselect, "except", 8, pselect(fd + 1, NULL, NULL, P, &soon, NULL)) X(pselect, "time", 16, pselect(fd + 1, set(), set(), NULL, P, NULL)) \
	X(pselect, "mask", 8, pselect(fd + 1, NULL, set(), NULL, &soon, P)) \
	X(epoll_ctl, "add", 12, epoll_ctl(ep, EPOLL_CTL_ADD, fd, P)) X(epoll_ctl, "mod", 12, add_then(EPOLL_CTL_MOD, P)) \
	X(epoll_ctl, "add-twice", 12, add_then(EPOLL_CTL_ADD, P)) X(epoll_ctl, "del", 12, add_then(EPOLL_CTL_DEL, P)) \
	X(epoll_ctl, "no-op", 12, add_then(77, P)) \
	X(epoll_wait, "events", 48, wait_added(epw)) X(epoll_pwait, "events", 48, wait_added(eppw)) X(epoll_pwait, "mask", 8, wait_added(eppw_m)) \
	X(epoll_pwait2, "events", 48, wait_added(eppw2)) X(epoll_pwait2, "time", 16, wait_added(eppw2_t)) X(epoll_pwait2, "mask", 8, wait_added(eppw2_m)) \
	X(syscall, "recvfrom", 8, syscall(SYS_recvfrom, fd, P, 8L, DW, NULL, NULL)) X(syscall, "sendto", 8, syscall(SYS_sendto, fd, P, 8L, DW, NULL, 0L)) \
	X(syscall, "ppoll-time", 16, syscall(SYS_ppoll, pfd(POLLIN | POLLOUT), 1L, P, NULL, 0L)) \
	X(syscall, "ppoll-mask", 8, syscall(SYS_ppoll, pfd(POLLIN | POLLOUT), 1L, &soon, P, 8L)) \
	X(syscall, "pselect6-time", 16, syscall(SYS_pselect6, fd + 1, set(), set(), NULL, P, NULL)) \
	X(syscall, "pselect6-mask", 16, syscall(SYS_pselect6, fd + 1, set(), set(), NULL, &soon, P)) \
	X(socketpair, "sv", 8, socketpair(AF_UNIX, SOCK_STREAM, 0, P)) \
	X(posix_spawn, "path", 1, ended(posix_spawn(&child, P, NULL, NULL, none_at_all, environ))) \
	X(posix_spawn, "argv", 8, ended(posix_spawn(&child, "/bin/true", NULL, NULL, P, environ))) \
	X(posix_spawn, "envp", 8, ended(posix_spawn(&child, "/bin/true", NULL, NULL, none_at_all, P))) \
	X(posix_spawn, "actions", 80, ended(posix_spawn(&child, "/bin/true", P, NULL, none_at_all, environ))) \
	X(posix_spawn, "attr", 336, ended(posix_spawn(&child, "/bin/true", NULL, P, none_at_all, environ))) \
	X(posix_spawnp, "argv", 8, ended(posix_spawnp(&child, "true", NULL, NULL, P, environ))) \
	X(posix_spawn_file_actions_adddup2, "actions", 80, posix_spawn_file_actions_adddup2(P, fd, 100)) \
	X(execve, "path", 1, execve(P, none_at_all, environ)) X(execve, "argv", 8, execve("/nonexistent", P, environ)) \
	X(execv, "path", 1, execv(P, none_at_all)) X(execvp, "file", 1, execvp(P, none_at_all)) \
	X(execvpe, "file", 1, execvpe(P, none_at_all, environ)) X(execveat, "path", 1, execveat(AT_FDCWD, P, none_at_all, environ, 0)) \
	X(fexecve, "argv", 8, fexecve(fd, P, environ)) X(execl, "path", 1, execl(P, "x", NULL)) X(execlp, "file", 1, execlp(P, "x", NULL)) \
	X(execle, "path", 1, execle(P, "x", NULL, environ)) \
	X(system, "command", 1, system(P)) X(popen, "command", 1, closed(popen(P, "r"))) X(popen, "mode", 2, closed(popen("true", P))) \
	X(fclose, "file", 216, fclose(P)) X(fdopen, "mode", 2, fdopen(fd, P) ? 0 : -1) \
	X(dprintf, "string", 1, dprintf(fd, "%s", (char *)P)) X(vdprintf, "string", 1, by_list(fd, P)) \
	X(__dprintf_chk, "string", 1, __dprintf_chk(fd, 1, "%s", (char *)P)) X(__vdprintf_chk, "string", 1, by_list_chk(fd, P)) \
	X(sigaction, "act", 152, sigaction(SIGUSR2, P, NULL)) X(sigaction, "old", 152, sigaction(SIGUSR2, NULL, P)) \
	X(__sigaction, "act", 152, AS(__sigaction, sigaction)(SIGUSR2, P, NULL)) \
	X(sigprocmask, "set", 128, sigprocmask(SIG_UNBLOCK, P, NULL)) X(sigprocmask, "old", 128, sigprocmask(SIG_BLOCK, NULL, P)) \
	X(pthread_sigmask, "set", 128, pthread_sigmask(SIG_UNBLOCK, P, NULL)) X(pthread_sigmask, "old", 128, pthread_sigmask(SIG_BLOCK, NULL, P))

static const char *const none[] = { "_Exit", "_Fork", "__close", "__dup2", "__socket", "__sysv_signal", "__vfork", "_exit", "bsd_signal", "clone", "close", "close_range", "closefrom",
	"dup", "dup2", "dup3", "epoll_create", "epoll_create1", "fork", "shutdown", "sigblock", "sighold", "siginterrupt", "signal", "sigrelse", "sigset",
	"sigsetmask", "sockatmark", "socket", "ssignal",
	"sysv_signal", "unshare", "vfork",
	/* what libc put there, which it takes without a look */
	"__longjmp_chk", "_longjmp", "longjmp", "setcontext", "siglongjmp", "swapcontext" };

static const struct { const char *name, *which; size_t size; } cases[] = {
#define X(name, which, size, expr) { #name, which, size },
	CASES(X)
#undef X
};
#define NCASES (sizeof(cases) / sizeof(cases[0]))

static long call(size_t want)
{
	size_t i = 0;

#define X(name, which, size, expr) if (i++ == want) return (long)(expr);
	CASES(X)
#undef X
	return -1;
}

/* ---- pointers ---- */

static char *good, *readonly, *refused;	/* good: a page that one of no rights follows */

static void pages(void)
{
	good = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	readonly = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	refused = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (good == MAP_FAILED || readonly == MAP_FAILED || refused == MAP_FAILED || mprotect(good + PAGE, PAGE, PROT_NONE))
		abort();
}

static const char *const values[] = { "NULL", "1", "-1", "unmapped", "no-rights", "read-only", "cut-after-1", "cut-after-4", "fits" };
#define NVALUES (sizeof(values) / sizeof(values[0]))

static void *pointer(size_t value, size_t size)
{
	char *const p[NVALUES] = { NULL, (char *)1, (char *)-1, (char *)0x10000, refused, readonly, good + PAGE - 1, good + PAGE - 4, good + PAGE - size };

	memset(good, 0, PAGE);
	return p[value];
}

/* ---- descriptors ---- */

static const char *const kinds[] = { "file", "udp", "tcp", "listener", "connected", "accepted", "raw", "unix-stream", "unix-dgram", "pipe-in", "pipe-out",
	"closed" };
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))
enum { A_FILE, UDP, TCP, LISTENER, CONNECTED, ACCEPTED, RAW, UNIX_STREAM, UNIX_DGRAM, PIPE_IN, PIPE_OUT, CLOSED };

static int must(int r, const char *what)
{
	if (r >= 0)
		return r;
	perror(what);
	exit(3);
}

static int listener(struct sockaddr_in *a, int backlog)
{
	socklen_t n = sizeof(*a);
	int l = must(socket(AF_INET, SOCK_STREAM, 0), "socket");

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	must(bind(l, (void *)a, n), "bind");
	must(listen(l, backlog), "listen");
	must(getsockname(l, (void *)a, &n), "getsockname");
	return l;
}

static int to(const struct sockaddr_in *a, bool raw)
{
	int c;

	if (raw) {
		c = must((int)t_sys(SYS_socket, AF_INET, SOCK_STREAM, 0), "socket");
		must((int)t_sys(SYS_connect, c, a, sizeof(*a)), "connect");
		return c;
	}
	c = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
	must(connect(c, (const void *)a, sizeof(*a)), "connect");
	return c;
}

static void greet(int s)
{
	if (send(s, "abcdefgh", 8, MSG_NOSIGNAL) != 8)
		must(-1, "send");
}

static bool is_stream(int s)
{
	int d = 0;
	socklen_t l = sizeof(d);

	return !t_sys(SYS_getsockopt, s, SOL_SOCKET, SO_DOMAIN, &d, &l) && d == AF_UNIX;
}

static int times;	/* that one connection was waited for */

static void once_more(const char *what)
{
	static const struct timespec t = { 0, 100000 };

	if (times++ == 600000) {
		fprintf(stderr, "it never %s\n", what);
		exit(3);
	}
	t_sys(SYS_nanosleep, &t, NULL);
}

/* Two ends of this process: calls that find nothing, until they are joined. */
static void streams(int a, int b)
{
	char c;

	while (getenv("IW_TEST_STREAMS") && (!is_stream(a) || !is_stream(b))) {
		recv(a, &c, 1, MSG_DONTWAIT | MSG_PEEK);
		recv(b, &c, 1, MSG_DONTWAIT | MSG_PEEK);
		once_more("was switched");
	}
}

/* More octets than the program has sent: MPA. */
static bool upgraded(int s, uint64_t sent)
{
	struct tcp_info i = { 0 };
	socklen_t l = sizeof(i);

	return is_stream(s) && !getsockopt(s, IPPROTO_TCP, TCP_INFO, &i, &l) && i.tcpi_bytes_acked > sent + 20;
}

/* To the other host's serve(). */
static int far(void)
{
	int s = to(peer, false);
	char c;

	for (uint64_t n = 0; getenv("IW_TEST_STREAMS") && !upgraded(s, n); n++) {
		if (send(s, "p", 1, MSG_NOSIGNAL) != 1 || recv(s, &c, 1, 0) != 1)
			must(-1, "ping");
		once_more("was upgraded");
	}
	if (send(s, "g", 1, MSG_NOSIGNAL) != 1)
		must(-1, "send");
	return s;
}

static void arrived(int s)
{
	struct pollfd p = { .fd = s, .events = POLLIN };
	struct timespec t = { 60, 0 };

	if (ppoll(&p, 1, &t, NULL) != 1)
		must(-1, "poll");
}

static int pair(size_t kind, int *other)
{
	struct sockaddr_in a;
	int l, c, s;

	times = 0;
	if (peer) {
		c = far();
		arrived(c);
		return c;
	}
	l = listener(&a, 5);
	c = to(&a, kind == RAW);
	s = must(accept(l, NULL, NULL), "accept");
	close(l);
	if (kind != RAW)
		streams(c, s);
	*other = kind == ACCEPTED ? c : s;
	greet(*other);
	c = kind == ACCEPTED ? s : c;
	arrived(c);
	return c;
}

static int two(const int p[2], int which, int *other)
{
	*other = p[!which];
	return p[which];
}

/* A descriptor of this kind, with 8 octets to be read where that makes sense; *other: its other end, or -1. */
static int make(size_t kind, int *other)
{
	struct sockaddr_in a;
	int p[2], l;

	*other = -1;
	switch (kind) {
	case A_FILE:
		l = must(memfd_create("file", 0), "memfd");
		must(ftruncate(l, 100), "ftruncate");
		return l;
	case UDP:
		return must(socket(AF_INET, SOCK_DGRAM, 0), "socket");
	case TCP:
		return must(socket(AF_INET, SOCK_STREAM, 0), "socket");
	case LISTENER:
		l = listener(&a, 5);
		*other = to(&a, false);
		return l;
	case UNIX_STREAM:
	case UNIX_DGRAM:
		must(socketpair(AF_UNIX, kind == UNIX_DGRAM ? SOCK_DGRAM : SOCK_STREAM, 0, p), "socketpair");
		greet(p[1]);
		return two(p, 0, other);
	case PIPE_IN:
	case PIPE_OUT:
		must(pipe(p), "pipe");
		must((int)write(p[1], "abcdefgh", 8), "write");
		return two(p, kind == PIPE_OUT, other);
	case CLOSED:
		return 60;
	default:
		return pair(kind, other);
	}
}

/* ---- one case after the other ---- */

struct shared {
	size_t done;		/* cases */
	char last[120];		/* the line of the one under way, as far as it goes */
};
static struct shared *sh;

/* A connect that goes on for as long as we like: its listener takes no more. */
static void connecting(void)
{
	struct sockaddr_in a;
	int l = listener(&a, 0), c;

	for (int i = 0; i < 2; i++) {
		c = must(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
		if (connect(c, (void *)&a, sizeof(a)) < 0 && errno != EINPROGRESS)
			must(-1, "connect");
	}
	must(l, "listen");
}

static void one(size_t kind, size_t value, size_t i)
{
	int other, left = -1, one = 1, err;
	long r;

	fd = make(kind, &other);
	must(pipe(pipes), "pipe");
	must((int)write(pipes[1], "abc", 3), "write");
	ep = must(epoll_create1(0), "epoll_create1");
	must(epoll_ctl(ep, EPOLL_CTL_ADD, ready, &(struct epoll_event){ .events = EPOLLOUT }), "epoll_ctl");
	t_sys(SYS_ioctl, fd, FIONBIO, &one);
	P = pointer(value, cases[i].size);
	snprintf(sh->last, sizeof(sh->last), "%s %s %s %s:", kinds[kind], cases[i].name, cases[i].which, values[value]);
	alarm(20);
	errno = 0;
	r = call(i);
	err = errno;
	alarm(0);
	if (ioctl(fd, FIONREAD, &left) < 0)
		left = -1;
	if (!strcmp(cases[i].which, "SO_RCVBUF") && kind != A_FILE)
		left = -2;
	printf("%s %ld %s, %d left\n", sh->last, r, r < 0 ? strerrorname_np(err) : "-", left);
	fflush(stdout);
	if (kind != CLOSED)
		close(fd);
	close(other);
	close(pipes[0]);
	close(pipes[1]);
	close(ep);
}

static void some(bool busy, const size_t *list, size_t nlist)
{
	int f;

	pages();
	file = must(memfd_create("from", 0), "memfd");
	must(ftruncate(file, 100), "ftruncate");
	ready = must(eventfd(0, 0), "eventfd");
	f = must(open("/dev/null", O_WRONLY), "/dev/null");
	must(dup2(f, 2), "dup2");
	if (busy)
		connecting();
	for (size_t all = nlist * NVALUES * NCASES; sh->done < all; sh->done++)
		one(list[sh->done / (NVALUES * NCASES)], sh->done / NCASES % NVALUES, sh->done % NCASES);
}

static int run(bool busy)
{
	size_t list[NKINDS], n = 0;
	int status;

	for (size_t k = 0; k < NKINDS; k++)
		if (!peer || k == CONNECTED)
			list[n++] = k;
	signal(SIGPIPE, SIG_IGN);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		return 3;
	while (sh->done < n * NVALUES * NCASES) {
		pid_t pid = must(fork(), "fork");

		if (!pid) {
			some(busy, list, n);
			fflush(stdout);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status))
			return WEXITSTATUS(status);
		if (WIFSIGNALED(status)) {
			printf("%s signal %d\n", sh->last, WTERMSIG(status));
			fflush(stdout);
			sh->done++;
		}
	}
	return 0;
}

static int list(void)
{
	for (size_t i = 0; i < NCASES; i++)
		printf("%s cases\n", cases[i].name);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		printf("%s none\n", none[i]);
	return 0;
}

/* Answers, greets when it is told to, and keeps the last few connections. */
__attribute__((noreturn)) static void serve(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);
	char c;
	int l = must(socket(AF_INET, SOCK_STREAM, 0), "socket"), held[16];

	must(bind(l, (void *)&a, n), "bind");
	must(listen(l, 64), "listen");
	must(getsockname(l, (void *)&a, &n), "getsockname");
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
	memset(held, -1, sizeof(held));
	for (unsigned int i = 0;; i++) {
		close(held[i % 16]);
		held[i % 16] = must(accept(l, NULL, NULL), "accept");
		while (recv(held[i % 16], &c, 1, 0) == 1 && c == 'p')
			send(held[i % 16], &c, 1, MSG_NOSIGNAL);
		greet(held[i % 16]);
	}
}

int main(int argc, char **argv)
{
	static struct sockaddr_in a = { .sin_family = AF_INET };
	bool busy = argc > 2 && !strcmp(argv[2], "-c");

	if (argc > 1 && !strcmp(argv[1], "list"))
		return list();
	if (argc > 1 && !strcmp(argv[1], "serve"))
		serve();
	if (argc > 1 && !strcmp(argv[1], "count")) {
		printf("%zu\n", NCASES * NVALUES * NKINDS);
		return 0;
	}
	if (argc == 4 && !strcmp(argv[1], "run") && inet_pton(AF_INET, argv[2], &a.sin_addr) == 1) {
		a.sin_port = htons((uint16_t)atoi(argv[3]));
		peer = &a;
	} else if (argc < 2 || strcmp(argv[1], "run") || argc != 2 + busy) {
		return 2;
	}
	return run(busy);
}
