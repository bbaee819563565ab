/* SPDX-License-Identifier: MIT */
/*
 * A server with the library, whose daemon (this test) goes away in the middle of a CLAIM: plain TCP as long as nothing has begun,
 * a reset when octets of MPA may follow, never those octets as data.
 */
#include "cm_util.h"

#include <limits.h>
#include <sys/time.h>

static struct {
	int ctl;		/* listening */
	int lib;		/* the connection of the server's library */
	uint32_t seq;
	struct iw_proc *proc;
	struct iw_peers *peers;
	int fds[2];		/* the two pages */
	char dir[64];
	pid_t pid;
	int out;		/* what the server prints */
} t;

static void server_says(char *buf, size_t size)
{
	size_t n = 0;

	while (n + 1 < size && read(t.out, buf + n, 1) == 1 && buf[n] != '\n')
		n++;
	buf[n] = 0;
}

/* ---- the daemon ---- */

static void *page(size_t size, int *fd)
{
	void *p;

	*fd = memfd_create("iwt", MFD_CLOEXEC);
	assert_int_equal(ftruncate(*fd, (off_t)size), 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void pages(void)
{
	struct iw_addr a = loopback(0);
	struct iw_peer_slot *s;

	t.proc = page(IW_PAGE_SIZE, &t.fds[0]);
	t.proc->magic = IW_PROC_MAGIC;
	t.proc->version = 1;
	t.peers = page(sizeof(*t.peers), &t.fds[1]);
	t.peers->magic = IW_PEERS_MAGIC;
	t.peers->version = 1;
	s = &t.peers->slot[iw_addr_hash(a.ip, 0) % IW_PEERS_SLOTS];
	memcpy((void *)s->ip, a.ip, sizeof(a.ip));
	s->state = IW_PEER_LOCAL;
}

static void hear(enum iw_ctl_type type, int *passed)
{
	uint8_t buf[IW_CTL_MAX];
	struct iw_ctl_hdr h;
	int fds[2];
	ssize_t n = recv_fds(t.lib, buf, sizeof(buf), fds);

	assert_true(n >= (ssize_t)sizeof(h));
	memcpy(&h, buf, sizeof(h));
	assert_string_equal(iw_ctl_name(h.type), iw_ctl_name(type));
	t.seq = h.seq;
	if (passed)
		*passed = fds[0];
}

static void start(void)
{
	const char *build = getenv("IW_BUILD");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct timeval tv = { .tv_sec = 20 };
	struct iw_ctl_hello_ack a;
	struct iw_ctl_ack k;
	char lib[PATH_MAX], server[300], link[100];
	int p[2], fd;

	snprintf(t.dir, sizeof(t.dir), "%s/iwt-cl.XXXXXX", tmp_dir());
	assert_non_null(mkdtemp(t.dir));
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", t.dir, IW_CTL_SOCK);
	t.ctl = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(t.ctl, (void *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(t.ctl, 1), 0);
	setsockopt(t.ctl, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	pages();
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	snprintf(server, sizeof(server), "%s/libiwsock.so", build ? build : "build/plain");
	assert_non_null(realpath(server, lib));
	snprintf(link, sizeof(link), "%s/lib", t.dir);		/* LD_PRELOAD takes no space */
	assert_int_equal(symlink(lib, link), 0);
	snprintf(server, sizeof(server), "%s/tests/lib/accept_once", build ? build : "build/plain");
	t.pid = fork();
	if (!t.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("LD_PRELOAD", link, 1);
		setenv("IWSOCK_RUNDIR", t.dir, 1);
		dup2(p[1], 1);
		execl(server, server, (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	t.out = p[0];
	t.lib = accept4(t.ctl, NULL, NULL, SOCK_CLOEXEC);
	assert_true(t.lib >= 0);
	setsockopt(t.lib, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	hear(IW_CTL_HELLO, NULL);
	iw_ctl_init(&a, IW_CTL_HELLO_ACK, t.seq);
	a.result = 0;
	a.answer_ms = 10000;
	send_fds(t.lib, &a, sizeof(a), t.fds, 2);
	hear(IW_CTL_LISTEN, &fd);
	close(fd);
	iw_ctl_init(&k, IW_CTL_ACK, t.seq);
	k.result = 0;
	k.reason = 0;
	k.id = 1;
	send_fds(t.lib, &k, sizeof(k), NULL, 0);
}

static void stop(const char *want)
{
	char path[100], got[100];
	int status;

	close(t.ctl);
	close(t.lib);
	server_says(got, sizeof(got));
	assert_string_equal(got, want);
	assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
	assert_int_equal(status, 0);
	close(t.out);
	munmap(t.proc, IW_PAGE_SIZE);
	munmap(t.peers, sizeof(*t.peers));
	close(t.fds[0]);
	close(t.fds[1]);
	snprintf(path, sizeof(path), "%s/%s", t.dir, IW_CTL_SOCK);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lib", t.dir);
	unlink(path);
	rmdir(t.dir);
}

/* Until the CLAIM of a connection whose client has sent "octets". */
static int claimed(void)
{
	char port[20];
	int c, tcp;

	start();
	server_says(port, sizeof(port));
	c = tcp_connect((uint16_t)atoi(port));
	assert_int_equal(send(c, "octets", 6, 0), 6);
	hear(IW_CTL_CLAIM, &tcp);
	close(tcp);
	return c;
}

static void promise(uint32_t seq)
{
	atomic_store(&t.proc->promised[t.seq % IW_PROMISES], seq);
}

static void nothing_begun(void **state)
{
	int c = claimed();

	stop("octets");
	close(c);
}

static void promised(void **state)
{
	int c = claimed();
	char b;

	promise(t.seq);
	stop("ECONNRESET");
	assert_int_equal(recv(c, &b, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(c);
}

static void an_older_promise(void **state)
{
	int c = claimed();

	promise(t.seq - IW_PROMISES);
	stop("octets");
	close(c);
}

static void a_later_promise_took_its_place(void **state)
{
	int c = claimed();

	promise(t.seq + IW_PROMISES);
	stop("ECONNRESET");
	close(c);
}

/* The stream came, the ACK that makes it the server's did not. */
static void granted(void **state)
{
	struct iw_ctl_stream m;
	int c = claimed(), s[2], seg, fds[2];
	struct iw_page *p = page(IW_PAGE_SIZE * 2, &seg);

	promise(t.seq);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	iw_ctl_init(&m, IW_CTL_STREAM, t.seq);
	m.result = 0;
	m.reason = 0;
	m.stream_id = 7;
	m.size = IW_PAGE_SIZE * 2;
	m.end = 1;
	m.flags = 0;
	fds[0] = s[0];
	fds[1] = seg;
	send_fds(t.lib, &m, sizeof(m), fds, 2);
	close(s[0]);
	close(s[1]);
	close(seg);
	munmap(p, IW_PAGE_SIZE * 2);
	stop("ECONNRESET");
	close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_begun), cmocka_unit_test(promised), cmocka_unit_test(an_older_promise),
		cmocka_unit_test(a_later_promise_took_its_place), cmocka_unit_test(granted),
	};

	own_net();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
