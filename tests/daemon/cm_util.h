/* SPDX-License-Identifier: MIT */
/* A real iwarpd in a network namespace of its own, and the library's side of the control socket, for tests. */
#ifndef TESTS_CM_UTIL_H
#define TESTS_CM_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/ctlmsg.h"
#include "proto/reason.h"

static struct daemon {
	char dir[64], log[80];
	pid_t pid;
	uint16_t port;		/* 0 before it starts: any */
	const char *option;	/* one more for it */
} d;

/* Whoever started this may ignore SIGCHLD: its children would leave no status. */
__attribute__((constructor)) static void children_leave_a_status(void)
{
	signal(SIGCHLD, SIG_DFL);
}

static inline uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Loopback of our own, so that no port can be taken; without the right to do so, the host's. */
static inline void own_net(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd;

	if (unshare(CLONE_NEWNET))
		return;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
}

static inline int tcp_listen(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (void *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 64), 0);
	getsockname(fd, (void *)&a, &len);
	*port = ntohs(a.sin_port);
	return fd;
}

static inline int tcp_connect(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (void *)&a, sizeof(a)), 0);
	return fd;
}

/* For directories with AF_UNIX sockets, whose names are short. */
static inline const char *tmp_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	return tmp && strlen(tmp) < 40 ? tmp : "/tmp";
}

/* Waits for READY=1. */
static inline int daemon_start(void **state)
{
	const char *build = getenv("IW_BUILD");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char path[300], port[64], env[200], buf[256] = "";
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), fd;
	struct timeval tv = { .tv_sec = 20 };

	snprintf(d.dir, sizeof(d.dir), "%s/iwt-cm.XXXXXX", tmp_dir());
	assert_non_null(mkdtemp(d.dir));
	snprintf(d.log, sizeof(d.log), "%s/log", d.dir);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/notify", d.dir);
	assert_int_equal(bind(s, (void *)&sa, sizeof(sa)), 0);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (!d.port) {
		fd = tcp_listen(&d.port);
		close(fd);
	}
	snprintf(path, sizeof(path), "%s/iwarpd", build ? build : "build/plain");
	snprintf(port, sizeof(port), "control_port=%u", d.port);
	snprintf(env, sizeof(env), "%s", sa.sun_path);
	d.pid = fork();
	assert_true(d.pid >= 0);
	if (!d.pid) {
		int log = open(d.log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(log, 2);
		setenv("NOTIFY_SOCKET", env, 1);
		execl(path, path, "-r", d.dir, "-o", port, "-o", "trust_high_port=yes", "-o", "startup_timeout=2000",
		      "-o", d.option ? d.option : "startup_timeout=2000", "-l", "debug", (char *)NULL);
		_exit(127);
	}
	while (!strstr(buf, "READY=1")) {
		ssize_t n = recv(s, buf, sizeof(buf) - 1, 0);

		if (n <= 0)
			fail_msg("%s did not start; see %s", path, d.log);
		buf[n] = 0;
	}
	close(s);
	unlink(sa.sun_path);
	return 0;
}

/* Orderly end, exit status 0, nothing left in the run directory but the lock and our log. */
static inline int daemon_stop(void **state)
{
	char path[100];
	int status;

	if (d.pid <= 0)		/* it did not start */
		return -1;
	kill(d.pid, SIGTERM);
	assert_int_equal(waitpid(d.pid, &status, 0), d.pid);
	if (status) {
		print_message("# iwarpd ended with status 0x%x; its log:\n", status);
		snprintf(path, sizeof(path), "sed 's/^/# /' %s >&2", d.log);
		if (system(path))
			print_message("# none\n");
	}
	assert_int_equal(status, 0);
	unlink(d.log);
	snprintf(path, sizeof(path), "%s/lock", d.dir);
	unlink(path);
	if (rmdir(d.dir))
		fail_msg("%s: something was left in it", d.dir);
	return 0;
}

static inline bool log_has(const char *text)
{
	char line[2000];
	bool found = false;
	FILE *f = fopen(d.log, "r");

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, text);
	if (f)
		fclose(f);
	return found;
}

/* ---- octets of a connection ---- */

static inline void expect(int fd, const char *text)
{
	char buf[100] = "";
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, 20000), 1);
	assert_int_equal(recv(fd, buf, sizeof(buf) - 1, 0), strlen(text));
	assert_string_equal(buf, text);
}

static inline void both_ways(int a, int b)
{
	assert_int_equal(send(a, "ping", 4, MSG_NOSIGNAL), 4);
	expect(b, "ping");
	assert_int_equal(send(b, "pong", 4, MSG_NOSIGNAL), 4);
	expect(a, "pong");
}

/* ---- a library ---- */

struct lib {
	int s;
	uint32_t seq;
	struct iw_proc *proc;
	struct iw_peers *peers;
	int peers_fd;
};

static inline int lib_connect(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct timeval tv = { .tv_sec = 20 };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", d.dir, IW_CTL_SOCK);
	assert_int_equal(connect(s, (void *)&sa, sizeof(sa)), 0);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return s;
}

static inline void send_fds(int s, const void *msg, size_t len, const int *fds, unsigned int n)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(253 * sizeof(int))]; } c = { 0 };
	struct iovec v = { (void *)msg, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (n) {
		m.msg_control = &c;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c.h = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(n * sizeof(int)) };
		memcpy(CMSG_DATA(&c.h), fds, n * sizeof(int));
	}
	assert_int_equal(sendmsg(s, &m, MSG_NOSIGNAL), len);
}

/* Octets received, 0 at the end. */
static inline ssize_t recv_fds(int s, void *buf, size_t len, int fds[2])
{
	union { struct cmsghdr h; char b[CMSG_SPACE(2 * sizeof(int))]; } c;
	struct iovec v = { buf, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };
	ssize_t n = recvmsg(s, &m, MSG_CMSG_CLOEXEC);

	fds[0] = fds[1] = -1;
	for (struct cmsghdr *h = n < 0 ? NULL : CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
		memcpy(fds, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
	return n;
}

static inline void lib_tell(struct lib *l, void *msg, int fd)
{
	struct iw_ctl_hdr *h = msg;

	h->seq = ++l->seq;
	send_fds(l->s, msg, h->len, &fd, fd >= 0);
}

/* The reply must be of the wanted type, for this request, and pass the library's own check. */
static inline void lib_reply(struct lib *l, uint32_t seq, void *reply, unsigned int type, int fds[2])
{
	uint8_t buf[IW_CTL_MAX];
	struct iw_ctl_hdr h;
	ssize_t n = recv_fds(l->s, buf, sizeof(buf), fds);

	assert_true(n >= (ssize_t)sizeof(h));
	memcpy(&h, buf, sizeof(h));
	assert_int_equal(h.type, type);
	assert_int_equal(h.seq, seq);
	assert_int_equal(iw_ctl_check(buf, (size_t)n, (unsigned int)(fds[0] >= 0) + (fds[1] >= 0), 0), 0);
	memcpy(reply, buf, (size_t)n);
}

static inline struct lib lib_new(void)
{
	struct lib l = { .s = lib_connect() };
	struct iw_ctl_hello m;
	struct iw_ctl_hello_ack a;
	int fds[2];

	iw_ctl_init(&m, IW_CTL_HELLO, 0);
	strcpy(m.program, "cm_test");
	lib_tell(&l, &m, -1);
	lib_reply(&l, l.seq, &a, IW_CTL_HELLO_ACK, fds);
	assert_int_equal(a.result, 0);
	l.proc = mmap(NULL, sizeof(*l.proc), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	assert_ptr_not_equal(l.proc, MAP_FAILED);
	close(fds[0]);
	l.peers = mmap(NULL, sizeof(*l.peers), PROT_READ, MAP_SHARED, fds[1], 0);
	assert_ptr_not_equal(l.peers, MAP_FAILED);
	l.peers_fd = fds[1];
	return l;
}

static inline void lib_free(struct lib *l)
{
	munmap(l->proc, sizeof(*l->proc));
	munmap(l->peers, sizeof(*l->peers));
	close(l->peers_fd);
	close(l->s);
}

static inline struct iw_addr loopback(uint16_t port)
{
	return (struct iw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 }, .port = port, .family = AF_INET };
}

struct answer {
	struct iw_ctl_stream m;
	int fds[2];
};

/* Whether the daemon has this socket open. */
static inline bool daemon_holds(int fd)
{
	char dir[40], path[340], want[64] = "", link[64];
	bool holds = false;
	struct dirent *e;
	DIR *p;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_true(readlink(path, want, sizeof(want) - 1) > 0);
	snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)d.pid);
	p = opendir(dir);
	assert_non_null(p);
	while ((e = readdir(p))) {
		ssize_t n;

		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		holds |= n > 0 && (size_t)n == strlen(want) && !memcmp(link, want, (size_t)n);
	}
	closedir(p);
	return holds;
}

/* The descriptors that came are ours alone once the ACK is here. */
static inline struct answer lib_answer(struct lib *l)
{
	struct iw_ctl_ack k;
	struct answer a;
	int none[2];

	lib_reply(l, l->seq, &a.m, IW_CTL_STREAM, a.fds);
	if (a.m.result)
		return a;
	lib_reply(l, l->seq, &k, IW_CTL_ACK, none);
	assert_int_equal(k.result, 0);
	assert_int_equal(k.id, a.m.stream_id);
	if (a.fds[1] >= 0 && !a.m.end)	/* the second end of a pair is the relay's until it is taken */
		assert_false(daemon_holds(a.fds[0]));
	return a;
}

static inline void lib_sync(struct lib *l)
{
	struct iw_ctl_hdr h;
	struct iw_ctl_ack k;
	int none[2];

	iw_ctl_init(&h, IW_CTL_SYNC, 0);
	lib_tell(l, &h, -1);
	lib_reply(l, l->seq, &k, IW_CTL_ACK, none);
}

static inline void lib_id(struct lib *l, enum iw_ctl_type type, uint64_t id, int fd)
{
	struct iw_ctl_id m;

	iw_ctl_init(&m, type, 0);
	m.id = id;
	m.fd = fd;
	lib_tell(l, &m, type == IW_CTL_SWITCH ? fd : -1);
}

/* ---- a connection that is proposed, and its switch ---- */

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static inline uint64_t sock_u64(int fd, int name)
{
	uint64_t v = 0;

	getsockopt(fd, SOL_SOCKET, name, &v, &(socklen_t){ sizeof(v) });
	return v;
}

static inline void sock_names(int fd, struct iw_addr *local, struct iw_addr *peer)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	memset(local, 0, sizeof(*local));
	memset(peer, 0, sizeof(*peer));
	if (!getsockname(fd, (void *)&ss, &len))
		iw_addr_from_sockaddr(local, (void *)&ss, len);
	len = sizeof(ss);
	if (!getpeername(fd, (void *)&ss, &len))
		iw_addr_from_sockaddr(peer, (void *)&ss, len);
}

/* As the library would say it. The slot is conn_id's. */
static inline struct iw_ctl_propose proposal(int fd, uint64_t conn_id, bool client)
{
	struct iw_ctl_propose m;

	iw_ctl_init(&m, IW_CTL_PROPOSE, 0);
	m.conn_id = conn_id;
	m.cookie = sock_u64(fd, SO_COOKIE);
	m.netns = sock_u64(fd, SO_NETNS_COOKIE);
	sock_names(fd, &m.local, &m.peer);
	m.octets = 1000;
	m.calls = 32;
	m.slot = (uint32_t)(conn_id % IW_GO_SLOTS);
	m.flags = client ? IW_CONN_CLIENT : 0;
	m.fd = fd;
	return m;
}

static inline void lib_propose(struct lib *l, int fd, uint64_t conn_id, bool client)
{
	struct iw_ctl_propose m = proposal(fd, conn_id, client);

	lib_tell(l, &m, -1);
}

static inline bool lib_may(const struct lib *l, uint64_t conn_id)
{
	return atomic_load(&l->proc->go[conn_id % IW_GO_SLOTS]) == (uint32_t)conn_id;
}

static inline void lib_go(const struct lib *l, uint64_t conn_id)
{
	for (uint64_t until = now_ms() + 20000; !lib_may(l, conn_id); sched_yield())
		if (now_ms() > until)
			fail_msg("no GO for %u", (unsigned int)conn_id);
}

static inline struct answer lib_switch(struct lib *l, uint64_t conn_id, int fd)
{
	lib_id(l, IW_CTL_SWITCH, conn_id, fd);
	return lib_answer(l);
}

static inline void lib_switched(struct lib *l, uint64_t stream_id, int fd)
{
	struct iw_ctl_ack k;
	int none[2];

	lib_id(l, IW_CTL_SWITCHED, stream_id, fd);
	lib_reply(l, l->seq, &k, IW_CTL_ACK, none);
	assert_int_equal(k.result, 0);
	assert_int_equal(k.id, stream_id);
}

/* From GO to the carrier in its place; fd is closed. */
static inline struct answer lib_switch_to(struct lib *l, uint64_t conn_id, int fd)
{
	struct answer a;

	lib_go(l, conn_id);
	a = lib_switch(l, conn_id, fd);
	assert_int_equal(a.m.result, 0);
	close(fd);
	lib_switched(l, a.m.stream_id, a.fds[0]);
	assert_false(daemon_holds(a.fds[0]));
	return a;
}

/* The TCP socket that it is offered, or -1: not now. */
static inline int lib_ask_back(struct lib *l, uint64_t stream_id)
{
	struct iw_ctl_tcp m;
	int fds[2];

	lib_id(l, IW_CTL_BACK, stream_id, -1);
	lib_reply(l, l->seq, &m, IW_CTL_TCP, fds);
	assert_int_equal(m.stream_id, stream_id);
	return m.result ? -1 : fds[0];
}

/* The same, taken. */
static inline int lib_back(struct lib *l, uint64_t stream_id)
{
	int tcp = lib_ask_back(l, stream_id);

	if (tcp >= 0) {
		assert_true(daemon_holds(tcp));
		lib_switched(l, stream_id, tcp);
		assert_false(daemon_holds(tcp));
	}
	return tcp;
}

static inline void answer_close(struct answer *a)
{
	for (int i = 0; i < 2; i++)
		if (a->fds[i] >= 0)
			close(a->fds[i]);
}

/* It may switch, keeps its socket after all, and rests: it is not told GO. */
static inline void lib_abandons(struct lib *l, uint64_t conn_id, int fd)
{
	struct answer a = lib_switch(l, conn_id, fd);

	assert_int_equal(a.m.result, 0);
	answer_close(&a);
	lib_id(l, IW_CTL_ABANDON, a.m.stream_id, -1);
	lib_sync(l);
	assert_false(lib_may(l, conn_id));
}

#endif
