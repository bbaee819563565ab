// SPDX-License-Identifier: MIT
/*
 * The map as a path of the library (preload/paths/mapped*.c, and preload/map_give.c): two ends on maps of their own and a TCP connection,
 * without a daemon: what TCP answers, octets at random and by threads, and that whoever sleeps finds the carrier when the map is given back.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "end_util.h"
#include "preload/user.c"
#include "no_faults.h"
#include "no_rings.h"
#include "preload/lock.c"
#include "preload/paths/mapped.c"
#include "preload/paths/mapped_call.c"
#include "preload/paths/mapped_in.c"
#include "preload/paths/mapped_rx.c"
#include "preload/paths/mapped_sleep.c"
#include "preload/paths/mapped_tx.c"
#include "preload/sleeps.c"
#include "preload/spin.c"
_Atomic uint8_t iw_conf_spin;
_Atomic uint32_t iw_streams_carried;
#define ours map_ours
#define take map_take
#include "preload/map.c"
#include "preload/map_give.c"
#include "preload/orphan.c"
#undef ours
#undef take

/* ---- the core, as far as the path needs it ---- */

_Atomic uint32_t iw_fdtab[IW_FD_MAX], iw_handlers, iw_handlers_unseen;
_Atomic uint64_t iw_handlers_restart, iw_handlers_interrupt;
__thread struct iw_handlers_step iw_handlers_step __attribute__((tls_model("initial-exec")));
void iw_handlers_late(void) { }
void iw_handlers_look(void) { }
_Atomic int iw_fd_high_app = -1;
struct iw_lock iw_tab_lock;
struct iw_real iw_real;
struct iw_stream *_Atomic iw_stream_chunks[IW_STREAMS_CHUNKS];
struct iw_candidate *_Atomic iw_candidates;
static _Atomic int unmapped;	/* times that the daemon was told */

int iw_daemon_ask(void *msg, int fd_in, void *reply, size_t size, int fds[2], uint64_t gen)
{
	unmapped += ((struct iw_ctl_hdr *)msg)->type == IW_CTL_UNMAP;
	return 0;
}

void iw_ctl_init(void *msg, enum iw_ctl_type type, uint32_t seq)
{
	((struct iw_ctl_hdr *)msg)->type = (uint16_t)type;
}

bool iw_daemon_tell_id(enum iw_ctl_type type, uint64_t id, enum iw_reason reason, int fd) { return true; }
void iw_daemon_hint(void *msg) { }
_Atomic uint64_t iw_bursts;
void iw_bursts_send(const struct iw_stream *but) { }
bool iw_burst_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags) { return false; }
void iw_burst_count(struct iw_stream *s) { }
void iw_burst_end(struct iw_stream *s) { }
void iw_burst_lost(struct iw_stream *s) { }
void iw_files_look(struct iw_files *v, const int *fds, unsigned int n) { }
bool iw_stream_alone(struct iw_stream *s, const int *fds, unsigned int n) { return true; }
uint32_t iw_stream_word(const struct iw_stream *s) { return 0; }
int iw_stream_own(struct iw_stream *s, int fd) { return 0; }
void iw_stream_apart(struct iw_stream *s) { }
static short hup;
short iw_fd_bits(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events & POLLOUT };

	poll(&p, 1, 0);
	return (short)(hup | (p.revents & POLLOUT));
}
bool iw_in_vfork(void) { return false; }
bool iw_quiet(int fd, uint64_t *way) { return false; }
bool iw_reg_lost(int fd) { return false; }
bool iw_reg_may_map(int fd) { return true; }
int iw_reg_detach(int fd) { return 0; }
void iw_reg_attach(int fd, bool other) { }
int iw_fd_hide(int fd) { return fd; }
void iw_fd_unhide_close(int fd) { close(fd); }
bool iw_fd_room(int fd) { return true; }
uint64_t iw_fd_ino(int fd) { return 0; }
void iw_flags_read(int fd, struct iw_flags *f) { memset(f, 0, sizeof(*f)); }
int iw_map_ask_carrier(enum iw_ctl_type type, int mine, int fd) { return -1; }
bool iw_map_direct(int fd, struct iw_stream *s) { return false; }
void iw_stream_reset(struct iw_stream *s, int fd) { }
uint32_t iw_word_set(int fd, uint32_t w) { return 0; }
bool iw_word_cas(int fd, uint32_t old, uint32_t w) { return false; }

static _Atomic int watches[16];

bool iw_kick_may(void) { return true; }
int iw_kick_watch_kept(void) { return -1; }

int iw_kick_watch(void)
{
	int fd = eventfd(0, EFD_NONBLOCK), none = 0;

	for (int i = 0; i < 16 && !atomic_compare_exchange_strong(&watches[i], &none, fd); i++)
		none = 0;
	return fd;
}

void iw_kick(void)
{
	for (int i = 0; i < 16; i++)
		if (watches[i])
			eventfd_write(watches[i], 1);
}

void iw_kick_seen(int watch)
{
	eventfd_t n;

	eventfd_read(watch, &n);
}

void iw_kick_done(int watch)
{
	for (int i = 0, fd = watch; i < 16 && !atomic_compare_exchange_strong(&watches[i], &fd, 0); i++)
		fd = watch;
	close(watch);
}

static short reported;

void iw_ready(struct iw_stream *s, int fd, short what)
{
	reported |= what;
	if (s->polled)
		iw_kick();
}

static ssize_t carrier_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	return recv(fd, io->one.iov_base, io->one.iov_len, flags);
}

static ssize_t carrier_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	return send(fd, io->one.iov_base, io->one.iov_len, flags | MSG_NOSIGNAL);
}

const struct iw_path_ops iw_carrier = { .rx = carrier_rx, .tx = carrier_tx };

/* ---- two ends ---- */

static struct end {
	struct iw_stream s;
	struct iw_page page;
	struct priv priv;
	int c, d;		/* its carrier, and the daemon's end */
	unsigned int seed;
	uint64_t n;
} e[2];

static void setup_end(struct end *x, int tcp, bool initiator)
{
	struct priv_param p = priv_default();
	struct given g = { .tcp = tcp };
	int v[2];
	long m;

	p.rs.srcavail_min = 0;
	memset(&x->s, 0, sizeof(x->s));
	x->s.page = &x->page;
	priv_new(&x->priv, &p, &p, initiator);
	assert_false(socketpair(AF_UNIX, SOCK_STREAM, 0, v));
	x->c = v[0];
	x->d = v[1];
	g.len = x->priv.map_len;
	m = IW_SYS(mmap, NULL, g.len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(m > 0);
	g.map = (struct iw_map *)m;
	iw_map_export(g.map, &x->priv.p);
	atomic_store(&g.map->owner, IW_MAP_LIBRARY);
	assert_false(iw_end_open(&x->s.view, g.map, g.len));
	begin(x->c, &x->s, &g);
}

static int setup(void **state)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t l = sizeof(sin);
	int s = socket(AF_INET, SOCK_STREAM, 0), a = socket(AF_INET, SOCK_STREAM, 0);

	assert_false(bind(s, (void *)&sin, l) || listen(s, 1) || getsockname(s, (void *)&sin, &l) || connect(a, (void *)&sin, l));
	setup_end(&e[0], a, true);
	setup_end(&e[1], accept(s, NULL, NULL), false);
	close(s);
	iw_stream_chunks[0] = &e[1].s;
	iw_fdtab[e[1].c] = iw_word_make(IW_FD_STREAM, 0);
	unmapped = 0;
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < 2; i++) {
		iw_map_close(e[i].c, &e[i].s);
		close(e[i].c);
		close(e[i].d);
		priv_free(&e[i].priv);
	}
	return 0;
}

static ssize_t tx(struct end *x, const void *buf, size_t n, int flags)
{
	struct iw_io io;

	iw_io_buf(&io, buf, n, IW_IO_SOCK);
	return iw_path(&x->s)->tx(&x->s, x->c, &io, flags);
}

static ssize_t rx(struct end *x, void *buf, size_t n, int flags)
{
	struct iw_io io;

	iw_io_buf(&io, buf, n, IW_IO_SOCK);
	return iw_path(&x->s)->rx(&x->s, x->c, &io, flags);
}

static bool arrives(const struct end *x)
{
	struct pollfd p = { .fd = x->s.mapped, .events = POLLIN };

	return poll(&p, 1, 60000) == 1;
}

static uint8_t octet(uint64_t at, int side)
{
	return (uint8_t)(at * 2654435761u >> 13) ^ (uint8_t)(side * 77);
}

static void test_answers(void **state)
{
	char b[64];
	struct iovec v[3] = { { "ab", 2 }, { NULL, 0 }, { "cde", 3 } }, w[2] = { { b, 3 }, { b + 10, 5 } };
	struct iw_io io;

	assert_int_equal(rx(&e[1], b, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	iw_io_vec(&io, v, 3, IW_IO_FILE);
	assert_int_equal(iw_mapped.tx(&e[0].s, e[0].c, &io, 0), 5);
	assert_int_equal(rx(&e[1], b, 4, MSG_PEEK), 4);
	assert_memory_equal(b, "abcd", 4);
	iw_io_vec(&io, w, 2, IW_IO_FILE);
	assert_int_equal(iw_mapped.rx(&e[1].s, e[1].c, &io, 0), 5);
	assert_memory_equal(b, "abc", 3);
	assert_memory_equal(b + 10, "de", 2);
	assert_int_equal(tx(&e[1], "back", 4, 0), 4);
	assert_int_equal(rx(&e[0], b, 2, 0), 2);	/* sleeps in the socket until it is there */
	assert_int_equal(iw_mapped.inq(&e[0].s, e[0].c), 2);
	assert_int_equal(rx(&e[0], b, 9, MSG_WAITALL | MSG_DONTWAIT), 2);
	assert_memory_equal(b, "ck", 2);
	assert_int_equal(tx(&e[0], (void *)8, 5, 0), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(tx(&e[0], "x", 1, 0), 1);
	assert_int_equal(rx(&e[1], (void *)8, 5, 0), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(rx(&e[1], b, 5, 0), 1);	/* it is still there */
	assert_int_equal(tx(&e[0], "", 0, 0), 0);
	assert_int_equal(tx(&e[0], "u", 1, MSG_OOB), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_false(unmapped);
}

/* Full, without waiting: what is taken comes, and nothing is left behind that nobody would send. */
static void test_full(void **state)
{
	static uint8_t b[100000];
	uint64_t sent = 0, got = 0;
	ssize_t n;

	while ((n = tx(&e[0], b, sizeof(b), MSG_DONTWAIT)) == (ssize_t)sizeof(b))
		sent += (uint64_t)n;
	sent += n > 0 ? (uint64_t)n : 0;
	assert_true(sent > sizeof(b));
	while (tx(&e[0], b, 1, MSG_DONTWAIT) > 0)
		sent++;
	assert_int_equal(iw_mapped.bits(&e[0].s, e[0].c, POLLOUT), 0);
	while (got < sent) {
		n = rx(&e[1], b, sizeof(b), MSG_DONTWAIT);
		assert_true(n > 0 || errno == EAGAIN);
		got += n > 0 ? (uint64_t)n : 0;
		iw_mapped.step(&e[0].s, e[0].c, false);
	}
	assert_int_equal(iw_mapped.bits(&e[0].s, e[0].c, POLLOUT), POLLOUT);
	assert_false(unmapped);
}

static int inq(const struct end *x)
{
	int n = 0;

	assert_false(ioctl(x->s.mapped, FIONREAD, &n));
	return n;
}

/* Who is only told that there is some has no more of it brought than that, but where an end may be behind it. */
static void test_some(void **state)
{
	static uint8_t b[240000], r[sizeof(b)];
	int left, room = 1 << 20;
	size_t there;

	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(i * 2654435761u >> 24);
	assert_false(setsockopt(e[1].s.mapped, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)));
	assert_int_equal(tx(&e[0], b, sizeof(b), MSG_DONTWAIT), sizeof(b));
	for (time_t end = time(NULL) + 30; inq(&e[1]) < (int)sizeof(b) && time(NULL) < end;)
		sched_yield();
	assert_int_equal(iw_mapped.step(&e[1].s, e[1].c, true), POLLIN);
	assert_true(e[1].s.view.later);		/* it is checked when it is read */
	there = iw_end_unread(&e[1].s.view) + e[1].s.view.s->rx_len - e[1].s.view.s->rx_off;
	left = inq(&e[1]);
	assert_in_range(there, 1, sizeof(b) - 1);
	assert_true(left > 0);
	assert_int_equal(iw_mapped.step(&e[1].s, e[1].c, true), 0);
	assert_int_equal(inq(&e[1]), left);
	assert_int_equal(e[1].s.known & POLLIN, POLLIN);
	assert_int_equal(rx(&e[1], r, 100000, 0), 100000);	/* some of it goes straight to r */
	assert_false(e[1].s.view.later);
	hup = POLLRDHUP;
	assert_int_equal(iw_mapped.step(&e[1].s, e[1].c, true), POLLIN);
	hup = 0;
	assert_int_equal(inq(&e[1]), 0);
	assert_int_equal(rx(&e[1], r + 100000, sizeof(r) - 100000, MSG_WAITALL), sizeof(r) - 100000);
	assert_memory_equal(r, b, sizeof(b));
}

/* What was left as it came is spoiled: the stream was readable, and its reader hears of a reset, as of one that comes after poll(). */
static void test_later_spoiled(void **state)
{
	static uint8_t b[100000];

	assert_int_equal(tx(&e[0], b, sizeof(b), MSG_DONTWAIT), sizeof(b));
	for (time_t end = time(NULL) + 30; inq(&e[1]) < (int)sizeof(b) && time(NULL) < end;)
		sched_yield();
	assert_int_equal(iw_mapped.step(&e[1].s, e[1].c, true), POLLIN);
	assert_true(e[1].s.view.later);
	e[1].s.view.s->rx[e[1].s.view.s->rx_off + 5000] ^= 1;
	assert_int_equal(rx(&e[1], b, sizeof(b), MSG_DONTWAIT), -1);
	assert_int_equal(unmapped, 1);
}

static void sndbuf(struct end *x, int n)
{
	assert_false(setsockopt(x->s.mapped, SOL_SOCKET, SO_SNDBUF, &n, sizeof(n)));
}

/* TCP takes some again, but is not writable yet: room is made by who asks for room, not by who asks whether the stream has ended. */
static void test_ends_alone(void **state)
{
	static uint8_t b[100000];

	sndbuf(&e[0], 32768);
	while (tx(&e[0], b, sizeof(b), MSG_DONTWAIT) == (ssize_t)sizeof(b))
		;
	assert_true(e[0].s.known & IW_KNOWN_MORE);
	sndbuf(&e[0], 200000);		/* as much as TCP wants for saying that there is some */
	reported = 0;
	assert_int_equal(iw_mapped.bits(&e[0].s, e[0].c, 0), 0);
	assert_int_equal(reported, 0);
	assert_int_equal(iw_mapped.bits(&e[0].s, e[0].c, POLLOUT), POLLOUT);
	assert_int_equal(reported, POLLOUT);
	assert_false(unmapped);
}

#define TOTAL	(24u << 20)

static void *writer(void *arg)
{
	struct end *x = arg;
	static __thread uint8_t b[70000];

	for (uint64_t at = 0; at < TOTAL;) {
		size_t k = 1 + (size_t)rand_r(&x->seed) % (rand_r(&x->seed) % 4 ? 900 : sizeof(b));
		ssize_t n;

		for (size_t i = 0; i < k; i++)
			b[i] = octet(at + i, x == &e[0]);
		n = tx(x, b, k, 0);
		if (n != (ssize_t)k)
			return "a blocking send is cut";
		at += k;
		x->n = at;
	}
	return NULL;
}

static void *reader(void *arg)
{
	struct end *x = arg;
	static __thread uint8_t b[90000];

	for (uint64_t at = 0; at < TOTAL;) {
		ssize_t n = rx(x, b, 1 + (size_t)rand() % sizeof(b), 0);

		if (n <= 0)
			return "nothing comes";
		for (ssize_t i = 0; i < n; i++)
			if (b[i] != octet(at + (uint64_t)i, x == &e[1]))
				return "a wrong octet";
		at += (uint64_t)n;
	}
	return NULL;
}

/* Both ways at once, two threads at each end; the more than TOTAL that the last writes have stays unread. */
static void test_threads(void **state)
{
	pthread_t t[4];
	void *said;

	for (int i = 0; i < 4; i++)
		assert_false(pthread_create(&t[i], NULL, i & 1 ? reader : writer, &e[i >> 1]));
	for (int i = 0; i < 4; i++) {
		assert_false(pthread_join(t[i], &said));
		if (said)
			fail_msg("%s", (const char *)said);
	}
	assert_false(unmapped);
}

static void *blocked(void *arg)
{
	static char b[16];
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	return rx(arg, b, sizeof(b), 0) == 7 ? b : NULL;
}

static void sleeps(struct end *x)
{
	while (!x->s.polled)
		usleep(1000);
	usleep(20000);
}

/* It sleeps in the socket, with all signals blocked; then the octets come by the carrier. */
static void test_given_back(void **state)
{
	pthread_t t;
	void *said;

	assert_int_equal(tx(&e[1], "there", 5, 0), 5);
	assert_false(pthread_create(&t, NULL, blocked, &e[1]));
	sleeps(&e[1]);
	iw_map_give(e[1].c, &e[1].s);
	assert_int_equal(unmapped, 1);
	assert_int_equal(iw_stream_wait_fd(&e[1].s, e[1].c), e[1].c);
	assert_int_equal(e[1].s.tx_put, 5);
	assert_int_equal(send(e[1].d, "carried", 7, 0), 7);
	assert_false(pthread_join(t, &said));
	assert_non_null(said);
	assert_memory_equal(said, "carried", 7);
}

/* Cancelled while it sleeps: nothing is held, and nobody counted. */
static void test_cancelled(void **state)
{
	pthread_t t;
	char b[4];

	assert_false(pthread_create(&t, NULL, reader, &e[1]));
	sleeps(&e[1]);
	assert_false(pthread_cancel(t));
	assert_false(pthread_join(t, NULL));
	assert_int_equal(e[1].s.polled, 0);
	assert_int_equal(tx(&e[0], "next", 4, 0), 4);
	assert_int_equal(rx(&e[1], b, 4, MSG_WAITALL), 4);
	assert_memory_equal(b, "next", 4);
}

/* Who writes finds a reset before the octets that came ahead of it: they are given back with the map. */
static void test_reset_behind(void **state)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct pollfd p = { .fd = e[1].s.mapped };
	size_t len = e[1].s.map_len;
	struct iw_map *m = mremap(e[1].s.map, 0, len, MREMAP_MAYMOVE);
	struct iw_map_priv at;

	assert_ptr_not_equal(m, MAP_FAILED);
	assert_int_equal(tx(&e[0], "hello", 5, 0), 5);
	assert_true(arrives(&e[1]));
	assert_false(connect(e[0].s.mapped, &none, sizeof(none)));
	assert_int_equal(poll(&p, 1, 60000), 1);
	tx(&e[1], "x", 1, 0);
	assert_int_equal(unmapped, 1);
	iw_map_at(m, &e[1].priv.p.f->p, &at);
	assert_int_equal(iw_rs_rx_unread(&at.f->rs), 5);
	munmap(m, len);
}

static int pushes(const struct end *x)
{
	int v = -1;
	socklen_t l = sizeof(v);

	assert_false(getsockopt(x->s.mapped, IPPROTO_TCP, TCP_NODELAY, &v, &l));
	return !!v;
}

static int ppoll_nothing(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *sigs)
{
	return 0;
}

/* What a look has found another thread takes before the sleep: that is no time-out. */
static void test_look_taken(void **state)
{
	struct iw_mapped_call c = { .watch = -1, .signals = -1, .d.end = -1 };
	int (*was)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) = iw_real.ppoll;
	int v[2];

	assert_int_equal(pipe(v), 0);
	assert_int_equal(write(v[1], "x", 1), 1);
	atomic_store(&iw_conf_spin, IW_SPIN_ALWAYS);
	iw_real.ppoll = ppoll_nothing;
	assert_int_equal(sleep_poll(&c, v[0], POLLIN), 0);
	iw_real.ppoll = was;
	atomic_store(&iw_conf_spin, IW_SPIN_ADAPTIVE);
	close(v[0]);
	close(v[1]);
}

/* The agent's last octets may have been an ACK or credits, for which TCP would not keep the program's first ones back; for those it keeps the next. */
static void test_first(void **state)
{
	assert_int_equal(tx(&e[0], "a", 1, 0), 1);
	assert_true(pushes(&e[0]));
	assert_int_equal(tx(&e[0], "b", 1, 0), 1);
	assert_false(pushes(&e[0]));
}

/* An offer that is the peer's last word: its octets are to be read first, also where no daemon is left to do it. */
static void test_offer_and_fin(void **state)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .flags = IW_WR_INLINE, .inl_len = IW_CW_LEN + IW_CW_SRCAVAIL_LEN };
	struct iw_cw cw = { .type = IW_CW_SRCAVAIL, .flags = IW_CW_FIN, .value = 1 };
	struct iw_cw_srcavail sa = { .stag = 0x100, .len = 100000 };
	char b;

	iw_cw_encode(&cw, wr.inl);
	iw_cw_encode_srcavail(&sa, wr.inl + IW_CW_LEN);
	assert_int_equal(iw_qp_post_send(&e[0].s.view.s->qp, &wr), 0);
	assert_true(iw_map_flush(&e[0].s));
	assert_true(arrives(&e[1]));
	e[1].s.orphan = true;
	assert_int_equal(rx(&e[1], &b, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_true(e[1].s.view.f->rs.rx_fin);
	assert_int_equal(e[1].page.end[0].close_state, IW_CLOSE_OPEN);
	assert_int_equal(iw_mapped.step(&e[1].s, e[1].c, false), 0);
}

/* Another thread was faster to find that it is over, and the map is no more. */
static void test_over_for_another(void **state)
{
	int tcp;

	e[1].s.orphan = true;
	tcp = stop(&e[1].s, false);
	assert_true(tcp > 0);
	assert_false(over(&e[1].s));
	iw_orphan_shutdown(&e[1].s, SHUT_RDWR);
	iw_orphan_end(&e[1].s, 0);
	close(tcp);
}

/* At the end of a burst the daemon took it, and died: it is no orphan, but lost, and what is written meets the carrier. */
static void test_taken_by_the_dead(void **state)
{
	assert_int_equal(tx(&e[1], "before", 6, 0), 6);
	atomic_store(&e[1].s.map->owner, IW_MAP_AGENT);
	shutdown(e[1].d, SHUT_RDWR);
	hup = POLLHUP;
	assert_int_equal(tx(&e[1], "x", 1, 0), -1);
	hup = 0;
	assert_int_equal(errno, EPIPE);
	assert_false(e[1].s.mapped || e[1].s.orphan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_look_taken),
		cmocka_unit_test_setup_teardown(test_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full, setup, teardown),
		cmocka_unit_test_setup_teardown(test_some, setup, teardown),
		cmocka_unit_test_setup_teardown(test_later_spoiled, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ends_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_given_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cancelled, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reset_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(test_offer_and_fin, setup, teardown),
		cmocka_unit_test_setup_teardown(test_taken_by_the_dead, setup, teardown),
		cmocka_unit_test_setup_teardown(test_over_for_another, setup, teardown),
	};

	iw_real.recv = dlsym(RTLD_NEXT, "recv");
	iw_real.ppoll = dlsym(RTLD_NEXT, "ppoll");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
