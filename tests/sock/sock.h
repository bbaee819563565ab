/* SPDX-License-Identifier: MIT */
/*
 * Common code of the dual-run socket tests. Each program has a server and a client role; the program starts both as fresh
 * processes (own namespace, library and run directory each, by the environment) and prints what they saw: a transcript
 * that must be the same on plain TCP and under the library.
 *
 *	IW_TEST_NETNS_SERVER, IW_TEST_NETNS_CLIENT	path of a network namespace
 *	IW_TEST_RUNDIR_SERVER, IW_TEST_RUNDIR_CLIENT	IWSOCK_RUNDIR of the role
 *	IW_TEST_PRELOAD_SERVER, IW_TEST_PRELOAD_CLIENT	LD_PRELOAD of the role
 *	IW_TEST_ADDR4, IW_TEST_ADDR6			address the server listens on
 *	IW_TEST_CONF_SERVER, IW_TEST_CONF_CLIENT	IWSOCK_CONF of the role; without it what it is
 *	IW_TEST_BLACKHOLE				IPv4 address that nobody answers for
 *	IW_TEST_WARM					octets to and fro on each connection first
 *	IW_TEST_KILL, IW_TEST_KILL_RELAY		see kill.h (kill_*.c)
 *	IW_TEST_HELPER					directory of the static helper programs
 */
#ifndef TESTS_SOCK_H
#define TESTS_SOCK_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
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
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../lib/raw.h"

#define T_CHAN 200		/* the two roles talk here, beside the connection under test */
#define T_TIMEOUT_MS 120000	/* of a whole program */
#define T_WAIT_MS 60000		/* for anything that must come */

static const char *t_role = "main";

/* ---- transcript and assertions ---- */

__attribute__((format(printf, 1, 2))) static inline void say(const char *fmt, ...)
{
	va_list ap;
	char line[512];
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	line[n] = '\n';
	if (write(1, line, (size_t)n + 1) < 0)
		_exit(1);
}

static inline const char *t_errname(int e)
{
	const char *s = strerrorname_np(e);

	return e == 0 ? "0" : s ? s : "?";
}

/* One step of the transcript: the result, and errno when it is -1. */
static inline long step(const char *what, long ret)
{
	if (ret == -1)
		say("%s: -1 %s", what, t_errname(errno));
	else
		say("%s: %ld", what, ret);
	return ret;
}

__attribute__((noreturn)) static inline void t_fail(const char *file, int line, const char *what)
{
	char b[600];
	int n = snprintf(b, sizeof(b), "%s: %s:%d: %s (errno %s)\n", t_role, file, line, what, t_errname(errno));

	if (write(2, b, (size_t)n) < 0)
		_exit(1);
	_exit(1);
}
#define must(x) ((x) ? (void)0 : t_fail(__FILE__, __LINE__, #x))
static inline long t_ok(long r, const char *file, int line, const char *what)
{
	if (r == -1)
		t_fail(file, line, what);
	return r;
}
#define ok(x) t_ok((long)(x), __FILE__, __LINE__, #x)

static inline void say_poll(const char *what, int ev)
{
	say("%s:%s%s%s%s%s%s%s", what, ev & POLLIN ? " IN" : "", ev & POLLOUT ? " OUT" : "", ev & POLLPRI ? " PRI" : "",
	    ev & POLLRDHUP ? " RDHUP" : "", ev & POLLERR ? " ERR" : "", ev & POLLHUP ? " HUP" : "",
	    ev & POLLNVAL ? " NVAL" : "");
}

/* ---- the side channel ---- */

static inline void t_put(const void *p, size_t n)
{
	must(t_sys(SYS_sendto, T_CHAN, p, n, MSG_NOSIGNAL, NULL, 0) == (long)n);
}

static inline size_t t_get(void *p, size_t n)
{
	long r;

	do
		r = t_sys(SYS_recvfrom, T_CHAN, p, n, 0, NULL, NULL);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		t_fail("sock.h", __LINE__, "the other role is gone");
	return (size_t)r;
}

/* Both roles meet here. */
static inline void t_sync(void)
{
	char c = 's';

	t_put(&c, 1);
	t_get(&c, 1);
	must(c == 's');
}

/* ---- time and waiting ---- */

static inline long t_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static inline void t_nap(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

/* Wait until one of events (or ERR, HUP) stands; the events seen, or 0 after ms. */
static inline int t_poll(int fd, int events, int ms)
{
	struct pollfd p = { .fd = fd, .events = (short)events };
	int r;

	do
		r = poll(&p, 1, ms);
	while (r < 0 && errno == EINTR);
	must(r >= 0);
	return r ? p.revents : 0;
}

/* Wait until all of events stand at the same time; returns what poll says then. */
static inline int t_until(int fd, int events)
{
	for (long end = t_ms() + T_WAIT_MS; t_ms() < end; t_nap(1)) {
		int ev = t_poll(fd, events, 0);

		if ((ev & events) == events)
			return ev;
	}
	t_fail("sock.h", __LINE__, "events did not come");
}

/* Wait until another thread, of whatever process, sleeps in the kernel, or has ended. */
static inline void t_asleep(pid_t tid)
{
	char name[64], b[512], *p;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)tid);
	for (long n = 0, end = t_ms() + T_WAIT_MS; n < 5; n++, t_nap(1)) {	/* not in a page fault or a lock on the way */
		int fd = open(name, O_RDONLY | O_CLOEXEC);
		ssize_t l = fd < 0 ? -1 : read(fd, b, sizeof(b) - 1);

		must(t_ms() < end);
		if (l <= 0) {
			close(fd);
			return;
		}
		b[l] = 0;
		p = strrchr(b, ')');
		if (!p || p[2] != 'S')
			n = -1;
		close(fd);
	}
}

/* Jiffies all CPUs were idle, and all jiffies, since boot. */
static inline void t_cpu(unsigned long *idle, unsigned long *all)
{
	unsigned long v[8] = { 0 };
	FILE *f = fopen("/proc/stat", "re");

	must(f && fscanf(f, "cpu %lu %lu %lu %lu %lu %lu %lu %lu", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) == 8);
	fclose(f);
	*idle = v[3] + v[4];
	*all = 0;
	for (int i = 0; i < 8; i++)
		*all += v[i];
}

/* Wait until n octets can be read. */
static inline void t_readable(int fd, int n)
{
	int have = -1;

	for (long end = t_ms() + T_WAIT_MS; t_ms() < end; t_nap(1)) {
		ok(ioctl(fd, FIONREAD, &have));
		if (have >= n)
			return;
	}
	fprintf(stderr, "%s: FIONREAD stays %d, wanted %d\n", t_role, have, n);
	t_fail("sock.h", __LINE__, "octets did not come");
}

/* ---- connections ---- */

static inline int t_domain(int fd)
{
	int v = -1;
	socklen_t l = sizeof(v);

	t_sys(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &v, &l);
	return v;
}

static inline void t_warm_octet(int fd, bool out)
{
	char c = 'w';
	ssize_t n;

	while ((n = out ? send(fd, &c, 1, MSG_DONTWAIT | MSG_NOSIGNAL) : recv(fd, &c, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		usleep(200);
	must(n == 1);
}

/* So much goes to and fro that both ends are where they would be much later: upgraded, and mapped. */
static inline void t_warm(int fd)
{
	const char *times = getenv("IW_TEST_WARM");
	bool client = !strcmp(t_role, "CLIENT");
	int err = errno;

	for (int n = times ? atoi(times) : 0; n; n--) {
		t_warm_octet(fd, client);
		t_warm_octet(fd, !client);
		usleep(client ? 3000 : 0);
	}
	errno = err;
}

/* Every connection begins as the kernel's own. Whether it was upgraded later the runner asks the daemons. */
static inline void t_begins(int fd)
{
	int d = t_domain(fd);

	must(d == AF_INET || d == AF_INET6);
	t_warm(fd);
}

static inline socklen_t t_salen(const struct sockaddr_storage *ss)
{
	return ss->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static inline int t_port(const struct sockaddr_storage *ss)
{
	return ntohs(((const struct sockaddr_in *)ss)->sin_port);	/* the same place in sockaddr_in6 */
}

static inline int t_default_family(void)
{
	const char *f = getenv("IW_TEST_FAMILY");

	return f && *f == '6' ? AF_INET6 : AF_INET;
}

/* The test's address of this family (0: the default one), port 0. */
static inline void t_addr(int family, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *s6 = (void *)ss;
	struct sockaddr_in *s4 = (void *)ss;
	const char *a;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = (sa_family_t)(family ? family : t_default_family());
	if (ss->ss_family == AF_INET6) {
		a = getenv("IW_TEST_ADDR6");
		must(inet_pton(AF_INET6, a ? a : "::1", &s6->sin6_addr) == 1);
	} else {
		a = getenv("IW_TEST_ADDR4");
		must(inet_pton(AF_INET, a ? a : "127.0.0.1", &s4->sin_addr) == 1);
	}
}

static inline int t_socket(void)
{
	return (int)ok(socket(t_default_family(), SOCK_STREAM, 0));
}

/* A bound socket, told to the client; the caller listens. */
static inline int t_bind(int family, struct sockaddr_storage *ss)
{
	socklen_t l = sizeof(*ss);
	int fd;

	t_addr(family, ss);
	fd = (int)ok(socket(ss->ss_family, SOCK_STREAM, 0));
	ok(bind(fd, (void *)ss, t_salen(ss)));
	ok(getsockname(fd, (void *)ss, &l));
	return fd;
}

/* Server: a listener whose address the client gets from t_peer(). */
static inline int t_listen(int family)
{
	struct sockaddr_storage ss;
	int fd = t_bind(family, &ss);

	ok(listen(fd, 128));
	t_put(&ss, sizeof(ss));
	return fd;
}

/* Client: the server's address. */
static inline void t_peer(struct sockaddr_storage *ss)
{
	must(t_get(ss, sizeof(*ss)) == sizeof(*ss));
}

static inline int t_accept(int lfd)
{
	int fd = (int)ok(accept(lfd, NULL, NULL));

	t_begins(fd);
	return fd;
}

static inline int t_connect_to(const struct sockaddr_storage *ss)
{
	int fd = (int)ok(socket(ss->ss_family, SOCK_STREAM, 0));

	ok(connect(fd, (const void *)ss, t_salen(ss)));
	t_begins(fd);
	return fd;
}

static inline int t_connect(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	return t_connect_to(&ss);
}

/* fd, to whoever reads the unix socket. */
static inline void t_pass(int sock, int fd)
{
	union { char c[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } u;
	struct iovec v = { (char *)"f", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	must(sendmsg(sock, &m, 0) == 1);
}

/* ---- octets ---- */

static inline uint8_t t_octet(uint64_t pos, unsigned int seed)
{
	uint64_t x = (pos + 1) * 0x9e3779b97f4a7c15u + seed * 0xff51afd7ed558ccdu;

	return (uint8_t)(x >> 56);
}

static inline void t_fill(void *p, size_t n, uint64_t pos, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = t_octet(pos + i, seed);
}

static inline void t_same(const void *p, size_t n, uint64_t pos, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *)p)[i] != t_octet(pos + i, seed)) {
			fprintf(stderr, "%s: wrong octet at %llu\n", t_role, (unsigned long long)(pos + i));
			t_fail("sock.h", __LINE__, "data corrupted");
		}
}

static inline void send_all(int fd, const void *p, size_t n)
{
	while (n) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

		if (r < 0 && errno == EINTR)
			continue;
		must(r > 0);
		p = (const char *)p + r;
		n -= (size_t)r;
	}
}

/* Exactly n octets, or fewer when the stream ends. */
static inline size_t recv_all(int fd, void *p, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = recv(fd, (char *)p + got, n - got, 0);

		if (r < 0 && errno == EINTR)
			continue;
		must(r >= 0);
		if (!r)
			break;
		got += (size_t)r;
	}
	return got;
}

/* Both ends are awake: an octet goes from the client to the server and back, so often. */
static inline void t_wake(int fd, bool is_client, int turns)
{
	char c = 'a';

	for (int i = 0; i < turns; i++) {
		if (is_client)
			must(send(fd, &c, 1, 0) == 1);
		must(recv(fd, &c, 1, 0) == 1);
		if (!is_client)
			must(send(fd, &c, 1, 0) == 1);
	}
}

static inline void send_str(int fd, const char *s)
{
	send_all(fd, s, strlen(s));
}

/* The next octets are exactly s. */
static inline void want_str(int fd, const char *s)
{
	char b[256];
	size_t n = strlen(s);

	must(n < sizeof(b));
	must(recv_all(fd, b, n) == n);
	must(!memcmp(b, s, n));
}

static inline void want_eof(int fd)
{
	char c;

	must(recv(fd, &c, 1, 0) == 0);
}

/* Send total octets of the pattern in pieces. */
static inline void send_pattern(int fd, uint64_t total, size_t piece, unsigned int seed)
{
	uint8_t *b = malloc(piece);

	must(b);
	for (uint64_t pos = 0; pos < total;) {
		size_t n = total - pos < piece ? (size_t)(total - pos) : piece;

		t_fill(b, n, pos, seed);
		send_all(fd, b, n);
		pos += n;
	}
	free(b);
}

static inline void recv_pattern(int fd, uint64_t total, size_t piece, unsigned int seed)
{
	uint8_t *b = malloc(piece);

	must(b);
	for (uint64_t pos = 0; pos < total;) {
		size_t n = total - pos < piece ? (size_t)(total - pos) : piece;
		size_t r = recv_all(fd, b, n);

		must(r == n);
		t_same(b, n, pos, seed);
		pos += n;
	}
	free(b);
}

static inline void set_nonblock(int fd, bool on)
{
	int fl = (int)ok(fcntl(fd, F_GETFL));

	ok(fcntl(fd, F_SETFL, on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK));
}

static inline int get_int(int fd, int level, int name)
{
	int v = -12345;
	socklen_t l = sizeof(v);

	if (getsockopt(fd, level, name, &v, &l))
		return -errno;
	return v;
}

static inline int set_int(int fd, int level, int name, int v)
{
	return setsockopt(fd, level, name, &v, sizeof(v));
}

/* ---- the program ---- */

static inline void t_setenv_role(const char *name, const char *from, const char *role)
{
	char key[64];
	const char *v;

	snprintf(key, sizeof(key), "%s_%s", from, role);
	v = getenv(key);
	if (v && *v)
		setenv(name, v, 1);
	else
		unsetenv(name);
}

__attribute__((noreturn)) static inline void t_exec_role(const char *self, const char *role, int chan, int out)
{
	char key[64];
	const char *ns;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(key, sizeof(key), "IW_TEST_NETNS_%s", role);
	ns = getenv(key);
	if (ns && *ns) {
		fd = (int)ok(open(ns, O_RDONLY | O_CLOEXEC));
		ok(setns(fd, CLONE_NEWNET));
		close(fd);
	}
	t_setenv_role("IWSOCK_RUNDIR", "IW_TEST_RUNDIR", role);
	if (getenv("IW_TEST_CONF_SERVER"))
		t_setenv_role("IWSOCK_CONF", "IW_TEST_CONF", role);
	ok(dup2(chan, T_CHAN));
	ok(dup2(out, 1));
	for (fd = 3; fd < 64; fd++)
		close(fd);
	t_setenv_role("LD_PRELOAD", "IW_TEST_PRELOAD", role);
	execl(self, self, role, (char *)NULL);
	t_fail("sock.h", __LINE__, "exec");
}

static inline void t_dump(const char *role, int fd)
{
	char b[4096];
	ssize_t n;

	printf("%s:\n", role);
	fflush(stdout);
	for (off_t o = 0; (n = pread(fd, b, sizeof(b), o)) > 0; o += n)
		fwrite(b, 1, (size_t)n, stdout);
	fflush(stdout);
}

static inline int t_conduct(const char *self)
{
	int sv[2], out[2], status[2] = { -1, -1 }, left = 2, rc = 0;
	pid_t pid[2];
	long end = t_ms() + T_TIMEOUT_MS;

	ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv));
	for (int i = 0; i < 2; i++) {
		out[i] = (int)ok(memfd_create("transcript", MFD_CLOEXEC));
		pid[i] = (pid_t)ok(fork());
		if (!pid[i])
			t_exec_role(self, i ? "CLIENT" : "SERVER", sv[i], out[i]);
	}
	close(sv[0]);
	close(sv[1]);
	while (left) {
		for (int i = 0; i < 2; i++)
			if (status[i] == -1 && waitpid(pid[i], &status[i], WNOHANG) == pid[i])
				left--;
		if (left && t_ms() > end) {
			fprintf(stderr, "timeout:%s%s\n", status[0] == -1 ? " server" : "", status[1] == -1 ? " client" : "");
			for (int i = 0; i < 2; i++)
				if (status[i] == -1)
					kill(pid[i], SIGKILL);
			end += 3600 * 1000;
			rc = 1;
		}
		if (left)
			t_nap(2);
	}
	t_dump("server", out[0]);
	t_dump("client", out[1]);
	for (int i = 0; i < 2; i++) {
		if (WIFEXITED(status[i]) && WEXITSTATUS(status[i]) == 77)
			return 77;
		if (status[i]) {
			fprintf(stderr, "%s ended with status 0x%x\n", i ? "client" : "server", status[i]);
			rc = 1;
		}
	}
	return rc;
}

static inline int t_main(int argc, char **argv, void (*server)(void), void (*client)(void))
{
	char self[512];
	ssize_t n;

	if (argc > 1) {
		t_role = argv[1];
		alarm(0);
		(strcmp(argv[1], "SERVER") ? client : server)();
		return 0;
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	must(n > 0);
	self[n] = 0;
	return t_conduct(self);
}

/* Two roles that set up everything themselves. */
#define SOCK_ROLES(server, client) \
	int main(int argc, char **argv) { return t_main(argc, argv, server, client); }

/* Two roles that get a connected socket. */
#define SOCK_PAIR(server, client) \
	static void t_server_(void) { int l = t_listen(0), fd = t_accept(l); close(l); server(fd); } \
	static void t_client_(void) { client(t_connect()); } \
	SOCK_ROLES(t_server_, t_client_)

/* The same, and both do the same: both(fd, client). */
#define SOCK_BOTH(both) \
	static void t_both_server_(int fd) { both(fd, false); } \
	static void t_both_client_(int fd) { both(fd, true); } \
	SOCK_PAIR(t_both_server_, t_both_client_)

#endif
