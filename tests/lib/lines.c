// SPDX-License-Identifier: MIT
/*
 * A program that does with its connection what it is told: one line, one answer. For tests that are the daemon of its library,
 * or have one.
 *
 *	lines PORT [ADDRESS]	connects to it, or to 127.0.0.1; lines name the descriptors of the connection by index, the first is 0
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"

#define NUMBERS	8	/* descriptors of the connection that the program keeps; lines name them by index, the first is 0 */

static int fds[NUMBERS], ep = -1, held = -1;
static pthread_t thread;
static pid_t forked;

static void answer(const char *what, long r, const char *text)
{
	if (r < 0)
		printf("%s %s\n", what, strerrorname_np(errno));
	else
		printf("%s %ld%s%s\n", what, r, text ? " " : "", text ? text : "");
	fflush(stdout);
}

static void receive(const char *what, int fd, int n, int flags)
{
	char buf[65537] = "";
	ssize_t r = recv(fd, buf, (size_t)n, flags);

	answer(what, r, r > 64 ? "..." : buf);
}

static void *receiver(void *arg)
{
	receive("thread", fds[0], *(int *)arg, 0);
	return NULL;
}

static void *poller(void *arg)
{
	struct pollfd p = { .fd = fds[0], .events = POLLIN };

	answer("thread", poll(&p, 1, -1), NULL);
	return NULL;
}

static void *epoller(void *arg)
{
	struct epoll_event ev = { 0 };

	answer("thread", epoll_wait(ep, &ev, 1, -1), NULL);
	return NULL;
}

/* Calls that move nothing, of eight threads. */
static void *stormer(void *arg)
{
	for (int i = 0; i < *(int *)arg; i++)
		if (send(fds[0], "", 0, MSG_NOSIGNAL))
			return arg;
	return NULL;
}

static void storm(int n)
{
	pthread_t t[8];
	void *bad;
	long r = 0;

	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, stormer, &n);
	for (int i = 0; i < 8; i++)
		r |= pthread_join(t[i], &bad) || bad;
	answer("storm", r, NULL);
}

static int get_int(int fd, int level, int name)
{
	int v = -1;
	socklen_t l = sizeof(v);

	return getsockopt(fd, level, name, &v, &l) ? -1 : v;
}

/* What the kernel has there. */
static const char *kind(int fd)
{
	int v = 0;
	socklen_t l = sizeof(v);

	t_sys(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &v, &l);
	return v == AF_INET ? "tcp" : v == AF_UNIX ? "carrier" : "nothing";
}

static void pass(int fd)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(sizeof(int))]; } c = { .h = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec v = { "x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };
	int sv[2];

	memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	answer("pass", socketpair(AF_UNIX, SOCK_STREAM, 0, sv) ? -1 : sendmsg(sv[0], &m, 0), NULL);
}

static bool is_cat(pid_t pid)
{
	char name[64], text[16] = "";
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/comm", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	return !strcmp(text, "cat\n");
}

/* That lives until "end", and ends by _exit (0), quick_exit (2) or exit (3); or is another program (1). */
static void child(const char *what, int how)
{
	int p[2];
	char c;

	if (pipe2(p, O_CLOEXEC))
		return;
	fflush(stdout);
	forked = fork();
	if (!forked) {
		dup2(p[0], 0);
		close(p[1]);
		if (how == 1)
			execlp("cat", "cat", (char *)NULL);
		while (read(0, &c, 1) < 0)
			;
		if (how == 2)
			quick_exit(0);
		if (how == 3)
			exit(0);
		_exit(0);
	}
	close(p[0]);
	held = p[1];
	while (how == 1 && !is_cat(forked))
		usleep(1000);
	answer(what, 0, NULL);
}

/* As a server that forks for each connection: the parent closes it, the child goes on. */
static void away(void)
{
	int status;

	fflush(stdout);
	if (fork()) {
		close(fds[0]);
		wait(&status);
		exit(WEXITSTATUS(status));
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	answer("away", 0, NULL);
}

static void started(const char *how)
{
	static char *const argv[] = { "true", NULL }, *const none[] = { NULL };
	posix_spawn_file_actions_t acts;
	pid_t pid = 0;
	int r;

	posix_spawn_file_actions_init(&acts);
	if (!strcmp(how, "system")) {
		r = system("true");
	} else if (!strcmp(how, "popen")) {
		r = pclose(popen("true", "r"));
	} else if (!strcmp(how, "vfork") || !strcmp(how, "vforkas")) {
		pid = vfork();
		if (!pid) {
			if (how[5])
				dup2(fds[0], 0);
			execve("/bin/true", argv, none);
			_exit(127);
		}
		r = pid < 0;
	} else {
		if (!strcmp(how, "spawnas"))
			posix_spawn_file_actions_adddup2(&acts, fds[0], 0);
		r = posix_spawn(&pid, "/bin/true", &acts, NULL, argv, none);
	}
	if (pid)
		waitpid(pid, NULL, 0);
	posix_spawn_file_actions_destroy(&acts);
	answer("start", r, NULL);
}

/* A program is started by SIGUSR1, whatever the other thread is at. */
static void *starter(void *arg)
{
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &sig);
	started("spawn");
	return NULL;
}

/* At SIGUSR1 octets are written past the library. */
static void *late(void *arg)
{
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &sig);
	answer("late", t_sys(SYS_write, fds[0], "late", 4), NULL);
	return NULL;
}

/* One operation through an io_uring, which stays. It waits for as many as it says. */
static long ring(struct io_uring_sqe *sqe, unsigned int wait_for)
{
	static struct io_uring_params p;
	static struct io_uring_sqe *sqes;
	static char *sq;
	static int fd = -1;
	uint32_t *tail;

	if (fd < 0) {
		fd = (int)t_sys(SYS_io_uring_setup, 4, &p);
		if (fd < 0)
			return -1;
		sq = mmap(NULL, p.sq_off.array + 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
		sqes = mmap(NULL, 4 * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES);
	}
	tail = (uint32_t *)(sq + p.sq_off.tail);
	sqes[*tail % 4] = *sqe;
	((uint32_t *)(sq + p.sq_off.array))[*tail % 4] = *tail % 4;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	return t_sys(SYS_io_uring_enter, fd, 1, wait_for, IORING_ENTER_GETEVENTS, NULL, 0);
}

static void ring_add(int fd, struct epoll_event *ev)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_EPOLL_CTL, .fd = ep, .off = (uint64_t)fd, .len = EPOLL_CTL_ADD, .addr = (uintptr_t)ev };

	answer("ringadd", ring(&sqe, 1), NULL);
}

static void ring_recv(int fd)
{
	static char buf[8];
	struct io_uring_sqe sqe = { .opcode = IORING_OP_RECV, .fd = fd, .len = sizeof(buf), .addr = (uintptr_t)buf };

	answer("ringrecv", ring(&sqe, 0), NULL);
}

static void events(const struct epoll_event *ev, int n)
{
	char text[64] = "";

	if (n > 0)
		snprintf(text, sizeof(text), "%llu%s%s", (unsigned long long)ev->data.u64, ev->events & EPOLLIN ? " IN" : "",
			 ev->events & EPOLLOUT ? " OUT" : "");
	answer("wait", n, text);
}

static void obey(char *line)
{
	static int number;
	struct epoll_event ev = { 0 };
	char word[32] = "", text[200] = "";
	int a = 0, b = 0, n;

	n = sscanf(line, "%31s %d %d", word, &a, &b);
	sscanf(line, "%*s %*d %199s", text);
	if (!strcmp(word, "send")) {
		answer("send", send(fds[a], text, strlen(text), MSG_NOSIGNAL), NULL);
	} else if (!strcmp(word, "rawsend")) {
		answer("rawsend", t_sys(SYS_write, fds[a], text, strlen(text)), NULL);
	} else if (!strcmp(word, "print")) {
		answer("print", dprintf(fds[a], "%s", text), NULL);
	} else if (!strcmp(word, "recv")) {
		receive("recv", fds[a], b, 0);
	} else if (!strcmp(word, "peek")) {
		receive("peek", fds[a], b, MSG_PEEK);
	} else if (!strcmp(word, "inq")) {
		b = 0;
		ioctl(fds[a], FIONREAD, &b);
		answer("inq", b, NULL);
	} else if (!strcmp(word, "lowat")) {
		answer("lowat", setsockopt(fds[a], SOL_SOCKET, SO_RCVLOWAT, &b, sizeof(b)), NULL);
	} else if (!strcmp(word, "oob")) {
		answer("oob", send(fds[a], "!", 1, MSG_OOB), NULL);
	} else if (!strcmp(word, "dup")) {
		fds[b] = dup(fds[a]);
		answer("dup", 0, NULL);
	} else if (!strcmp(word, "rawdup")) {
		fds[b] = (int)t_sys(SYS_dup, fds[a]);
		answer("rawdup", 0, NULL);
	} else if (!strcmp(word, "close")) {
		answer("close", close(fds[a]), NULL);
	} else if (!strcmp(word, "kind")) {
		answer("kind", 0, kind(fds[a]));
	} else if (!strcmp(word, "set")) {	/* number, option of TCP */
		int one = 1;

		answer("set", setsockopt(fds[a], IPPROTO_TCP, b, &one, sizeof(one)), NULL);
	} else if (!strcmp(word, "get")) {
		answer("get", get_int(fds[a], IPPROTO_TCP, b), NULL);
	} else if (!strcmp(word, "flags")) {
		answer("flags", fcntl(fds[a], F_GETFL) & O_NONBLOCK, fcntl(fds[a], F_GETFD) & FD_CLOEXEC ? "cloexec" : "open");
	} else if (!strcmp(word, "nonblock")) {
		answer("nonblock", fcntl(fds[a], F_SETFL, b ? O_NONBLOCK : 0), NULL);
	} else if (!strcmp(word, "cloexec")) {
		answer("cloexec", fcntl(fds[a], F_SETFD, FD_CLOEXEC), NULL);
	} else if (!strcmp(word, "shut")) {
		answer("shut", shutdown(fds[a], b), NULL);
	} else if (!strcmp(word, "pass")) {
		pass(fds[a]);
	} else if (!strcmp(word, "fork")) {
		child(word, b);
	} else if (!strcmp(word, "end")) {
		close(held);
		answer("end", waitpid(-1, NULL, 0) > 0 ? 0 : -1, NULL);
	} else if (!strcmp(word, "kill")) {	/* the child of fork */
		answer("kill", kill(forked, SIGKILL) || waitpid(forked, NULL, 0) != forked ? -1 : 0, NULL);
	} else if (!strcmp(word, "away")) {
		away();
	} else if (!strcmp(word, "start")) {
		started(text);
	} else if (!strcmp(word, "thread")) {	/* blocks in recv of b octets, or in poll (-1), epoll_wait (-2), or sigwait (-3, -4) */
		number = b;
		pthread_create(&thread, NULL, b == -1 ? poller : b == -2 ? epoller : b == -3 ? starter : b == -4 ? late : receiver, &number);
	} else if (!strcmp(word, "storm")) {
		storm(b);
	} else if (!strcmp(word, "join")) {
		answer("join", pthread_join(thread, NULL), NULL);
	} else if (!strcmp(word, "add") || !strcmp(word, "mod") || !strcmp(word, "rawadd")) {	/* number, events; the data is 77 + number */
		ep = ep < 0 ? epoll_create1(EPOLL_CLOEXEC) : ep;
		ev = (struct epoll_event){ .events = (uint32_t)b, .data.u64 = 77 + (unsigned int)a };
		answer(word, *word == 'r' ? t_sys(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, fds[a], &ev) :
		       epoll_ctl(ep, *word == 'a' ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fds[a], &ev), NULL);
	} else if (!strcmp(word, "ringadd")) {		/* the same through an io_uring */
		ep = ep < 0 ? epoll_create1(EPOLL_CLOEXEC) : ep;
		ev = (struct epoll_event){ .events = (uint32_t)b, .data.u64 = 77 + (unsigned int)a };
		ring_add(fds[a], &ev);
	} else if (!strcmp(word, "ringrecv")) {
		ring_recv(fds[a]);
	} else if (!strcmp(word, "wait")) {
		n = epoll_wait(ep, &ev, 1, a);
		events(&ev, n);
	} else if (!strcmp(word, "exit")) {
		exit(0);
	} else {
		answer(n > 0 ? word : "?", 0, "unknown");
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char line[256];
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (argc > 2 && inet_pton(AF_INET, argv[2], &sin.sin_addr) != 1)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(120);
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	answer("connect", connect(fds[0], (void *)&sin, sizeof(sin)), NULL);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
