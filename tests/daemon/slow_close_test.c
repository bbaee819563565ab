/* SPDX-License-Identifier: MIT */
/*
 * Descriptors whose close waits: a socket that lingers for a peer that never reads, a file of a FUSE file system that never answers.
 * However they get to the daemon, it must not wait with them.
 */
#include "cm_util.h"

#include <linux/fuse.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/uio.h>

#define LINGER_S	600	/* more than anybody waits here */

static struct lib other;	/* who must not notice */
static int sink, sunk[64];
static unsigned int nsunk;
static uint16_t sink_port;

static int setup(void **state)
{
	other = lib_new();
	sink = tcp_listen(&sink_port);
	nsunk = 0;
	return 0;
}

static int teardown(void **state)
{
	struct linger l = { .l_onoff = 1 };

	lib_free(&other);
	close(sink);
	for (unsigned int i = 0; i < nsunk; i++) {
		setsockopt(sunk[i], SOL_SOCKET, SO_LINGER, &l, sizeof(l));
		close(sunk[i]);
	}
	return 0;
}

/* A connected socket with octets that will never be read, which its last close waits for. */
static int lingering(void)
{
	struct linger l = { .l_onoff = 1, .l_linger = LINGER_S };
	char buf[65536] = "";
	int s = tcp_connect(sink_port);

	assert_true(nsunk < sizeof(sunk) / sizeof(sunk[0]));
	sunk[nsunk] = accept(sink, NULL, NULL);
	assert_true(sunk[nsunk++] >= 0);
	while (send(s, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	return s;
}

/* lib_reply() waits 20 s and fails. */
static void not_held_up(void)
{
	struct lib l;

	lib_sync(&other);
	l = lib_new();
	lib_sync(&l);
	lib_free(&l);
}

static void daemon_pause(void)
{
	int status;

	kill(d.pid, SIGSTOP);
	assert_int_equal(waitpid(d.pid, &status, WUNTRACED), d.pid);
	assert_true(WIFSTOPPED(status));
}

/* Give it away so that the daemon's close is the last; the daemon is paused. */
static void pass(int s, const void *msg, size_t len, int *fds, unsigned int n)
{
	send_fds(s, msg, len, fds, n);
	for (unsigned int i = 0; i < n; i++)
		close(fds[i]);
}

static void message(struct lib *l, enum iw_ctl_type type, int *fds, unsigned int n)
{
	union {
		struct iw_ctl_hdr h;
		struct iw_ctl_id i;
		struct iw_ctl_fdmsg f;
		struct iw_ctl_opt o;
	} m = { 0 };

	iw_ctl_init(&m, type, 0);
	m.h.seq = ++l->seq;
	pass(l->s, &m, m.h.len, fds, n);
}

static void lingers_in_a_message(void **state)
{
	static const enum iw_ctl_type types[] = { IW_CTL_SWITCH, IW_CTL_OPEN, IW_CTL_SYNC, IW_CTL_GETSOCKOPT };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct lib l = lib_new();
		int fd = lingering();

		daemon_pause();
		message(&l, types[i], &fd, 1);
		kill(d.pid, SIGCONT);
		not_held_up();
		lib_free(&l);
		not_held_up();
	}
}

static void lingers_as_one_too_many(void **state)
{
	struct lib l = lib_new();
	int fds[8];

	for (int i = 0; i < 8; i++)
		fds[i] = lingering();
	daemon_pause();
	message(&l, IW_CTL_SWITCH, fds, 8);
	kill(d.pid, SIGCONT);
	not_held_up();
	lib_free(&l);
}

/* Behind a message for which the client is closed: the kernel throws them away with the socket. */
static void lingers_in_a_message_not_read(void **state)
{
	struct lib l = lib_new();
	struct iw_ctl_hdr bad = { 0 };
	int fd;

	daemon_pause();
	send_fds(l.s, &bad, sizeof(bad), NULL, 0);
	for (int i = 0; i < 4; i++) {
		fd = lingering();
		message(&l, IW_CTL_SWITCH, &fd, 1);
	}
	kill(d.pid, SIGCONT);
	not_held_up();
	lib_free(&l);
	not_held_up();
}

/* The daemon relays between a carrier and the TCP socket of the other end, which is not switched. */
struct relayed {
	struct lib server, client;
	int listener, carrier, segment, tcp;
};

static void relayed_up(struct relayed *r)
{
	struct answer a;
	uint16_t port;
	int s;

	r->server = lib_new();
	r->client = lib_new();
	r->listener = tcp_listen(&port);
	r->tcp = tcp_connect(port);
	s = accept(r->listener, NULL, NULL);
	lib_propose(&r->client, r->tcp, 1, true);
	lib_propose(&r->server, s, 1, false);
	a = lib_switch_to(&r->server, 1, s);
	r->carrier = a.fds[0];
	r->segment = a.fds[1];
}

static void relayed_down(struct relayed *r)
{
	if (r->carrier >= 0)
		close(r->carrier);
	close(r->segment);
	lib_free(&r->server);
	lib_free(&r->client);
	close(r->tcp);
	close(r->listener);
}

/* Sent to a carrier, which is a unix socket although TCP knows no such thing. */
static void lingers_in_a_carrier(void **state)
{
	struct relayed r;
	int fd;
	char c;

	relayed_up(&r);
	for (int i = 0; i < 3; i++) {
		fd = lingering();
		daemon_pause();
		pass(r.carrier, "x", 1, &fd, 1);
		kill(d.pid, SIGCONT);
		not_held_up();
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(recv(r.tcp, &c, 1, 0), 1);
	not_held_up();
	relayed_down(&r);
}

/*
 * After an octet that came with a descriptor the relay's receive fails (closed with octets unread). The number of that descriptor is
 * somebody else's by then.
 */
static void error_after_descriptors(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), have = 0;
	struct relayed r;
	struct lib next;
	char c;

	relayed_up(&r);
	pass(r.carrier, "x", 1, &fd, 1);
	assert_int_equal(recv(r.tcp, &c, 1, 0), 1);
	next = lib_new();
	assert_int_equal(send(r.tcp, "unread", 6, 0), 6);
	while (have < 6)
		assert_int_equal(ioctl(r.carrier, FIONREAD, &have), 0);
	close(r.carrier);
	r.carrier = -1;
	assert_true(recv(r.tcp, &c, 1, 0) <= 0);	/* the relay has ended */
	lib_sync(&next);
	lib_free(&next);
	relayed_down(&r);
}

/* ---- a file system that opens and then says nothing more ---- */

static void fuse_answer(int dev, uint64_t unique, void *data, size_t len)
{
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + len), .unique = unique };
	struct iovec v[2] = { { &h, sizeof(h) }, { data, len } };

	if (writev(dev, v, 2) != (ssize_t)h.len)
		_exit(1);
}

static void fuse_serve(int dev)
{
	_Alignas(8) static char buf[(1 << 16) + 4096];
	const struct fuse_in_header *in = (const void *)buf;
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 1 << 16 };
	struct fuse_attr_out attr = { .attr = { .ino = 1, .mode = S_IFREG | 0600, .nlink = 1 } };
	struct fuse_open_out open = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(dev, buf, sizeof(buf)) > 0) {
		if (in->opcode == FUSE_INIT)
			fuse_answer(dev, in->unique, &init, sizeof(init));
		else if (in->opcode == FUSE_GETATTR)
			fuse_answer(dev, in->unique, &attr, sizeof(attr));
		else if (in->opcode == FUSE_OPEN)
			fuse_answer(dev, in->unique, &open, sizeof(open));
	}
	_exit(0);
}

static struct fuse {
	char path[80];
	int dev, fd;
	pid_t pid;
} fuse = { .dev = -1, .fd = -1 };

static bool fuse_up(struct fuse *f)
{
	char opts[80];

	snprintf(f->path, sizeof(f->path), "%s/fuse", d.dir);
	f->dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (f->dev < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return false;
	close(open(f->path, O_CREAT | O_WRONLY, 0600));
	snprintf(opts, sizeof(opts), "fd=%d,rootmode=100600,user_id=0,group_id=0", f->dev);
	if (mount("iwt", f->path, "fuse", MS_NOSUID | MS_NODEV, opts)) {
		unlink(f->path);
		return false;
	}
	f->pid = fork();
	if (!f->pid)
		fuse_serve(f->dev);
	return true;
}

/* Before anything that holds its file ends: what waits for an answer gets an error. */
static void fuse_down(void)
{
	if (fuse.pid <= 0)
		return;
	kill(fuse.pid, SIGKILL);
	waitpid(fuse.pid, NULL, 0);
	fuse.pid = 0;
	close(fuse.dev);
	close(fuse.fd);
	umount2(fuse.path, MNT_DETACH);
	unlink(fuse.path);
}

static int fuse_teardown(void **state)
{
	fuse_down();
	return teardown(state);
}

/* A malformed message with n times this file; whether that closed the connection. */
static bool pass_file(int fd, unsigned int n)
{
	struct iw_ctl_hdr bad = { 0 };
	int s = lib_connect(), fds[40], none[2];
	uint8_t buf[IW_CTL_MAX];
	ssize_t r;

	for (unsigned int i = 0; i < n; i++)
		fds[i] = fd;
	send_fds(s, &bad, sizeof(bad), fds, n);
	r = recv_fds(s, buf, sizeof(buf), none);
	close(s);
	return r == 0 || (r < 0 && errno == ECONNRESET);
}

/* Whether this user gets an answer to HELLO. */
static bool welcome(void)
{
	int s = lib_connect(), fds[2];
	struct iw_ctl_hello m;
	uint8_t buf[IW_CTL_MAX];
	ssize_t r;

	iw_ctl_init(&m, IW_CTL_HELLO, 1);
	strcpy(m.program, "slow_close_test");
	if (send(s, &m, sizeof(m), MSG_NOSIGNAL) < 0 && errno == EPIPE) {
		close(s);
		return false;
	}
	r = recv_fds(s, buf, sizeof(buf), fds);
	assert_true(r >= 0 || errno == ECONNRESET);
	for (int i = 0; i < 2; i++)
		if (r > 0 && fds[i] >= 0)
			close(fds[i]);
	close(s);
	return r > 0;
}

static void file_that_does_not_close(void **state)
{
	uint64_t until;

	if (!fuse_up(&fuse)) {
		print_message("# no FUSE here: %s\n", strerror(errno));
		skip();
	}
	fuse.fd = open(fuse.path, O_RDWR | O_CLOEXEC);
	assert_true(fuse.fd >= 0);
	assert_true(pass_file(fuse.fd, 1));
	not_held_up();
	assert_true(pass_file(fuse.fd, 40));
	not_held_up();
	/* enough: the descriptors of the daemon are for others too */
	assert_true(pass_file(fuse.fd, 40));
	assert_false(welcome());
	assert_true(log_has("files that do not close"));
	fuse_down();
	until = now_ms() + 20000;
	while (!welcome() && now_ms() < until)
		;
	assert_true(welcome());
}

/* ---- sockets whose close waits for all processors: many of them in a socket, in whose queue nobody looks ---- */

#define PACKETS	80

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void packets_into(int s)
{
	struct iw_ctl_hdr h;
	int fds[PACKETS];

	iw_ctl_init(&h, IW_CTL_SYNC, 0);
	for (int i = 0; i < PACKETS; i++) {
		fds[i] = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(0x0003));
		assert_true(fds[i] >= 0);
	}
	send_fds(s, &h, sizeof(h), fds, PACKETS);
	for (int i = 0; i < PACKETS; i++)
		close(fds[i]);
}

/* The longest of the other program's requests while this is closed, us. */
static uint64_t worst_request(void)
{
	uint64_t worst = 0, until = now_us() + 200000;

	while (now_us() < until) {
		uint64_t t = now_us();

		lib_sync(&other);
		if (now_us() - t > worst)
			worst = now_us() - t;
	}
	return worst;
}

/* how: 0 in a socket that is passed, 1 in messages not received. Of some attempts the best: others use the machine, too. */
static void nested(int how)
{
	uint64_t alone, most, worst = UINT64_MAX, w;
	int v[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, v), 0);
	packets_into(v[0]);
	close(v[0]);
	alone = now_us();
	close(v[1]);
	alone = now_us() - alone;
	most = alone / 2 + 2000;
	for (int i = 0; i < 20 && worst > most; i++) {
		struct lib l = lib_new();
		struct iw_ctl_hdr bad = { 0 };

		daemon_pause();
		if (how == 0) {
			assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, v), 0);
			packets_into(v[0]);
			close(v[0]);
			message(&l, IW_CTL_OPEN, &v[1], 1);
		} else {
			send_fds(l.s, &bad, sizeof(bad), NULL, 0);
			packets_into(l.s);
		}
		kill(d.pid, SIGCONT);
		w = worst_request();
		worst = w < worst ? w : worst;
		lib_free(&l);
	}
	if (worst > most)
		fail_msg("closing them takes %u us, and another program's request took %u", (unsigned int)alone, (unsigned int)worst);
}

static void nested_in_a_socket(void **state)
{
	nested(0);
}

static void nested_in_messages_not_read(void **state)
{
	nested(1);
}

static void lock_is_free(void)
{
	uint64_t until = now_ms() + 20000;
	char path[100];
	int fd, ret;

	snprintf(path, sizeof(path), "%s/lock", d.dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	while ((ret = flock(fd, LOCK_EX | LOCK_NB)) && now_ms() < until)
		;
	assert_int_equal(ret, 0);
	close(fd);
}

/* Its process is kept until the file system answers; the connections of others and the run directory are not. The last test: it stops. */
static void stops_while_a_file_does_not_close(void **state)
{
	struct timeval tv = { .tv_sec = 20 };
	struct relayed r;
	int status;
	char c;

	if (!fuse_up(&fuse)) {
		print_message("# no FUSE here: %s\n", strerror(errno));
		skip();
	}
	relayed_up(&r);
	assert_int_equal(send(r.carrier, "x", 1, 0), 1);
	setsockopt(r.tcp, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(r.carrier, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	assert_int_equal(recv(r.tcp, &c, 1, 0), 1);
	fuse.fd = open(fuse.path, O_RDWR | O_CLOEXEC);
	assert_true(fuse.fd >= 0);
	assert_true(pass_file(fuse.fd, 1));
	not_held_up();
	kill(d.pid, SIGTERM);
	assert_int_equal(recv(r.tcp, &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_true(recv(r.carrier, &c, 1, 0) <= 0 && errno != EAGAIN);
	lock_is_free();
	fuse_down();
	assert_int_equal(waitpid(d.pid, &status, 0), d.pid);
	assert_int_equal(status, 0);
	relayed_down(&r);
	d.pid = 0;
}

/* All was left as it is after an orderly end; for the group's teardown there is to be a daemon. */
static int start_again(void **state)
{
	char path[100];

	fuse_down();
	lib_free(&other);
	close(sink);
	if (d.pid)
		return 0;
	unlink(d.log);
	snprintf(path, sizeof(path), "%s/lock", d.dir);
	unlink(path);
	rmdir(d.dir);
	return daemon_start(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lingers_in_a_message, setup, teardown),
		cmocka_unit_test_setup_teardown(lingers_as_one_too_many, setup, teardown),
		cmocka_unit_test_setup_teardown(lingers_in_a_message_not_read, setup, teardown),
		cmocka_unit_test_setup_teardown(lingers_in_a_carrier, setup, teardown),
		cmocka_unit_test_setup_teardown(error_after_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(file_that_does_not_close, setup, fuse_teardown),
		cmocka_unit_test_setup_teardown(nested_in_a_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(nested_in_messages_not_read, setup, teardown),
		cmocka_unit_test_setup_teardown(stops_while_a_file_does_not_close, setup, start_again),
	};

	own_net();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, daemon_start, daemon_stop);
}
