// SPDX-License-Identifier: MIT
/*
 * The library against a daemon that this test is: what it proposes and when, what it does with every answer, and that the octets of the
 * connection are the same whatever happens. The program with the library (tests/lib/lines.c) is told what to do line by line.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "proto/ctlmsg.h"
#include "proto/policy.h"
#include "proto/reason.h"

/* ---- the daemon, and the program's peer ---- */

static struct {
	char dir[64], conf[96];
	int ctl, lib;			/* listening; the connection of the program's library */
	struct iw_proc *proc;
	int pages[2];
	int listener, peer, port;	/* the peer's end of the connection, plain TCP */
	int to;				/* lines for the program; its answers */
	FILE *from;
	pid_t pid;
	uint32_t seq;
	struct iw_ctl_propose proposal;
	struct iw_ctl_conn plain;
	struct iw_ctl_id id;		/* the last message of that form */
	int tcp, carrier;		/* the socket passed with SWITCH; our end */
	struct iw_page *page;
	uint64_t streams;
} t;

static void *page(size_t size, int *fd)
{
	void *p;

	*fd = memfd_create("iwt", MFD_CLOEXEC);
	assert_false(ftruncate(*fd, (off_t)size));
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

/* The library says something there before the program answers. */
static bool speaks(int fd)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = fileno(t.from), .events = POLLIN } };

	if (poll(p, 2, 20000) <= 0)
		fail_msg("nothing came");
	return p[0].revents;
}

static void until_readable(int fd)
{
	if (!readable(fd, 20000))
		fail_msg("nothing came");
}

static void say_fds(const void *msg, const int *pass, unsigned int n)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(2 * sizeof(int))]; } c = { .h = { CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec v = { (void *)msg, ((const struct iw_ctl_hdr *)msg)->len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (n) {
		memcpy(CMSG_DATA(&c.h), pass, n * sizeof(int));
		m.msg_control = &c;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	if (sendmsg(t.lib, &m, MSG_NOSIGNAL) != (ssize_t)v.iov_len)
		fail_msg("not sent: %s", strerrorname_np(errno));
}

static void say_ack(uint64_t id)
{
	struct iw_ctl_ack a;

	iw_ctl_init(&a, IW_CTL_ACK, t.seq);
	a.id = id;
	say_fds(&a, NULL, 0);
}

/* The next message: of this type. A descriptor that came is in t.tcp. */
static void hear(enum iw_ctl_type type)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(4 * sizeof(int))]; } c;
	union { struct iw_ctl_hdr h; uint8_t b[IW_CTL_MAX]; } in;
	struct iovec v = { &in, sizeof(in) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };
	struct cmsghdr *h;
	unsigned int n = 0;
	ssize_t r;

	until_readable(t.lib);
	r = recvmsg(t.lib, &m, MSG_CMSG_CLOEXEC);
	h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_type == SCM_RIGHTS) {
		n = (unsigned int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(&t.tcp, CMSG_DATA(h), sizeof(int));
	}
	assert_true(r >= (ssize_t)sizeof(in.h));
	assert_string_equal(iw_ctl_name(in.h.type), iw_ctl_name(type));
	assert_false(iw_ctl_check(&in, (size_t)r, n, 1));
	t.seq = in.h.seq;
	if (type == IW_CTL_PROPOSE)
		memcpy(&t.proposal, &in, sizeof(t.proposal));
	else if (type == IW_CTL_PLAIN)
		memcpy(&t.plain, &in, sizeof(t.plain));
	else if (in.h.len == sizeof(t.id))
		memcpy(&t.id, &in, sizeof(t.id));
}

static void hear_plain(enum iw_reason reason, bool for_now)
{
	hear(IW_CTL_PLAIN);
	assert_string_equal(iw_reason_name(t.plain.reason), iw_reason_name(reason));
	assert_int_equal(!!(t.plain.flags & IW_CONN_FOR_NOW), for_now);
}

static void hear_nothing(void)
{
	assert_false(readable(t.lib, 50));
}

/* A library dials. */
static void welcome(void)
{
	struct iw_ctl_hello_ack a;

	until_readable(t.ctl);
	t.lib = accept4(t.ctl, NULL, NULL, SOCK_CLOEXEC);
	hear(IW_CTL_HELLO);
	iw_ctl_init(&a, IW_CTL_HELLO_ACK, t.seq);
	a.answer_ms = 2000;
	say_fds(&a, t.pages, 2);
}

static void go(void)
{
	atomic_store(&t.proc->go[t.proposal.slot], (uint32_t)t.proposal.conn_id);
}

static void no_go(void)
{
	atomic_store(&t.proc->go[t.proposal.slot], 0);
}

static const char *heard(void)
{
	static char line[256];

	until_readable(fileno(t.from));
	if (!fgets(line, sizeof(line), t.from))
		fail_msg("the program has ended");
	line[strcspn(line, "\n")] = 0;
	return line;
}

/* Told, and not waited for. */
__attribute__((format(printf, 1, 2))) static void tell(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vdprintf(t.to, fmt, ap);
	va_end(ap);
	assert_int_equal(write(t.to, "\n", 1), 1);
}

#define expect(want) assert_string_equal(heard(), want)
#define ask(want, ...) do { tell(__VA_ARGS__); expect(want); } while (0)

static void start(const char *conf)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t l = sizeof(sin);
	char port[16], lib[PATH_MAX], prog[PATH_MAX];
	const char *build = getenv("IW_BUILD");
	int in[2], out[2], fd;
	FILE *f;

	memset(&t, 0, sizeof(t));
	t.tcp = t.carrier = t.lib = -1;
	strcpy(t.dir, "/tmp/iwt.XXXXXX");
	assert_non_null(mkdtemp(t.dir));
	snprintf(t.conf, sizeof(t.conf), "%s/iwsock.conf", t.dir);
	f = fopen(t.conf, "we");
	fprintf(f, "%s\n", conf);
	fclose(f);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/ctl.sock", t.dir);
	t.ctl = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_false(bind(t.ctl, (void *)&un, sizeof(un)));
	assert_false(listen(t.ctl, 8));
	t.proc = page(sizeof(*t.proc), &t.pages[0]);
	t.proc->magic = IW_PROC_MAGIC;
	((struct iw_peers *)page(sizeof(struct iw_peers), &t.pages[1]))->magic = IW_PEERS_MAGIC;

	t.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_false(bind(t.listener, (void *)&sin, l) || listen(t.listener, 1) || getsockname(t.listener, (void *)&sin, &l));
	t.port = ntohs(sin.sin_port);
	snprintf(port, sizeof(port), "%d", t.port);
	snprintf(prog, sizeof(prog), "%s/libiwsock.so", build ? build : "build/plain");
	assert_non_null(realpath(prog, lib));
	snprintf(prog, sizeof(prog), "%s/tests/lib/lines", build ? build : "build/plain");
	assert_false(pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC));
	t.pid = fork();
	if (!t.pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		setenv("IWSOCK_RUNDIR", t.dir, 1);
		setenv("IWSOCK_CONF", t.conf, 1);
		setenv("LD_PRELOAD", lib, 1);
		execl(prog, "lines", port, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	t.to = in[1];
	t.from = fdopen(out[0], "re");
	setvbuf(t.from, NULL, _IONBF, 0);
	expect("connect 0");
	t.peer = accept4(t.listener, NULL, NULL, SOCK_CLOEXEC);
	fd = 1;
	setsockopt(t.peer, IPPROTO_TCP, TCP_NODELAY, &fd, sizeof(fd));
}

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void stop(void)
{
	char name[128];
	int status;

	tell("exit");
	assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
	assert_int_equal(status, 0);
	close(t.to);
	fclose(t.from);
	drop(&t.lib);
	drop(&t.ctl);
	drop(&t.listener);
	drop(&t.peer);
	drop(&t.tcp);
	drop(&t.carrier);
	unlink(t.conf);
	snprintf(name, sizeof(name), "%s/ctl.sock", t.dir);
	unlink(name);
	rmdir(t.dir);
}

/* The program is at a call in which it sends this, having been told so. */
static void peer_gets(const char *text)
{
	char buf[256] = "";

	assert_int_equal(recv(t.peer, buf, strlen(text), MSG_WAITALL), strlen(text));
	assert_string_equal(buf, text);
}

static void peer_sends(const char *text)
{
	int there = 0, left = 1;

	assert_int_equal(send(t.peer, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	for (int i = 0; there < (int)strlen(text) && i < 20000 && t.tcp >= 0; i++, usleep(1000))	/* where we hold the other end */
		ioctl(t.tcp, FIONREAD, &there);
	for (int i = 0; left && i < 20000; i++, usleep(left ? 1000 : 0))
		ioctl(t.peer, TIOCOUTQ, &left);
}

/* One that the program has proposed: it sends x. */
static void proposed(void)
{
	tell("send 0 x");
	welcome();
	hear(IW_CTL_PROPOSE);
	expect("send 1");
	peer_gets("x");
}

static uint64_t cookie(int fd)
{
	uint64_t v = 0;
	socklen_t l = sizeof(v);

	assert_false(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &v, &l));
	return v;
}

/* SWITCH was heard: the answer. */
static void refuse(void)
{
	struct iw_ctl_stream m;

	drop(&t.tcp);
	iw_ctl_init(&m, IW_CTL_STREAM, t.seq);
	m.result = 1;
	m.reason = IW_REASON_RESOURCES;
	say_fds(&m, NULL, 0);
}

static bool voided;

static void grant(void)
{
	struct iw_ctl_stream m;
	int sv[2], pass[2];

	assert_int_equal(t.id.id, t.proposal.conn_id);
	assert_int_equal(cookie(t.tcp), t.proposal.cookie);
	assert_false(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	t.carrier = sv[0];
	t.page = page(IW_PAGE_SIZE, &pass[1]);
	pass[0] = sv[1];
	atomic_store(&t.page->end[0].hand, voided ? IW_HAND_VOID : IW_HAND_OFFERED);
	iw_ctl_init(&m, IW_CTL_STREAM, t.seq);
	m.stream_id = t.page->stream_id = ++t.streams;
	m.size = IW_PAGE_SIZE;
	m.local = t.proposal.local;
	m.peer = t.proposal.peer;
	say_fds(&m, pass, 2);
	close(pass[0]);
	close(pass[1]);
	say_ack(t.streams);
}

/* What was unread goes into the carrier, before the ACK. */
static void switched(const char *unread)
{
	char buf[256] = "";
	int n = 0;

	hear(IW_CTL_SWITCHED);
	assert_int_equal(t.id.id, t.streams);
	assert_int_equal(atomic_load(&t.page->end[0].hand), IW_HAND_TAKEN);
	assert_false(ioctl(t.tcp, FIONREAD, &n));
	assert_int_equal(n, strlen(unread));
	if (n) {
		assert_int_equal(recv(t.tcp, buf, sizeof(buf), 0), n);
		assert_string_equal(buf, unread);
		assert_int_equal(send(t.carrier, buf, (size_t)n, 0), n);
		assert_true(t.id.h.seq);
	}
	if (t.id.h.seq)		/* it waits for that */
		say_ack(t.streams);
}

static void carrier_gets(const char *text)
{
	char buf[256] = "";

	until_readable(t.carrier);
	assert_int_equal(recv(t.carrier, buf, strlen(text), MSG_WAITALL), strlen(text));
	assert_string_equal(buf, text);
}

static void carrier_sends(const char *text)
{
	assert_int_equal(send(t.carrier, text, strlen(text), 0), strlen(text));
}

/* From one that is proposed to a stream. */
static void switches(void)
{
	go();
	tell("send 0 y");
	hear(IW_CTL_SWITCH);
	grant();
	switched("");
	expect("send 1");
	carrier_gets("y");
}

/* ---- when it is proposed ---- */

static void test_young(void **state)
{
	start("upgrade_after 3 calls");
	ask("send 2", "send 0 ab");
	ask("send 2", "send 0 cd");
	ask("send 2", "send 0 ef");
	assert_false(readable(t.ctl, 50));	/* the daemon has not even been looked for */
	tell("send 0 gh");
	welcome();
	hear(IW_CTL_PROPOSE);
	expect("send 2");
	peer_gets("abcdefgh");
	assert_int_equal(t.proposal.calls, 3);
	assert_int_equal(t.proposal.octets, 6);
	assert_int_equal(t.proposal.flags, IW_CONN_CLIENT);
	assert_int_equal(t.proposal.peer.port, t.port);
	ask("kind 0 tcp", "kind 0 0");
	hear_nothing();
	ask("close 0", "close 0");
	hear(IW_CTL_CLOSED);
	assert_int_equal(t.id.id, t.proposal.conn_id);
	stop();
}

static void test_octets(void **state)
{
	start("upgrade_after 10");
	ask("send 9", "send 0 123456789");
	assert_false(readable(t.ctl, 50));
	ask("send 1", "send 0 x");
	tell("send 0 y");
	welcome();
	hear(IW_CTL_PROPOSE);
	assert_int_equal(t.proposal.octets, 10);
	expect("send 1");
	stop();
}

/* One that is never proposed is not known to the daemon at its end either. */
static void test_never(void **state)
{
	start("tcp both * *");
	tell("send 0 x");
	assert_false(readable(t.ctl, 50));	/* the limits are those of all: not yet */
	expect("send 1");
	for (unsigned int i = 1; i < IW_UPGRADE_CALLS; i++)
		ask("send 1", "send 0 x");
	tell("send 0 x");
	welcome();
	hear_plain(IW_REASON_POLICY, false);
	expect("send 1");
	for (int i = 0; i < 300; i++)
		ask("send 1", "send 0 x");
	hear_nothing();
	ask("close 0", "close 0");
	hear(IW_CTL_CLOSED);
	assert_int_equal(t.id.id, t.plain.conn_id);
	stop();
}

/* ---- the switch ---- */

static void test_switch(void **state)
{
	start("upgrade_after 0");
	ask("set 0", "set 0 %d", TCP_NODELAY);
	ask("cloexec 0", "cloexec 0");
	proposed();
	ask("send 1", "send 0 y");	/* GO has not been said */
	peer_gets("y");
	hear_nothing();
	peer_sends("early");
	go();
	tell("recv 0 9");
	hear(IW_CTL_SWITCH);
	grant();
	switched("early");
	expect("recv 5 early");		/* the call that was on its way has them */
	ask("kind 0 carrier", "kind 0");
	ask("flags 0 cloexec", "flags 0");
	ask("get 1", "get 0 %d", TCP_NODELAY);
	ask("send 5", "send 0 hello");
	carrier_gets("hello");
	carrier_sends("back");
	ask("recv 4 back", "recv 0 9");
	ask("close 0", "close 0");
	hear(IW_CTL_CLOSED);
	assert_int_equal(t.id.id, t.proposal.conn_id);
	stop();
}

static void test_peeked(void **state)
{
	start("upgrade_after 0");
	peer_sends("abc");
	tell("peek 0 9");
	welcome();
	hear(IW_CTL_PROPOSE);
	expect("peek 3 abc");
	go();
	tell("recv 0 2");
	hear(IW_CTL_SWITCH);
	grant();
	switched("abc");
	expect("recv 2 ab");
	ask("peek 1 c", "peek 0 9");
	stop();
}

/* Refused, it is tried again when nothing is unread: the octets follow one after the other. */
static void refused_until_read(uint32_t told)
{
	hear(IW_CTL_SWITCH);
	assert_int_equal(t.id.told, told);
	refuse();
}

/* What the daemon is to put into the carrier at once: not what is unread, what the program was told of that it has not read. */
static void test_told(void **state)
{
	start("upgrade_after 0");
	proposed();
	peer_sends("0123456789");
	ask("inq 10", "inq 0");
	peer_sends("abcdef");
	go();
	tell("recv 0 3");
	refused_until_read(10);
	expect("recv 3 012");
	ask("recv 3 345", "recv 0 3");	/* it waits for it to be empty */
	ask("peek 2 67", "peek 0 2");
	ask("send 1", "send 0 y");
	peer_gets("y");
	ask("recv 8 6789abcd", "recv 0 8");
	ask("peek 1 e", "peek 0 1");
	tell("recv 0 9");
	refused_until_read(0);		/* at its end */
	expect("recv 2 ef");
	stop();
}

static void test_told_lowat(void **state)
{
	start("upgrade_after 0");
	proposed();
	ask("lowat 0", "lowat 0 4");
	peer_sends("0123456789");
	ask("peek 2 01", "peek 0 2");
	go();
	tell("send 0 y");
	refused_until_read(4);
	expect("send 1");
	stop();
}

/* Nobody asked. */
static void test_told_nothing(void **state)
{
	start("upgrade_after 0");
	proposed();
	peer_sends("0123456789");
	go();
	tell("recv 0 3");
	refused_until_read(0);
	expect("recv 3 012");
	stop();
}

static void test_nonblock(void **state)
{
	start("upgrade_after 0");
	ask("nonblock 0", "nonblock 0 1");
	proposed();
	switches();
	ask("recv EAGAIN", "recv 0 9");
	ask("flags 2048 open", "flags 0");
	stop();
}

static void test_refused(void **state)
{
	int asked = 0;

	start("upgrade_after 0");
	proposed();
	go();
	tell("send 0 y");
	hear(IW_CTL_SWITCH);
	refuse();
	expect("send 1");
	peer_gets("y");
	for (int i = 0; i < 70; i++) {	/* not at each call, but not never */
		for (tell("send 0 z"); speaks(t.lib);) {
			hear(IW_CTL_SWITCH);
			refuse();
			asked++;
		}
		expect("send 1");
	}
	assert_in_range(asked, 1, 12);
	ask("kind 0 tcp", "kind 0");
	stop();
}

/* A socket that the daemon does not take, and whatever else there is for the time being. */
static void test_daemon_dies(void **state)
{
	start("upgrade_after 0");
	proposed();
	go();
	tell("send 0 y");
	hear(IW_CTL_SWITCH);
	drop(&t.tcp);
	drop(&t.lib);
	expect("send 1");
	peer_gets("y");
	ask("kind 0 tcp", "kind 0");
	no_go();
	for (int i = 0; tell("send 0 z"), !speaks(t.ctl); i++)
		expect("send 1");
	welcome();			/* the next one hears of it again */
	hear(IW_CTL_PROPOSE);
	expect("send 1");
	switches();
	stop();
}

/* It has granted, and is gone before the unread octets lie in the carrier: so is the connection. */
static void test_daemon_dies_late(void **state)
{
	start("upgrade_after 0");
	proposed();
	go();
	tell("recv 0 9");
	hear(IW_CTL_SWITCH);
	grant();
	hear(IW_CTL_SWITCHED);
	drop(&t.lib);
	drop(&t.ctl);
	drop(&t.carrier);
	drop(&t.tcp);
	expect("recv ECONNRESET");
	/* and the other end does not take it for an end */
	until_readable(t.peer);
	assert_int_equal(recv(t.peer, &(char[2]){ 0 }, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	stop();
}

/* The daemon has taken back what it granted, for it believes that the program is gone. */
static void test_void(void **state)
{
	start("upgrade_after 0");
	proposed();
	go();
	tell("send 0 y");
	hear(IW_CTL_SWITCH);
	voided = true;
	grant();
	voided = false;
	hear(IW_CTL_ABANDON);
	assert_int_equal(t.id.id, t.streams);
	drop(&t.tcp);
	drop(&t.carrier);
	hear(IW_CTL_SYNC);
	say_ack(0);
	expect("send 1");
	peer_gets("y");
	ask("kind 0 tcp", "kind 0");
	stop();
}

static void test_upgrade_wait(void **state)
{
	start("upgrade_after 0\nupgrade_wait 10000");
	tell("send 0 x");
	welcome();
	hear(IW_CTL_PROPOSE);
	assert_false(readable(t.peer, 50));	/* waits for GO */
	go();
	hear(IW_CTL_SWITCH);
	grant();
	switched("");
	expect("send 1");
	carrier_gets("x");
	stop();
}

/* One that is not matched for long does not look for GO at each call. */
static void test_go_late(void **state)
{
	start("upgrade_after 0");
	proposed();
	for (int i = 0; i < 2000; i++)
		ask("send 1", "send 0 z");
	go();
	for (int i = 0; tell("send 0 z"), !speaks(t.lib); i++) {
		assert_true(i <= 16);
		expect("send 1");
	}
	hear(IW_CTL_SWITCH);
	grant();
	switched("");
	expect("send 1");
	stop();
}

/* ---- what hinders it ---- */

static void plain_for_good(const char *does, const char *says, enum iw_reason reason)
{
	start("upgrade_after 0");
	proposed();
	ask(says, "%s", does);
	go();
	tell("send 0 y");
	hear_plain(reason, false);
	expect("send 1");
	for (int i = 0; i < 100; i++)
		ask("send 1", "send 0 z");
	hear_nothing();
	ask("kind 0 tcp", "kind 0");
	stop();
}

static void test_urgent(void **state)
{
	plain_for_good("oob 0", "oob 1", IW_REASON_URGENT);
}

static void test_passed(void **state)
{
	plain_for_good("pass 0", "pass 1", IW_REASON_INHERITED);
}

static void test_half_closed(void **state)
{
	plain_for_good("shut 0 0", "shut 0", IW_REASON_HALF_CLOSED);
}

/* Until it is over: what it is and what ends it. */
static void hindered(enum iw_reason reason)
{
	go();
	tell("send 0 y");
	hear_plain(reason, true);
	expect("send 1");
	peer_gets("y");
}

/* The program's thread sleeps in its call: one of those by which a thread waits for a socket. */
static bool thread_sleeps(void)
{
	static const long calls[] = { SYS_recvfrom, SYS_poll, SYS_ppoll, SYS_epoll_wait, SYS_epoll_pwait };
	char name[64], line[32];
	struct dirent *d;
	bool found = false;
	FILE *f;
	DIR *dir;

	snprintf(name, sizeof(name), "/proc/%d/task", t.pid);
	dir = opendir(name);
	assert_non_null(dir);
	while (!found && (d = readdir(dir))) {
		if (d->d_name[0] == '.' || atoi(d->d_name) == t.pid)
			continue;
		snprintf(name, sizeof(name), "/proc/%d/task/%d/syscall", t.pid, atoi(d->d_name));
		f = fopen(name, "r");
		if (f && fgets(line, sizeof(line), f) && isdigit((unsigned char)line[0]))
			for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
				found |= atol(line) == calls[i];
		if (f)
			fclose(f);
	}
	closedir(dir);
	return found;
}

static void thread_begins(int does)
{
	tell("thread 0 %d", does);
	for (int i = 0; !thread_sleeps(); i++, usleep(1000))
		if (i > 20000)
			fail_msg("the program's thread does not wait");
}

static void hindered_by_thread(int does)
{
	thread_begins(does);
	hindered(IW_REASON_BUSY);
}

/* It is tried again, not at each call. */
static void tried_again(void)
{
	for (int i = 0; tell("send 0 z"), !speaks(t.lib); i++) {
		assert_true(i < 200);
		expect("send 1");
	}
	hear(IW_CTL_SWITCH);
}

static void then_switches(void)
{
	tried_again();
	grant();
	switched("");
	expect("send 1");
	ask("kind 0 carrier", "kind 0");
}

static void test_busy(void **state)
{
	start("upgrade_after 0");
	proposed();
	hindered_by_thread(9);
	peer_sends("now");
	expect("thread 3 now");
	ask("join 0", "join");
	then_switches();
	stop();
}

/* Who was in the way switches it when he comes out, and nobody tries before. */
static void test_busy_out(void **state)
{
	start("upgrade_after 0");
	proposed();
	hindered_by_thread(9);
	for (int i = 0; i < 500; i++)
		ask("send 1", "send 0 z");
	assert_false(readable(t.lib, 0));
	peer_sends("now");
	hear(IW_CTL_SWITCH);
	grant();
	switched("");
	expect("thread 3 now");
	ask("join 0", "join");
	ask("kind 0 carrier", "kind 0");
	stop();
}

static void test_busy_poll(void **state)
{
	start("upgrade_after 0");
	proposed();
	hindered_by_thread(-1);
	peer_sends("now");
	expect("thread 1");
	ask("join 0", "join");
	tried_again();
	grant();
	switched("now");
	expect("send 1");
	ask("recv 3 now", "recv 0 9");
	stop();
}

static void test_forked(void **state)
{
	static const int ends[] = { 0, 2, 3 };

	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		start("upgrade_after 0");
		proposed();
		ask("fork 0", "fork 0 %d", ends[i]);
		hindered(IW_REASON_INHERITED);
		ask("end 0", "end");
		then_switches();
		stop();
	}
}

/* A child that starts a program has what is close-on-exec no more. */
static void test_forked_exec(void **state)
{
	start("upgrade_after 0");
	ask("cloexec 0", "cloexec 0");
	proposed();
	ask("fork 0", "fork 0 1");
	go();
	then_switches();
	ask("end 0", "end");
	stop();
}

/* What the program has was counted, and stays so. */
static void test_exec_keeps(void **state)
{
	start("upgrade_after 0");
	proposed();
	ask("fork 0", "fork 0 1");
	hindered(IW_REASON_INHERITED);
	ask("end 0", "end");
	for (int i = 0; i < 100; i++)
		ask("send 1", "send 0 z");
	hear_nothing();
	stop();
}

/* A duplicate made behind our back would go on with the socket. */
static void test_alias_unknown(void **state)
{
	start("upgrade_after 0");
	proposed();
	ask("rawdup 0", "rawdup 0 1");
	hindered(IW_REASON_ALIAS);
	ask("close 0", "close 1");
	then_switches();
	stop();
}

static void test_alias(void **state)
{
	start("upgrade_after 0");
	ask("dup 0", "dup 0 1");
	ask("dup 0", "dup 1 2");
	ask("cloexec 0", "cloexec 1");
	proposed();
	switches();
	ask("kind 0 carrier", "kind 1");
	ask("kind 0 carrier", "kind 2");
	ask("flags 0 cloexec", "flags 1");
	ask("flags 0 open", "flags 2");
	ask("close 0", "close 0");
	ask("send 2", "send 2 hi");
	carrier_gets("hi");
	ask("close 0", "close 2");
	hear_nothing();
	ask("close 0", "close 1");
	hear(IW_CTL_CLOSED);
	stop();
}

/* ---- other processes ---- */

/* Nobody knows what became of it. */
static void test_forked_killed(void **state)
{
	start("upgrade_after 0");
	proposed();
	ask("fork 0", "fork 0 0");
	ask("kill 0", "kill");
	hindered(IW_REASON_INHERITED);
	for (int i = 0; i < 100; i++)
		ask("send 1", "send 0 z");
	assert_false(readable(t.lib, 2));
	stop();
}

/* A server that forks: the child has it alone. */
static void test_forked_away(void **state)
{
	start("upgrade_after 0");
	ask("add 0", "add 0 %d", EPOLLIN);
	ask("away 0", "away");
	proposed();
	switches();
	carrier_sends("in");
	ask("wait 1 77 IN", "wait 10000");
	ask("recv 2 in", "recv 0 9");
	stop();
}

static void program_started(const char *how, bool cloexec, bool hinders)
{
	start("upgrade_after 0");
	if (cloexec)
		ask("cloexec 0", "cloexec 0");
	ask("start 0", "start 0 %s", how);
	ask("dup 0", "dup 0 1");
	ask("close 0", "close 1");
	ask("cloexec 0", "cloexec 0");	/* too late for those that were started before */
	proposed();
	if (!hinders) {
		switches();
	} else {
		hindered(IW_REASON_INHERITED);
	}
	stop();
}

static void test_programs(void **state)
{
	const char *const how[] = { "spawn", "system", "popen", "vfork" };

	for (unsigned int i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
		program_started(how[i], true, false);
		program_started(how[i], false, true);
	}
}

/* To which it was given by another number. */
static void test_programs_given(void **state)
{
	program_started("vforkas", true, true);
	start("upgrade_after 0");
	ask("cloexec 0", "cloexec 0");
	proposed();
	ask("start 0", "start 0 spawnas");
	go();
	tell("send 0 y");
	hear_plain(IW_REASON_INHERITED, false);
	expect("send 1");
	stop();
}

/* ---- io_uring ---- */

static void test_ring(void **state)
{
	start("upgrade_after 0");
	proposed();
	ask("ringrecv 1", "ringrecv 0");
	hindered(IW_REASON_IO_URING_USER);
	peer_sends("now");
	then_switches();
	stop();
}

/* ---- epoll ---- */

/* Proposed, in a set: what is ready before, at and after the switch. */
static void set_goes_along(void)
{
	peer_sends("in");
	ask("wait 1 77 IN", "wait 1000");
	go();
	tell("send 0 y");
	hear(IW_CTL_SWITCH);
	grant();
	switched("in");
	expect("send 1");
	ask("wait 1 77 IN", "wait 1000");
	ask("recv 2 in", "recv 0 9");
	ask("wait 0 ", "wait 0");
	carrier_sends("more");
	ask("wait 1 77 IN", "wait 1000");
	ask("mod 0", "mod 0 %d", EPOLLOUT);
	ask("wait 1 77 OUT", "wait 1000");
	stop();
}

/* Sets that are filled behind our back. */
static void unseen_set(const char *how)
{
	start("upgrade_after 0");
	proposed();
	tell("%s 0 %d", how, EPOLLIN);
	heard();
	set_goes_along();
}

static void test_epoll_unseen(void **state)
{
	unseen_set("rawadd");
	unseen_set("ringadd");
}

static void test_epoll(void **state)
{
	start("upgrade_after 0");
	ask("add 0", "add 0 %d", EPOLLIN);
	ask("dup 0", "dup 0 1");
	proposed();
	set_goes_along();
}

/* Between its event and the next epoll_ctl(), as most programs read: it has reported once, and does not again. */
static void test_epoll_fired(void **state)
{
	start("upgrade_after 0");
	ask("add 0", "add 0 %d", EPOLLIN | EPOLLONESHOT);
	proposed();
	peer_sends("abc");
	ask("wait 1 77 IN", "wait 10000");
	go();
	tell("recv 0 1");
	hear(IW_CTL_SWITCH);
	grant();
	switched("abc");
	expect("recv 1 a");
	ask("wait 0 ", "wait 50");
	ask("mod 0", "mod 0 %d", EPOLLIN | EPOLLONESHOT);
	ask("wait 1 77 IN", "wait 10000");
	ask("wait 0 ", "wait 0");
	stop();
}

/* Not fired yet: it reports once. */
static void test_epoll_oneshot(void **state)
{
	start("upgrade_after 0");
	ask("add 0", "add 0 %d", EPOLLIN | EPOLLONESHOT);
	proposed();
	switches();
	ask("wait 0 ", "wait 0");
	carrier_sends("abc");
	ask("wait 1 77 IN", "wait 10000");
	ask("wait 0 ", "wait 0");
	stop();
}

/* A thread sleeps in the set meanwhile: it is woken by the carrier. */
static void test_epoll_asleep(void **state)
{
	start("upgrade_after 0");
	ask("add 0", "add 0 %d", EPOLLIN | (int)EPOLLET);
	proposed();
	thread_begins(-2);
	switches();
	carrier_sends("wake");
	expect("thread 1");
	ask("join 0", "join");
	stop();
}

/* ---- and back ---- */

static void back_say(bool now)
{
	struct iw_ctl_tcp m;

	assert_int_equal(t.id.id, t.streams);
	iw_ctl_init(&m, IW_CTL_TCP, t.seq);
	m.result = !now;
	m.stream_id = t.streams;
	m.linger_on = 1;
	m.linger_s = 7;
	atomic_store(&t.page->end[0].hand, voided ? IW_HAND_VOID : IW_HAND_OFFERED);
	say_fds(&m, &t.tcp, now);
}

static void taken_back(void)
{
	struct linger l;
	socklen_t len = sizeof(l);

	hear(IW_CTL_SWITCHED);
	assert_int_equal(t.id.id, t.streams);
	assert_int_equal(atomic_load(&t.page->end[0].hand), IW_HAND_TAKEN);
	assert_false(getsockopt(t.tcp, SOL_SOCKET, SO_LINGER, &l, &len));
	assert_true(l.l_onoff == 1 && l.l_linger == 7);
	drop(&t.tcp);
	drop(&t.carrier);
	say_ack(t.streams);
}

/* As it is where a daemon says yes. */
static void dry(void)
{
	char c;

	while (recv(t.carrier, &c, 1, MSG_DONTWAIT) == 1)
		;
}

/* It sends d again and again, until the library wants T back, or is about to. */
static void asks_back(void)
{
	for (int i = 0; tell("send 0 d"), !speaks(t.lib); i++) {
		assert_true(i < 40);
		expect("send 1");
	}
}

static void back_answer(bool now)
{
	hear(IW_CTL_BACK);
	if (now)
		dry();
	back_say(now);
	if (now && !voided) {
		no_go();
		taken_back();
	}
}

static void test_back(void **state)
{
	int one = 1;

	start("upgrade_after 0");
	ask("add 0", "add 0 %d", EPOLLIN);
	ask("dup 0", "dup 0 1");
	proposed();
	switches();
	setsockopt(t.tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));	/* as a daemon has it */
	ask("set 0", "set 0 %d", TCP_CORK);
	atomic_store(&t.page->want, IW_WANT_BACK);
	carrier_sends("wet");
	ask("send 1", "send 0 a");	/* not dry: nothing is asked */
	carrier_gets("a");
	ask("recv 3 wet", "recv 0 9");
	for (int i = 0; i < 7; i++)
		ask("send 1", "send 0 b");
	carrier_gets("bbbbbbb");
	tell("send 0 c");
	back_answer(false);
	expect("send 1");
	carrier_gets("c");
	for (int i = 0; tell("send 0 v"), !speaks(t.lib); i++) {
		assert_true(i < 40);
		expect("send 1");
	}
	voided = true;			/* given, and taken back: it goes on as a stream */
	back_answer(true);
	voided = false;
	expect("send 1");
	for (char c = 0; c != 'v' || readable(t.carrier, 0);)
		assert_int_equal(recv(t.carrier, &c, 1, 0), 1);
	ask("kind 0 carrier", "kind 0");
	asks_back();
	back_answer(true);
	expect("send 1");
	peer_gets("d");
	ask("kind 0 tcp", "kind 0");
	ask("kind 0 tcp", "kind 1");
	ask("get 0", "get 0 %d", TCP_NODELAY);
	ask("get 1", "get 0 %d", TCP_CORK);
	peer_sends("plain");
	ask("wait 1 77 IN", "wait 10000");
	ask("recv 5 plain", "recv 1 9");
	hear_nothing();
	go();
	tell("send 0 e");
	hear(IW_CTL_SWITCH);	/* it is as it was: proposed, and GO may come */
	grant();
	switched("");
	expect("send 1");
	ask("close 0", "close 0");
	ask("close 0", "close 1");
	hear(IW_CTL_CLOSED);
	assert_int_equal(t.id.id, t.proposal.conn_id);
	stop();
}

/* Two lines, in whatever order. */
static void expect_both(const char *one, const char *other)
{
	bool first = !strcmp(heard(), one);

	expect(first ? other : one);
}

/* A program that another thread starts while the daemon is asked: it would have what is void by then. So it waits. */
static void starts_meanwhile(void)
{
	kill(t.pid, SIGUSR1);
	assert_false(readable(fileno(t.from), 50));
}

static void test_started_meanwhile(void **state)
{
	start("upgrade_after 0");
	tell("thread 0 -3");
	proposed();
	go();
	tell("send 0 y");
	hear(IW_CTL_SWITCH);
	starts_meanwhile();
	grant();
	switched("");
	expect_both("send 1", "start 0");
	carrier_gets("y");
	ask("join 0", "join");
	stop();
}

/* The program that uses urgent data on a stream has its socket again, and that is said: nobody is to wait for it. */
static void test_back_urgent(void **state)
{
	start("upgrade_after 0");
	proposed();
	switches();
	tell("oob 0");
	back_answer(true);
	hear_plain(IW_REASON_URGENT, false);
	expect("oob 1");
	ask("kind 0 tcp", "kind 0");
	hear_nothing();
}

/* It forked meanwhile, and the child is gone: what is registered was known when it came back. */
static void test_back_forked(void **state)
{
	start("upgrade_after 0");
	ask("add 0", "add 0 %d", EPOLLIN);
	proposed();
	switches();
	ask("fork 0", "fork 0 0");
	ask("end 0", "end");
	atomic_store(&t.page->want, IW_WANT_BACK);
	tell("send 0 d");
	back_answer(true);
	expect("send 1");
	peer_gets("d");
	go();
	tell("send 0 e");
	hear(IW_CTL_SWITCH);
	grant();
	switched("");
	expect("send 1");
	carrier_sends("in");
	ask("wait 1 77 IN", "wait 10000");
	stop();
}

static void test_back_started_meanwhile(void **state)
{
	start("upgrade_after 0");
	tell("thread 0 -3");
	proposed();
	switches();
	atomic_store(&t.page->want, IW_WANT_BACK);
	asks_back();
	hear(IW_CTL_BACK);
	starts_meanwhile();
	back_say(true);
	taken_back();
	expect_both("send 1", "start 0");
	peer_gets("d");
	ask("kind 0 tcp", "kind 0");
	ask("join 0", "join");
	stop();
}

/* Several threads look whether it can go back, at the same time. */
static void test_back_storm(void **state)
{
	start("upgrade_after 0");
	proposed();
	switches();
	atomic_store(&t.page->want, IW_WANT_BACK);
	for (int i = 0; i < 20; i++) {
		tell("storm 0 20000");
		while (speaks(t.lib))
			back_answer(false);
		expect("storm 0");
	}
	ask("send 1", "send 0 x");
	carrier_gets("x");
	stop();
}

/* ---- octets that another thread moves past the library ---- */

/* The program has two threads from here on. */
static void with_a_thread(void)
{
	start("upgrade_after 0");
	tell("thread 0 -4");
	proposed();
}

static void thread_writes(void)
{
	kill(t.pid, SIGUSR1);
	expect("late 4");
}

/* Of calls of ours each octet is counted, once. */
static void test_threads_seen(void **state)
{
	with_a_thread();
	peer_sends("back");
	ask("peek 2 ba", "peek 0 2");
	ask("recv 3 bac", "recv 0 3");
	ask("peek 1 k", "peek 0 9");
	ask("recv 1 k", "recv 0 9");
	ask("storm 0", "storm 0 10");
	switches();
	stop();
}

static void stays_unseen(const char *order, const char *answer)
{
	with_a_thread();
	ask(answer, "%s", order);
	peer_gets("abc");
	go();
	tell("send 0 y");
	hear_plain(IW_REASON_UNSEEN, false);
	expect("send 1");
	peer_gets("y");
	ask("kind 0 tcp", "kind 0");
	hear_nothing();
	stop();
}

static void test_threads_unseen(void **state)
{
	stays_unseen("rawsend 0 abc", "rawsend 3");
	stays_unseen("print 0 abc", "print 3");
}

/* What the only one writes so is written before the call that switches. */
static void test_one_thread_unseen(void **state)
{
	start("upgrade_after 0");
	proposed();
	ask("rawsend 3", "rawsend 0 abc");
	ask("print 3", "print 0 def");
	peer_gets("abcdef");
	switches();
	stop();
}

/* After the look, before the exchange. */
static void test_unseen_meanwhile(void **state)
{
	with_a_thread();
	go();
	tell("send 0 y");
	hear(IW_CTL_SWITCH);
	thread_writes();
	peer_gets("late");
	grant();
	hear(IW_CTL_ABANDON);
	assert_int_equal(t.id.id, t.streams);
	drop(&t.tcp);
	drop(&t.carrier);
	hear(IW_CTL_SYNC);
	say_ack(0);
	expect("send 1");
	peer_gets("y");
	for (int i = 0; tell("send 0 z"), !speaks(t.lib); i++) {
		assert_true(i < 40);
		expect("send 1");
		peer_gets("z");
	}
	hear_plain(IW_REASON_UNSEEN, false);
	expect("send 1");
	ask("kind 0 tcp", "kind 0");
	stop();
}

/* What it carried before it came back is none of that: neither of many octets nor of few. */
static void test_back_is_seen(void **state)
{
	with_a_thread();
	for (int i = 0; i < 40; i++) {
		ask("send 5", "send 0 many-");
		peer_gets("many-");
	}
	switches();
	atomic_store(&t.page->want, IW_WANT_BACK);
	asks_back();
	back_answer(true);
	expect("send 1");
	peer_gets("d");
	go();
	for (int n = 0;; n++) {
		for (int i = 0; tell("send 0 e"), !speaks(t.lib); i++) {
			assert_true(i < 400);
			expect("send 1");
			peer_gets("e");
		}
		hear(IW_CTL_SWITCH);
		if (n == 2)
			break;
		refuse();
		expect("send 1");
		peer_gets("e");
	}
	grant();
	switched("");
	expect("send 1");
	ask("kind 0 carrier", "kind 0");
	stop();
}

/* The same of one that goes back: it stays the stream that it was. */
static void test_back_unseen_meanwhile(void **state)
{
	with_a_thread();
	switches();
	atomic_store(&t.page->want, IW_WANT_BACK);
	asks_back();
	hear(IW_CTL_BACK);
	dry();
	thread_writes();
	back_say(true);
	hear(IW_CTL_ABANDON);
	assert_int_equal(t.id.id, t.streams);
	expect("send 1");
	carrier_gets("lated");
	ask("kind 0 carrier", "kind 0");
	stop();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_young),
		cmocka_unit_test(test_octets),
		cmocka_unit_test(test_never),
		cmocka_unit_test(test_switch),
		cmocka_unit_test(test_peeked),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_told_lowat),
		cmocka_unit_test(test_told_nothing),
		cmocka_unit_test(test_nonblock),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_daemon_dies),
		cmocka_unit_test(test_daemon_dies_late),
		cmocka_unit_test(test_void),
		cmocka_unit_test(test_upgrade_wait),
		cmocka_unit_test(test_go_late),
		cmocka_unit_test(test_urgent),
		cmocka_unit_test(test_passed),
		cmocka_unit_test(test_half_closed),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_busy_out),
		cmocka_unit_test(test_busy_poll),
		cmocka_unit_test(test_forked),
		cmocka_unit_test(test_forked_exec),
		cmocka_unit_test(test_exec_keeps),
		cmocka_unit_test(test_alias_unknown),
		cmocka_unit_test(test_alias),
		cmocka_unit_test(test_forked_killed),
		cmocka_unit_test(test_forked_away),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_programs_given),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_epoll),
		cmocka_unit_test(test_epoll_unseen),
		cmocka_unit_test(test_epoll_fired),
		cmocka_unit_test(test_epoll_oneshot),
		cmocka_unit_test(test_epoll_asleep),
		cmocka_unit_test(test_back),
		cmocka_unit_test(test_started_meanwhile),
		cmocka_unit_test(test_back_urgent),
		cmocka_unit_test(test_back_forked),
		cmocka_unit_test(test_back_started_meanwhile),
		cmocka_unit_test(test_back_storm),
		cmocka_unit_test(test_threads_seen),
		cmocka_unit_test(test_threads_unseen),
		cmocka_unit_test(test_one_thread_unseen),
		cmocka_unit_test(test_unseen_meanwhile),
		cmocka_unit_test(test_back_is_seen),
		cmocka_unit_test(test_back_unseen_meanwhile),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("switch", tests, NULL, NULL);
}
