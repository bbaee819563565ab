/* SPDX-License-Identifier: MIT */
/*
 * The originals of what the library interposes: iw_real.NAME(...). Each pointer starts as a plain system call and is
 * replaced by dlsym(RTLD_NEXT)'s answer when the library is initialised, so that calls made before constructors run, or
 * by an allocator that dlsym itself calls, work. Blocking calls through them are cancellation points as ever.
 */
#ifndef IW_PRELOAD_REAL_H
#define IW_PRELOAD_REAL_H

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>

/* X(return type, name, (parameters), (arguments), fallback): the fallback is an expression giving a raw result (-errno). */
#define IW_REALS(X) \
X(int, socket, (int d, int t, int p), (d, t, p), IW_SYS(socket, d, t, p)) \
X(int, socketpair, (int d, int t, int p, int sv[2]), (d, t, p, sv), IW_SYS(socketpair, d, t, p, sv)) \
X(int, bind, (int fd, const struct sockaddr *a, socklen_t l), (fd, a, l), IW_SYS(bind, fd, a, l)) \
X(int, listen, (int fd, int n), (fd, n), IW_SYS(listen, fd, n)) \
X(int, connect, (int fd, const struct sockaddr *a, socklen_t l), (fd, a, l), IW_SYS(connect, fd, a, l)) \
X(int, accept, (int fd, struct sockaddr *a, socklen_t *l), (fd, a, l), IW_SYS(accept, fd, a, l)) \
X(int, accept4, (int fd, struct sockaddr *a, socklen_t *l, int f), (fd, a, l, f), IW_SYS(accept4, fd, a, l, f)) \
X(int, shutdown, (int fd, int how), (fd, how), IW_SYS(shutdown, fd, how)) \
X(int, getsockname, (int fd, struct sockaddr *a, socklen_t *l), (fd, a, l), IW_SYS(getsockname, fd, a, l)) \
X(int, getpeername, (int fd, struct sockaddr *a, socklen_t *l), (fd, a, l), IW_SYS(getpeername, fd, a, l)) \
X(int, getsockopt, (int fd, int lv, int o, void *v, socklen_t *l), (fd, lv, o, v, l), IW_SYS(getsockopt, fd, lv, o, v, l)) \
X(int, setsockopt, (int fd, int lv, int o, const void *v, socklen_t l), (fd, lv, o, v, l), IW_SYS(setsockopt, fd, lv, o, v, l)) \
X(ssize_t, read, (int fd, void *b, size_t n), (fd, b, n), IW_SYS(read, fd, b, n)) \
X(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), IW_SYS(write, fd, b, n)) \
X(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n), IW_SYS(readv, fd, v, n)) \
X(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), IW_SYS(writev, fd, v, n)) \
X(ssize_t, preadv2, (int fd, const struct iovec *v, int n, off_t o, int f), (fd, v, n, o, f), IW_SYS(preadv2, fd, v, n, o, 0, f)) \
X(ssize_t, pwritev2, (int fd, const struct iovec *v, int n, off_t o, int f), (fd, v, n, o, f), IW_SYS(pwritev2, fd, v, n, o, 0, f)) \
X(ssize_t, preadv64v2, (int fd, const struct iovec *v, int n, off64_t o, int f), (fd, v, n, o, f), IW_SYS(preadv2, fd, v, n, o, 0, f)) \
X(ssize_t, pwritev64v2, (int fd, const struct iovec *v, int n, off64_t o, int f), (fd, v, n, o, f), IW_SYS(pwritev2, fd, v, n, o, 0, f)) \
X(ssize_t, recv, (int fd, void *b, size_t n, int f), (fd, b, n, f), IW_SYS(recvfrom, fd, b, n, f, 0, 0)) \
X(ssize_t, recvfrom, (int fd, void *b, size_t n, int f, struct sockaddr *a, socklen_t *l), (fd, b, n, f, a, l), IW_SYS(recvfrom, fd, b, n, f, a, l)) \
X(ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f), IW_SYS(recvmsg, fd, m, f)) \
X(int, recvmmsg, (int fd, struct mmsghdr *m, unsigned int n, int f, struct timespec *t), (fd, m, n, f, t), IW_SYS(recvmmsg, fd, m, n, f, t)) \
X(ssize_t, send, (int fd, const void *b, size_t n, int f), (fd, b, n, f), IW_SYS(sendto, fd, b, n, f, 0, 0)) \
X(ssize_t, sendto, (int fd, const void *b, size_t n, int f, const struct sockaddr *a, socklen_t l), (fd, b, n, f, a, l), IW_SYS(sendto, fd, b, n, f, a, l)) \
X(ssize_t, sendmsg, (int fd, const struct msghdr *m, int f), (fd, m, f), IW_SYS(sendmsg, fd, m, f)) \
X(int, sendmmsg, (int fd, struct mmsghdr *m, unsigned int n, int f), (fd, m, n, f), IW_SYS(sendmmsg, fd, m, n, f)) \
X(ssize_t, sendfile, (int o, int i, off_t *p, size_t n), (o, i, p, n), IW_SYS(sendfile, o, i, p, n)) \
X(ssize_t, sendfile64, (int o, int i, off64_t *p, size_t n), (o, i, p, n), IW_SYS(sendfile, o, i, p, n)) \
X(ssize_t, splice, (int i, off64_t *pi, int o, off64_t *po, size_t n, unsigned int f), (i, pi, o, po, n, f), IW_SYS(splice, i, pi, o, po, n, f)) \
X(ssize_t, __read_chk, (int fd, void *b, size_t n, size_t bl), (fd, b, n, bl), IW_SYS(read, fd, b, n)) \
X(ssize_t, __recv_chk, (int fd, void *b, size_t n, size_t bl, int f), (fd, b, n, bl, f), IW_SYS(recvfrom, fd, b, n, f, 0, 0)) \
X(ssize_t, __recvfrom_chk, (int fd, void *b, size_t n, size_t bl, int f, struct sockaddr *a, socklen_t *l), (fd, b, n, bl, f, a, l), IW_SYS(recvfrom, fd, b, n, f, a, l)) \
X(int, poll, (struct pollfd *p, nfds_t n, int t), (p, n, t), iw_raw_ppoll(p, n, t, NULL, NULL, false)) \
X(int, ppoll, (struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *s), (p, n, t, s), iw_raw_ppoll(p, n, 0, t, s, true)) \
X(int, __poll_chk, (struct pollfd *p, nfds_t n, int t, size_t l), (p, n, t, l), iw_raw_ppoll(p, n, t, NULL, NULL, false)) \
X(int, __ppoll_chk, (struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *s, size_t l), (p, n, t, s, l), iw_raw_ppoll(p, n, 0, t, s, true)) \
X(int, select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t), (n, r, w, e, t), iw_raw_select(n, r, w, e, t)) \
X(int, pselect, (int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *s), (n, r, w, e, t, s), iw_raw_pselect(n, r, w, e, t, s)) \
X(int, epoll_create, (int n), (n), n > 0 ? IW_SYS(epoll_create1, 0) : -EINVAL) \
X(int, epoll_create1, (int f), (f), IW_SYS(epoll_create1, f)) \
X(int, epoll_ctl, (int e, int o, int fd, struct epoll_event *v), (e, o, fd, v), IW_SYS(epoll_ctl, e, o, fd, v)) \
X(int, epoll_wait, (int e, struct epoll_event *v, int n, int t), (e, v, n, t), IW_SYS(epoll_pwait, e, v, n, t, 0, 8)) \
X(int, epoll_pwait, (int e, struct epoll_event *v, int n, int t, const sigset_t *s), (e, v, n, t, s), IW_SYS(epoll_pwait, e, v, n, t, s, 8)) \
X(int, epoll_pwait2, (int e, struct epoll_event *v, int n, const struct timespec *t, const sigset_t *s), (e, v, n, t, s), IW_SYS(epoll_pwait2, e, v, n, t, s, 8)) \
X(int, close, (int fd), (fd), IW_SYS(close, fd)) \
X(int, dup, (int fd), (fd), IW_SYS(dup, fd)) \
X(int, dup2, (int o, int n), (o, n), o == n ? (IW_SYS(fcntl, o, F_GETFD) < 0 ? -EBADF : n) : IW_SYS(dup3, o, n, 0)) \
X(int, dup3, (int o, int n, int f), (o, n, f), IW_SYS(dup3, o, n, f)) \
X(int, close_range, (unsigned int a, unsigned int b, int f), (a, b, f), IW_SYS(close_range, a, b, f)) \
X(int, unshare, (int f), (f), IW_SYS(unshare, f)) \
X(pid_t, fork, (void), (), IW_SYS(clone, SIGCHLD, 0, 0, 0, 0)) \
X(pid_t, _Fork, (void), (), IW_SYS(clone, SIGCHLD, 0, 0, 0, 0)) \
X(int, system, (const char *c), (c), -ENOSYS) \
X(int, execve, (const char *p, char *const a[], char *const e[]), (p, a, e), IW_SYS(execve, p, a, e)) \
X(int, execv, (const char *p, char *const a[]), (p, a), IW_SYS(execve, p, a, environ)) \
X(int, execvp, (const char *p, char *const a[]), (p, a), -ENOSYS) \
X(int, execvpe, (const char *p, char *const a[], char *const e[]), (p, a, e), -ENOSYS) \
X(int, execveat, (int d, const char *p, char *const a[], char *const e[], int f), (d, p, a, e, f), IW_SYS(execveat, d, p, a, e, f)) \
X(int, fexecve, (int fd, char *const a[], char *const e[]), (fd, a, e), IW_SYS(execveat, fd, "", a, e, AT_EMPTY_PATH)) \
X(int, fclose, (FILE *f), (f), -EIO) \
X(int, sigaction, (int n, const struct sigaction *a, struct sigaction *o), (n, a, o), -ENOSYS) \
X(int, siginterrupt, (int n, int f), (n, f), -ENOSYS) \
X(int, sigprocmask, (int h, const sigset_t *s, sigset_t *o), (h, s, o), IW_SYS(rt_sigprocmask, h, s, o, 8)) \
X(int, pthread_sigmask, (int h, const sigset_t *s, sigset_t *o), (h, s, o), -IW_SYS(rt_sigprocmask, h, s, o, 8)) \
X(int, sigblock, (int m), (m), -ENOSYS) \
X(int, sigsetmask, (int m), (m), -ENOSYS) \
X(int, sighold, (int n), (n), -ENOSYS) \
X(int, sigrelse, (int n), (n), -ENOSYS) \
X(int, setcontext, (const ucontext_t *to), (to), -ENOSYS) \
X(int, swapcontext, (ucontext_t *from, const ucontext_t *to), (from, to), -ENOSYS) \
X(sighandler_t, signal, (int n, sighandler_t h), (n, h), -ENOSYS) \
X(sighandler_t, __sysv_signal, (int n, sighandler_t h), (n, h), -ENOSYS) \
X(sighandler_t, sigset, (int n, sighandler_t h), (n, h), -ENOSYS)

#define IW_SPAWN(name) int name(pid_t *pid, const char *file, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *t, \
				char *const argv[], char *const envp[])

struct iw_real {
#define X(ret, name, params, args, raw) ret (*name) params;
	IW_REALS(X)
#undef X
	int (*fcntl)(int fd, int cmd, ...);
	int (*fcntl64)(int fd, int cmd, ...);
	int (*ioctl)(int fd, unsigned long request, ...);
	long (*syscall)(long n, ...);
	int (*clone)(int (*fn)(void *), void *stack, int flags, void *arg, ...);
	IW_SPAWN((*posix_spawn));
	IW_SPAWN((*posix_spawnp));
	int (*posix_spawn_file_actions_adddup2)(posix_spawn_file_actions_t *a, int fd, int to);
	FILE *(*popen)(const char *command, const char *mode);
	FILE *(*fdopen)(int fd, const char *mode);
	int (*vdprintf)(int fd, const char *format, va_list ap);
	int (*__vdprintf_chk)(int fd, int flag, const char *format, va_list ap);
	void (*_exit)(int status);
	void (*longjmp)(void *env, int v);
	void (*_longjmp)(void *env, int v);
	void (*siglongjmp)(void *env, int v);
	void (*__longjmp_chk)(void *env, int v);
};

/* Hot: a table of pointers, never written after initialisation. */
extern struct iw_real iw_real __attribute__((visibility("hidden")));

/* Resolve what is not resolved yet; idempotent, any thread, any time. */
void iw_real_init(void) __attribute__((visibility("hidden")));

#endif
