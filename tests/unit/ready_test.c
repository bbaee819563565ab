// SPDX-License-Identifier: MIT
/*
 * Readiness of mapped streams (preload/ready.c, reg.c, epoll.c, epoll_wait.c, poll.c, select.c, kick.c): every kind of wait and of
 * registration, on streams whose path is one of this test's, with octets on the mapped socket that mean nothing to the program, and octets
 * that lie in user space; one thing at a time, at random beside a socket of the kernel's, and by threads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* The library's entry points get names of their own here, so that the program itself is not intercepted. */
#define epoll_create iwt_epoll_create
#define epoll_create1 iwt_epoll_create1
#define epoll_ctl iwt_epoll_ctl
#define epoll_wait iwt_epoll_wait
#define epoll_pwait iwt_epoll_pwait
#define epoll_pwait2 iwt_epoll_pwait2
#define poll iwt_poll
#define ppoll iwt_ppoll
#define __poll_chk iwt___poll_chk
#define __ppoll_chk iwt___ppoll_chk
#define select iwt_select
#define pselect iwt_pselect

#define SYS_iwt_epoll_create1 SYS_epoll_create1
#define SYS_iwt_epoll_ctl SYS_epoll_ctl
#define SYS_iwt_epoll_pwait SYS_epoll_pwait
#define SYS_iwt_ppoll SYS_ppoll

int epoll_create(int size);
int epoll_create1(int flags);
int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int epoll_wait(int epfd, struct epoll_event *ev, int n, int ms);
int epoll_pwait(int epfd, struct epoll_event *ev, int n, int ms, const sigset_t *ss);
int epoll_pwait2(int epfd, struct epoll_event *ev, int n, const struct timespec *t, const sigset_t *ss);
int poll(struct pollfd *p, nfds_t n, int ms);
int ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *m);
int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t);
int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *m);

#include "preload/user.c"
#include "no_faults.h"
#define NO_MAPS
#include "no_rings.h"
#include "preload/lock.c"
#define count tab_count
#include "preload/fdtab.c"
#undef count
#include "preload/fdinfo.c"
#include "preload/internal.c"
#include "preload/tcpstate.c"
#define ours kick_ours
#define make kick_make
#include "preload/kick.c"
#undef ours
#undef make
#define count reg_count
#include "preload/reg.c"
#include "preload/reg_kick.c"
#include "preload/reg_learn.c"
#include "preload/reg_room.c"
#include "preload/epoll_set.c"
#undef count
#define sets ready_sets
#define low ready_low
#define kick ready_kick
#include "preload/ready.c"
#undef sets
#undef low
#undef kick
#include "preload/spin.c"
_Atomic uint8_t iw_conf_spin = IW_SPIN_NO;	/* waits are counted */
_Atomic uint32_t iw_handlers, iw_handlers_unseen;
_Atomic bool iw_streams_near;
_Atomic uint32_t iw_streams_carried;
__thread struct iw_handlers_step iw_handlers_step __attribute__((tls_model("initial-exec")));
void iw_handlers_late(void) { }
#include "preload/epoll.c"
#include "preload/epoll_wait.c"
#undef MOVED
#define rearm poll_rearm
#define wait_once poll_wait_once
#define nested poll_nested
#define moved poll_moved
#define call poll_call
#define count poll_count
#define look_at poll_look_at
#include "preload/poll.c"
#undef look_at
#undef count
#include "preload/select.c"
#undef call

void iw_sleep_begin(struct iw_slept *h, int fd, int watch, struct iw_stream *const *s, uint32_t n) { }
bool iw_sleep_end(struct iw_slept *h) { return true; }
bool iw_is_set(int fd) { return true; }

/* ---- the core, as far as waits need it ---- */

struct iw_real iw_real;
struct iw_stream *_Atomic iw_stream_chunks[IW_STREAMS_CHUNKS];
struct iw_candidate *_Atomic iw_candidates;
_Atomic uint32_t iw_forks, iw_vforks;
_Atomic uint32_t iw_on = 1;
static struct iw_slot slot;
__thread struct iw_slot *iw_slot = &slot;
static bool quiet = true;

bool iw_stream_verify(int fd, struct iw_stream *s)
{
	return iw_stream_of(fd) == s;
}

bool iw_quiet(int fd, uint64_t *way)
{
	return quiet;
}

void iw_kind_forget(int fd, uint32_t w)
{
	if (iw_word_kind(w) == IW_FD_EPOLL)
		iw_epoll_ops.forget(fd, w);
	else
		iw_reg_forget(fd);
}

bool iw_in_vfork(void)
{
	return false;
}

void iw_call_begin_nested(int fd, uint32_t n, const void *v0, const void *v1, const void *v2, uintptr_t sp)
{
}

void iw_call_end_nested(uintptr_t sp)
{
}

int iw_turn_slow(struct iw_turn *t, int fd, enum iw_turn_how how)
{
	return 0;
}

int iw_turn_gated_poll(const struct pollfd *v, nfds_t n)
{
	return -1;
}

int iw_turn_gated_select(int n, const fd_set *r, const fd_set *w, const fd_set *e)
{
	return -1;
}

enum iw_fd_kind iw_adopt_slow(int fd)
{
	return iw_fd_kind(fd);
}

int iw_sets_of(const struct iw_files *v, const struct iw_in_set *known, struct iw_in_set *found, unsigned int max)
{
	return 0;
}

bool iw_daemon_owns(int fd)
{
	return false;
}

void iw_daemon_closing_internal(int fd)
{
}

bool iw_map_owns(int fd)
{
	return false;
}

void iw_map_sweep(struct iw_stream *s)
{
}

void iw_map_make_way(int fd)
{
}

static void give_back(int i);

void iw_step_begin(struct iw_lock *l, struct iw_step *st)
{
	*st = (struct iw_step){ .sigs = iw_lock(l) };
}

void iw_step_end(struct iw_lock *l, const struct iw_step *st)
{
	iw_unlock(l, st->sigs);
}

_Atomic uint64_t iw_bursts;

void iw_bursts_send(const struct iw_stream *but)
{
}

void iw_map_give(int fd, struct iw_stream *s)
{
	give_back((int)iw_word_val(iw_word(fd)));
}

static _Atomic unsigned int waits;	/* for the kernel, by the library's calls */

typedef void (*hook)(void);
static _Atomic hook first, then, stepped;	/* done once, before and when the kernel has said what there is; and behind a step */

static void once(_Atomic hook *f)
{
	hook was = atomic_load(f) ? atomic_exchange(f, NULL) : NULL;

	if (was)
		was();
}

static int count_wait(int epfd, struct epoll_event *ev, int n, int ms)
{
	int ret;

	once(&first);
	ret = (int)syscall(SYS_epoll_pwait, epfd, ev, n, ms, NULL, 8);
	waits++;
	once(&then);
	return ret;
}

static int count_poll(struct pollfd *p, nfds_t n, int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	int ret;

	once(&first);
	ret = (int)syscall(SYS_ppoll, p, n, ms < 0 ? NULL : &t, NULL, 8);
	waits++;
	once(&then);
	return ret;
}

static int count_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *m)
{
	struct timespec copy = t ? *t : (struct timespec){ 0, 0 };

	waits++;
	return (int)syscall(SYS_ppoll, p, n, t ? &copy : NULL, m, 8);
}

static void real_init(void)
{
#define X(ret, name, params, args, raw) *(void **)&iw_real.name = dlsym(RTLD_DEFAULT, #name);
	IW_REALS(X)
#undef X
	/* the argument of # is not expanded, so it is libc's name */
	iw_real.epoll_wait = count_wait;
	iw_real.poll = count_poll;
	iw_real.ppoll = count_ppoll;
}

/* ---- a path: each octet on the mapped socket is one of the stream, but for '+': room, and '.': nothing ---- */

#define STREAMS 16

static struct iw_stream streams[STREAMS];
static struct iw_page page;
static struct fake {
	pthread_mutex_t lock;
	int fd, c, tcp, peer;		/* the program's, the carrier's other end, the mapped socket, its other end */
	char buf[4096];
	size_t n;
	bool room;
	unsigned int steps;		/* that asked the kernel */
} fakes[STREAMS];

static struct fake *fake_of(struct iw_stream *s)
{
	return &fakes[s - streams];
}

static void fake_known(struct iw_stream *s, struct fake *f)
{
	s->known = (short)((f->n ? POLLIN | POLLRDNORM : 0) | (f->room ? POLLOUT | POLLWRNORM : 0));
}

/* Under the lock. */
static short fake_take(struct iw_stream *s)
{
	struct fake *f = fake_of(s);
	char b[256];
	ssize_t n;
	short what = 0;

	f->steps++;
	while ((n = recv(s->mapped, b, sizeof(b), MSG_DONTWAIT)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (b[i] == '+') {
				what |= f->room ? 0 : POLLOUT;
				f->room = true;
			} else if (b[i] != '.') {
				assert_true(f->n < sizeof(f->buf));
				f->buf[f->n++] = b[i];
				what |= POLLIN;
			}
		}
		if (n < (ssize_t)sizeof(b))
			break;
	}
	fake_known(s, f);
	return what;
}

static short fake_step(struct iw_stream *s, int fd, bool some)
{
	struct fake *f = fake_of(s);
	short what;

	pthread_mutex_lock(&f->lock);
	what = s->mapped ? fake_take(s) : 0;
	pthread_mutex_unlock(&f->lock);
	once(&stepped);
	return what;
}

static short fake_bits(struct iw_stream *s, int fd, short events)
{
	struct fake *f = fake_of(s);
	short what = 0;

	pthread_mutex_lock(&f->lock);
	if (s->mapped && !f->n)
		what = fake_take(s);
	pthread_mutex_unlock(&f->lock);
	if (what)
		iw_ready(s, fd, what);
	return s->known & events;
}

static short fake_wait_events(struct iw_stream *s, short events)
{
	if (!(s->known & POLLOUT))
		events = (short)(events & ~(POLLOUT | POLLWRNORM | POLLWRBAND));
	return events | POLLIN;
}

static long fake_inq(struct iw_stream *s, int fd)
{
	return (long)fake_of(s)->n;
}

static const struct iw_path_ops fake_path = { .bits = fake_bits, .wait_events = fake_wait_events, .step = fake_step, .inq = fake_inq };

static short plain_bits(struct iw_stream *s, int fd, short events)
{
	return iw_fd_bits(fd, events);
}

static short plain_wait_events(struct iw_stream *s, short events)
{
	return events;
}

static short plain_step(struct iw_stream *s, int fd, bool some)
{
	return 0;
}

static const struct iw_path_ops plain_path = { .bits = plain_bits, .wait_events = plain_wait_events, .step = plain_step };

/* What recv() is to the program: without waiting; 0: there is nothing. */
static ssize_t get(int i, void *to, size_t max)
{
	struct iw_stream *s = &streams[i];
	struct fake *f = &fakes[i];
	short what = 0;
	size_t n;

	if (!s->mapped) {
		ssize_t r = recv(f->fd, to, max, MSG_DONTWAIT);

		return r < 0 ? 0 : r;
	}
	pthread_mutex_lock(&f->lock);
	if (!f->n)
		what = fake_take(s);
	n = f->n < max ? f->n : max;
	memcpy(to, f->buf, n);
	memmove(f->buf, f->buf + n, f->n -= n);
	fake_known(s, f);
	pthread_mutex_unlock(&f->lock);
	if (what)
		iw_ready(s, f->fd, what);
	return (ssize_t)n;
}

static void got(int i, size_t max, const char *want)
{
	char b[256];
	ssize_t n = get(i, b, max);

	assert_int_equal(n, strlen(want));
	assert_memory_equal(b, want, (size_t)n);
}

/* There is no room any more. */
static void fill(int i)
{
	pthread_mutex_lock(&fakes[i].lock);
	fakes[i].room = false;
	fake_known(&streams[i], &fakes[i]);
	pthread_mutex_unlock(&fakes[i].lock);
}

static void peer(int i, const char *s)
{
	assert_int_equal(write(streams[i].mapped ? fakes[i].peer : fakes[i].c, s, strlen(s)), strlen(s));
}

/* ---- streams ---- */

static void make(int i)
{
	struct fake *f = &fakes[i];
	int v[2];

	memset(&streams[i], 0, sizeof(streams[i]));
	pthread_mutex_init(&f->lock, NULL);
	f->n = 0;
	f->room = true;
	assert_false(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, v));
	f->fd = v[0];
	f->c = v[1];
	assert_false(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, v));
	f->tcp = iw_fd_hide(v[0]);
	f->peer = v[1];
	streams[i].page = &page;
	streams[i].path = &plain_path;
	streams[i].refs = 1;
	iw_word_set(f->fd, iw_word_make(IW_FD_STREAM, (uint32_t)i));
}

/* As map.c does it. */
static bool map_it(int i)
{
	struct iw_stream *s = &streams[i];
	struct fake *f = &fakes[i];
	uint32_t w = iw_word(f->fd);
	uint64_t sigs;
	bool done;

	iw_word_set(f->fd, iw_word_gated(w));
	done = iw_reg_may_map(f->fd);
	sigs = iw_lock(&iw_tab_lock);
	done = done && !iw_reg_detach(f->fd);
	if (done) {
		fake_known(s, f);
		s->mapped = f->tcp;
		s->path = &fake_path;
		iw_reg_attach(f->fd, true);
	}
	iw_unlock(&iw_tab_lock, sigs);
	iw_word_set(f->fd, w);
	iw_futex_wake(&iw_fdtab[f->fd], INT32_MAX);
	return done;
}

/* And back; the daemon brings what was not read. */
static void give_back(int i)
{
	struct iw_stream *s = &streams[i];
	struct fake *f = &fakes[i];
	uint64_t sigs = iw_lock(&iw_tab_lock);

	iw_reg_detach(f->fd);
	pthread_mutex_lock(&f->lock);
	fake_take(s);
	s->mapped = 0;
	s->path = &plain_path;
	s->known = 0;
	pthread_mutex_unlock(&f->lock);
	iw_reg_attach(f->fd, true);
	iw_unlock(&iw_tab_lock, sigs);
	iw_kick();
	assert_int_equal(write(f->c, f->buf, f->n), f->n);
	f->n = 0;
}

static void unmake(int i)
{
	struct fake *f = &fakes[i];

	iw_fd_forget(f->fd);
	close(f->fd);
	close(f->c);
	close(f->peer);
	iw_fd_unhide_close(f->tcp);
}

static int set;
static struct epoll_event evs[32];

static int ctl_of(int ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event e = { .events = events, .data.u64 = data };

	return epoll_ctl(ep, op, fd, &e);
}

static int setup(void **state)
{
	set = epoll_create1(0);
	assert_true(set >= 0);
	make(0);
	make(1);
	assert_false(ctl_of(set, EPOLL_CTL_ADD, fakes[0].fd, EPOLLIN, 0) || epoll_ctl(set, EPOLL_CTL_DEL, fakes[0].fd, NULL));
	epoll_wait(set, evs, 1, 0);	/* it is waited for by calls that are seen */
	return 0;
}

static int teardown(void **state)
{
	unmake(0);
	unmake(1);
	iw_fd_forget(set);
	close(set);
	return 0;
}

#define add(i, events) assert_int_equal(ctl_of(set, EPOLL_CTL_ADD, fakes[i].fd, events, (uint64_t)(i)), 0)
#define mod(i, events) assert_int_equal(ctl_of(set, EPOLL_CTL_MOD, fakes[i].fd, events, (uint64_t)(i)), 0)

/* One event of this stream, with these bits. */
static void event_at(int line, int i, uint32_t events)
{
	int n = epoll_wait(set, evs, 32, 0);

	if (n != 1 || evs[0].events != events || evs[0].data.u64 != (uint64_t)i)
		fail_msg("line %d: %d events, first %#x of %d", line, n, evs[0].events, (int)evs[0].data.u64);
}
#define event(i, events) event_at(__LINE__, i, events)
#define none() assert_int_equal(epoll_wait(set, evs, 32, 0), 0)

/* ---- one thing at a time ---- */

static void level(void **state)
{
	add(0, EPOLLIN);
	assert_true(map_it(0));
	none();
	peer(0, ".");
	none();
	peer(0, "ab");
	event(0, EPOLLIN);
	event(0, EPOLLIN);
	got(0, 1, "a");
	event(0, EPOLLIN);
	peer(0, ".c");
	got(0, 1, "b");
	event(0, EPOLLIN);
	got(0, 9, "c");
	none();
	/* taken by another call, and left there */
	peer(0, "de");
	got(0, 1, "d");
	event(0, EPOLLIN);
	give_back(0);
	event(0, EPOLLIN);
	got(0, 9, "e");
	none();
	peer(0, "f");
	event(0, EPOLLIN);
}

static void edge_triggered(void **state)
{
	add(0, EPOLLIN | EPOLLET);
	assert_true(map_it(0));
	none();
	peer(0, "a");
	event(0, EPOLLIN);
	none();
	peer(0, ".");
	none();
	peer(0, "b");			/* while one is unread */
	event(0, EPOLLIN);
	none();
	got(0, 1, "a");
	none();
	got(0, 9, "b");
	peer(0, "cd");
	got(0, 1, "c");			/* takes both */
	event(0, EPOLLIN);
	none();
	got(0, 9, "d");
	peer(0, "e");
	got(0, 9, "e");
	none();
	peer(0, "f");
	event(0, EPOLLIN);
	mod(0, EPOLLIN | EPOLLET);
	event(0, EPOLLIN);
	none();
	mod(0, EPOLLIN);
	event(0, EPOLLIN);
	event(0, EPOLLIN);
}

static void oneshot(void **state)
{
	add(0, EPOLLIN | EPOLLONESHOT);
	assert_true(map_it(0));
	peer(0, ".");
	none();
	none();
	peer(0, "a");
	event(0, EPOLLIN);
	peer(0, "b");
	none();
	got(0, 1, "a");
	mod(0, EPOLLIN | EPOLLONESHOT);	/* "b" lies in the socket, or in user space */
	event(0, EPOLLIN);
	none();
	peer(0, "c");
	got(0, 1, "b");
	got(0, 1, "c");
	peer(0, "de");
	got(0, 1, "d");
	none();
	mod(0, EPOLLIN | EPOLLONESHOT);
	event(0, EPOLLIN);
	none();
	give_back(0);			/* it has fired */
	none();
	mod(0, EPOLLIN | EPOLLONESHOT);
	event(0, EPOLLIN);
	none();
	got(0, 9, "e");
	assert_true(map_it(0));		/* it has fired */
	peer(0, "f");
	none();
	mod(0, EPOLLIN | EPOLLONESHOT | EPOLLET);
	event(0, EPOLLIN);
	none();
	got(0, 1, "f");
	mod(0, EPOLLIN | EPOLLONESHOT);
	give_back(0);			/* it has not */
	peer(0, "g");
	event(0, EPOLLIN);
	none();
}

/* The daemon did not give a map, and gives one later: what had fired in between was changed by the program. */
static void not_mapped_then(void **state)
{
	uint32_t w = iw_word(fakes[1].fd);

	add(0, EPOLLIN | EPOLLONESHOT);
	assert_true(iw_reg_may_map(fakes[0].fd));
	iw_word_set(fakes[1].fd, iw_word_gated(w));	/* all events are looked at */
	peer(0, "a");
	event(0, EPOLLIN);
	iw_word_set(fakes[1].fd, w);
	none();
	mod(0, EPOLLIN);
	got(0, 1, "a");
	assert_true(map_it(0));
	peer(0, "b");
	event(0, EPOLLIN);
	got(0, 1, "b");
	give_back(0);
	peer(0, "c");
	event(0, EPOLLIN);
	event(0, EPOLLIN);
	/* and the other way round */
	mod(0, EPOLLIN | EPOLLONESHOT);
	assert_true(iw_reg_may_map(fakes[0].fd));
	event(0, EPOLLIN);
	got(0, 1, "c");
	mod(0, EPOLLIN | EPOLLONESHOT);
	assert_true(map_it(0));
	peer(0, "d");
	event(0, EPOLLIN);
	none();
}

static void one_more(void)
{
	peer(0, "c");
}

static void move_1(void)
{
	assert_true(map_it(1));
	peer(1, "b");
	stepped = one_more;
}

/* A stream moves while the kernel has an event of it to say, and one of a mapped stream, of which there are more when the moved one is asked about. */
static void moved_beside_mapped(void **state)
{
	uint32_t bits[2] = { 0 };

	for (uint32_t how = 0; how < 2; how++) {
		add(0, EPOLLIN | (how ? EPOLLET : 0));
		add(1, EPOLLIN);
		assert_true(map_it(0));
		none();
		peer(0, "a");
		peer(1, "1");		/* on the carrier, read by nobody */
		then = move_1;
		assert_int_equal(epoll_wait(set, evs, 32, 0), 2);
		for (int i = 0; i < 2; i++) {
			assert_true(evs[i].data.u64 < 2);
			bits[evs[i].data.u64] = evs[i].events;
		}
		assert_int_equal(bits[0], EPOLLIN);
		assert_int_equal(bits[1], EPOLLIN);
		got(1, 8, "b");
		event(0, EPOLLIN);	/* of the second octet, an edge of its own */
		got(0, 8, "ac");
		none();
		if (how)
			break;
		give_back(0);
		give_back(1);
		assert_int_equal(read(fakes[1].fd, bits, sizeof(bits)), 1);
		assert_int_equal(ctl_of(set, EPOLL_CTL_DEL, fakes[0].fd, 0, 0), 0);
		assert_int_equal(ctl_of(set, EPOLL_CTL_DEL, fakes[1].fd, 0, 0), 0);
	}
}

static uint64_t apart_sigs;

static void take_out(void)
{
	apart_sigs = iw_lock(&iw_tab_lock);
	assert_int_equal(iw_reg_detach(fakes[0].fd), 0);
}

static void put_back(void)
{
	iw_reg_attach(fakes[0].fd, true);
	iw_unlock(&iw_tab_lock, apart_sigs);
}

static pthread_t mover;
static pthread_barrier_t is_out;

/* In no set for as long as the kernel's look takes. */
static void *moves(void *arg)
{
	unsigned int before = waits;

	take_out();
	pthread_barrier_wait(&is_out);
	while (waits == before)
		sched_yield();
	put_back();
	return NULL;
}

static void move_beside(void)
{
	assert_false(pthread_create(&mover, NULL, moves, NULL));
	pthread_barrier_wait(&is_out);
}

/* What is ready is reported by a wait that sees it in no set, as it is just moved from one file to another. */
static void apart(void **state)
{
	struct pollfd p = { .fd = set, .events = POLLIN };

	add(0, EPOLLIN);
	peer(0, "a");
	first = take_out;
	then = put_back;
	event(0, EPOLLIN);
	assert_int_equal(iw_reg_apart, 0);
	assert_false(pthread_barrier_init(&is_out, NULL, 2));
	first = move_beside;
	event(0, EPOLLIN);
	assert_false(pthread_join(mover, NULL));
	pthread_barrier_destroy(&is_out);
	assert_int_equal(iw_reg_apart, 0);
	first = take_out;
	then = put_back;
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_null(then);
	assert_int_equal(read(fakes[0].fd, evs, 1), 1);
	first = take_out;
	then = put_back;
	none();
}

static void ctl_after(void **state)
{
	struct epoll_event e = { .events = EPOLLIN };

	assert_true(map_it(0));
	peer(0, "ab");
	got(0, 1, "a");
	assert_int_equal(ctl_of(set, EPOLL_CTL_MOD, fakes[0].fd, EPOLLIN, 0), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, fakes[0].fd, NULL), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fakes[0].fd, NULL), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(epoll_ctl(set, 77, fakes[0].fd, &e), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(epoll_ctl(fakes[1].c, EPOLL_CTL_MOD, fakes[0].fd, &e), -1);
	assert_int_equal(errno, EINVAL);
	add(0, EPOLLIN | EPOLLET);
	assert_int_equal(ctl_of(set, EPOLL_CTL_ADD, fakes[0].fd, EPOLLIN, 0), -1);
	assert_int_equal(errno, EEXIST);
	event(0, EPOLLIN);
	none();
	assert_int_equal(ctl_of(set, EPOLL_CTL_MOD, fakes[0].fd, EPOLLIN, 42), 0);
	event(42, EPOLLIN);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, fakes[0].fd, NULL), 0);
	none();
	peer(0, "c");
	none();
	add(0, EPOLLIN);
	event(0, EPOLLIN);
	/* closed: gone, although its TCP socket lives on */
	iw_fd_forget(fakes[0].fd);
	none();
	peer(0, "d");
	none();
}

/* The events that the kernel has of a stream's TCP socket in the set, or 0. */
static uint32_t in_kernel(unsigned int i)
{
	struct iw_fdinfo f;
	const char *line;
	struct iw_tfd t;
	uint32_t events = 0;

	assert_int_equal(iw_fdinfo_open(&f, set), 0);
	while ((line = iw_fdinfo_line(&f)))
		if (iw_tfd_parse(line, &t) && t.fd == streams[i].mapped)
			events = t.events;
	iw_fdinfo_close(&f);
	return events;
}

static void out(unsigned int i)
{
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, fakes[i].fd, NULL), 0);
}

/* Taken out, changed and put back without a word to the kernel, which is told when it says something that nobody waits for. */
static void left_in_the_kernel(void **state)
{
	uint32_t had;

	assert_true(map_it(0));
	add(0, EPOLLIN);
	had = in_kernel(0);
	assert_true(had & EPOLLIN);
	out(0);
	assert_int_equal(in_kernel(0), had);
	none();
	add(0, EPOLLOUT);
	assert_int_equal(in_kernel(0), had);
	event(0, EPOLLOUT);
	mod(0, EPOLLIN);
	assert_int_equal(in_kernel(0), had);
	none();
	peer(0, "a");
	event(0, EPOLLIN);
	out(0);
	none();			/* nothing has come since */
	assert_int_equal(in_kernel(0), had);
	peer(0, "b");
	none();
	assert_int_equal(in_kernel(0), 0);
	add(0, EPOLLIN);
	event(0, EPOLLIN);
	got(0, 9, "ab");

	out(0);
	assert_int_equal(ctl_of(set, EPOLL_CTL_MOD, fakes[0].fd, EPOLLIN, 0), -1);
	assert_int_equal(errno, ENOENT);
	add(0, EPOLLIN);
	out(0);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, fakes[0].fd, NULL), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(in_kernel(0), 0);
	add(0, EPOLLIN);
	out(0);
	add(0, EPOLLIN | EPOLLET);	/* that the kernel has to know */
	assert_true(in_kernel(0) & EPOLLET);
	out(0);
	assert_int_equal(in_kernel(0), 0);

	add(0, EPOLLIN);
	out(0);
	give_back(0);			/* it is not put back into a set that it is not in */
	peer(0, "c");
	none();
	add(0, EPOLLIN);
	event(0, EPOLLIN);
}

static void room(void **state)
{
	add(0, EPOLLIN | EPOLLOUT);
	assert_true(map_it(0));
	event(0, EPOLLOUT);
	event(0, EPOLLOUT);
	fill(0);
	none();
	waits = 0;
	assert_int_equal(epoll_wait(set, evs, 1, 20), 0);
	assert_in_range(waits, 1, 2);		/* the socket itself is writable */
	peer(0, ".");
	none();
	peer(0, "+");
	event(0, EPOLLOUT);
	peer(0, "a");
	event(0, EPOLLIN | EPOLLOUT);
	got(0, 9, "a");
	mod(0, EPOLLIN | EPOLLOUT | EPOLLET);
	event(0, EPOLLOUT);
	none();
	fill(0);
	none();
	peer(0, "b");
	event(0, EPOLLIN);
	none();
	peer(0, "+");
	event(0, EPOLLIN | EPOLLOUT);
	none();
	got(0, 9, "b");
	fill(0);
	mod(0, EPOLLOUT | EPOLLONESHOT);
	none();
	peer(0, "c");			/* not asked for */
	none();
	peer(0, "+");
	event(0, EPOLLOUT);
	none();
}

static void same_data(void **state)
{
	assert_true(map_it(0) && map_it(1));
	assert_false(ctl_of(set, EPOLL_CTL_ADD, fakes[0].fd, EPOLLIN, 7) || ctl_of(set, EPOLL_CTL_ADD, fakes[1].fd, EPOLLIN | EPOLLOUT, 7));
	peer(0, "a");
	assert_int_equal(epoll_wait(set, evs, 32, 0), 2);
	assert_true(evs[0].data.u64 == 7 && evs[1].data.u64 == 7);
	assert_int_equal(evs[0].events | evs[1].events << 8, evs[0].events == EPOLLIN ? EPOLLIN | EPOLLOUT << 8 : EPOLLOUT | EPOLLIN << 8);
}

/* However little room there is, each has its turn. */
static void fair(void **state)
{
	int p[2], seen[3] = { 0 };

	assert_false(pipe(p));
	assert_true(map_it(0) && map_it(1));
	add(0, EPOLLIN);
	add(1, EPOLLIN);
	assert_false(ctl_of(set, EPOLL_CTL_ADD, p[0], EPOLLIN, 2));
	peer(0, "ab");
	peer(1, "ab");
	got(0, 1, "a");
	got(1, 1, "a");
	assert_int_equal(write(p[1], "x", 1), 1);
	for (int i = 0; i < 24; i++) {
		assert_int_equal(epoll_wait(set, evs, 1, 0), 1);
		seen[evs[0].data.u64]++;
	}
	for (int i = 0; i < 3; i++)
		assert_in_range(seen[i], 3, 18);
	assert_int_equal(epoll_wait(set, evs, 32, 0), 3);
	close(p[0]);
	close(p[1]);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *later(void *what)
{
	usleep(20000);
	peer(0, what);
	return NULL;
}

/* What means nothing does not end a wait, nor begin it anew; and the common ones cost what they cost on TCP. */
static void time_left(void **state)
{
	struct pollfd p = { .events = POLLIN };
	int64_t begin;
	pthread_t t;

	add(0, EPOLLIN);
	assert_true(map_it(0));
	p.fd = fakes[0].fd;
	for (int i = 0; i < 2; i++) {
		begin = now_ms();
		assert_false(pthread_create(&t, NULL, later, "."));
		assert_int_equal(i ? epoll_wait(set, evs, 1, 100) : poll(&p, 1, 100), 0);
		assert_in_range(now_ms() - begin, 100, 100000);
		pthread_join(t, NULL);
	}
	for (int i = 0; i < 2; i++) {
		peer(0, "a");
		waits = fakes[0].steps = 0;
		assert_int_equal(i ? epoll_wait(set, evs, 1, -1) : poll(&p, 1, -1), 1);
		assert_int_equal(waits, 1);
		got(0, 9, "a");
		assert_int_equal(fakes[0].steps, 1);
	}
	none();
	peer(0, "ab");
	got(0, 1, "a");
	waits = fakes[0].steps = 0;
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(waits + fakes[0].steps, 0);
	assert_int_equal(p.revents, POLLIN);
}

static void polls_bits(void **state)
{
	struct pollfd p[3] = { { .events = POLLIN | POLLOUT }, { .events = POLLIN }, { .events = POLLIN } };
	int v[2];

	assert_false(pipe(v));
	assert_true(map_it(0));
	p[0].fd = fakes[0].fd;
	p[1].fd = v[0];
	p[2].fd = fakes[1].fd;
	assert_int_equal(poll(p, 3, 0), 1);
	assert_int_equal(p[0].revents, POLLOUT);
	peer(0, "a");
	assert_int_equal(write(v[1], "x", 1), 1);
	assert_int_equal(poll(p, 3, -1), 2);
	assert_int_equal(p[0].revents, POLLOUT | POLLIN);
	assert_int_equal(p[1].revents, POLLIN);
	got(0, 9, "a");
	fill(0);
	assert_int_equal(poll(p, 3, -1), 1);
	assert_true(!p[0].revents && p[1].revents && !p[2].revents);
	p[1].fd = -1;
	waits = 0;
	assert_int_equal(poll(p, 3, 20), 0);
	assert_in_range(waits, 1, 2);
	peer(0, ".+");
	assert_int_equal(poll(p, 3, -1), 1);
	assert_int_equal(p[0].revents, POLLOUT);
	peer(1, "z");
	assert_int_equal(poll(p, 3, -1), 2);
	assert_int_equal(p[2].revents, POLLIN);
	close(v[0]);
	close(v[1]);
}

static void selects(void **state)
{
	struct timeval zero = { 0, 0 };
	int fd = fakes[0].fd;
	fd_set r, w;

	assert_true(map_it(0));
	for (int i = 0; i < 4; i++) {
		FD_ZERO(&r);
		FD_ZERO(&w);
		FD_SET(fd, &r);
		FD_SET(fd, &w);
		assert_int_equal(select(fd + 1, &r, &w, NULL, &zero), i == 0 || i == 3 ? 1 : i == 1 ? 2 : 0);
		assert_int_equal(FD_ISSET(fd, &r), i == 1);
		assert_int_equal(FD_ISSET(fd, &w), i != 2);
		if (!i)
			peer(0, ".ab");
		if (i == 1) {
			got(0, 9, "ab");
			fill(0);
		}
		if (i == 2)
			peer(0, "+");
	}
}

/* Sets in sets, in poll and in select. */
static void nested_sets(void **state)
{
	int outer = epoll_create1(0);
	struct pollfd p = { .fd = set, .events = POLLIN };
	struct timeval zero = { 0, 0 };
	fd_set r;

	assert_false(ctl_of(outer, EPOLL_CTL_ADD, set, EPOLLIN, 5));
	add(0, EPOLLIN);
	assert_true(map_it(0));
#define outer_says(n) assert_int_equal(epoll_wait(outer, evs, 32, 0), n); \
	assert_int_equal(poll(&p, 1, 0), n); \
	FD_ZERO(&r); \
	FD_SET(set, &r); \
	zero.tv_usec = 0; \
	assert_int_equal(select(set + 1, &r, NULL, NULL, &zero), n)
	outer_says(0);
	peer(0, ".");
	outer_says(0);
	peer(0, "ab");
	outer_says(1);
	assert_true(evs[0].data.u64 == 5 && evs[0].events == EPOLLIN);
	outer_says(1);
	event(0, EPOLLIN);
	outer_says(1);
	got(0, 1, "a");
	outer_says(1);
	event(0, EPOLLIN);
	got(0, 1, "b");
	outer_says(0);
	none();
	outer_says(0);
	mod(0, EPOLLIN | EPOLLET);
	peer(0, "cd");
	outer_says(1);
	event(0, EPOLLIN);
	got(0, 1, "c");
	outer_says(0);
	peer(0, ".");
	waits = 0;
	assert_int_equal(epoll_wait(outer, evs, 32, 20), 0);
	assert_in_range(waits, 1, 4);
	iw_fd_forget(outer);
	close(outer);
}

static void two_sets(void **state)
{
	int other = epoll_create1(0);

	epoll_wait(other, evs, 1, 0);
	add(0, EPOLLIN | EPOLLEXCLUSIVE);
	assert_false(ctl_of(other, EPOLL_CTL_ADD, fakes[0].fd, EPOLLIN | EPOLLET, 9));
	assert_true(map_it(0));
	none();
	assert_int_equal(epoll_wait(other, evs, 32, 0), 0);
	peer(0, "ab");
	event(0, EPOLLIN);
	assert_int_equal(epoll_wait(other, evs, 32, 0), 1);
	assert_int_equal(evs[0].data.u64, 9);
	assert_int_equal(epoll_wait(other, evs, 32, 0), 0);
	got(0, 1, "a");
	event(0, EPOLLIN);
	assert_int_equal(epoll_wait(other, evs, 32, 0), 0);
	/* a set closed meanwhile takes its registrations along */
	iw_fd_forget(other);
	close(other);
	got(0, 1, "b");
	peer(0, ".");
	none();
	peer(0, "c");
	event(0, EPOLLIN);
}

/* A second number of a set is the same set. */
static void set_dup(void **state)
{
	int again, keep = set;

	add(0, EPOLLIN);
	assert_true(map_it(0));
	again = dup(set);
	iw_word_set(again, iw_epoll_ops.dup(set, iw_word(set)));
	peer(0, "ab");
	got(0, 1, "a");
	set = again;
	event(0, EPOLLIN);
	iw_fd_forget(keep);
	close(keep);
	event(0, EPOLLIN);
	got(0, 1, "b");
	peer(0, "c");
	event(0, EPOLLIN);
	mod(0, EPOLLIN | EPOLLET);
	event(0, EPOLLIN);
	none();
}

/* What must not be moved. */
static void refused(void **state)
{
	int other = epoll_create1(0), raw;

	assert_false(ctl_of(other, EPOLL_CTL_ADD, fakes[0].fd, EPOLLIN, 1));
	assert_false(map_it(0));		/* nobody waits for it by calls that are seen */
	peer(0, "a");
	assert_int_equal(epoll_wait(other, evs, 1, 0), 1);
	got(0, 1, "a");
	assert_true(map_it(0));
	peer(0, "b");
	assert_int_equal(epoll_wait(other, evs, 1, 0), 1);
	/* a set that nobody has seen before */
	raw = (int)syscall(SYS_epoll_create1, 0);
	assert_false(ctl_of(raw, EPOLL_CTL_ADD, fakes[0].fd, EPOLLIN, 2));
	assert_false(streams[0].mapped);
	assert_int_equal(syscall(SYS_epoll_pwait, raw, evs, 1, 0, NULL, 8), 1);
	assert_int_equal(evs[0].data.u64, 2);
	assert_false(map_it(0));
	iw_fd_forget(raw);
	close(raw);
	iw_fd_forget(other);
	close(other);
}

/* ---- threads ---- */

/* Sleeps in a wait, and says when it is over. */
struct sleeper {
	enum { EPOLL, POLL, SELECT, OUTER } by;
	int ep, n;
	_Atomic int tid;
	pthread_t t;
	struct epoll_event ev;
	short revents;
};

static void *sleeper_run(void *arg)
{
	struct sleeper *s = arg;
	struct pollfd p = { .fd = fakes[0].fd, .events = POLLIN };
	fd_set r;

	atomic_store(&s->tid, (int)syscall(SYS_gettid));
	FD_ZERO(&r);
	FD_SET(p.fd, &r);
	if (s->by == EPOLL || s->by == OUTER)
		s->n = epoll_wait(s->ep, &s->ev, 1, -1);
	else
		s->n = s->by == POLL ? poll(&p, 1, -1) : select(p.fd + 1, &r, NULL, NULL, NULL);
	s->revents = p.revents;
	return NULL;
}

static bool asleep(int tid)
{
	char name[64], line[256] = "";
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", tid);
	f = fopen(name, "r");
	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	return strstr(line, ") S ");
}

static void sleeper_begin(struct sleeper *s)
{
	atomic_store(&s->tid, 0);
	assert_false(pthread_create(&s->t, NULL, sleeper_run, s));
	while (!atomic_load(&s->tid) || !asleep(atomic_load(&s->tid)))
		sched_yield();
}

/* Another thread takes octets from the socket and leaves some: who sleeps for them is told. */
static void left_for_sleepers(void **state)
{
	static const uint32_t flags[] = { 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT };
	int outer = epoll_create1(0);

	assert_true(map_it(0));
	assert_false(ctl_of(outer, EPOLL_CTL_ADD, set, EPOLLIN, 5));
	add(0, EPOLLIN);
	for (int by = EPOLL; by <= OUTER; by++)
		for (int i = 0; i < (by == EPOLL ? 4 : 1); i++) {
			struct sleeper s = { .by = by, .ep = by == OUTER ? outer : set };
			char b[8];

			mod(0, EPOLLIN | flags[i]);
			sleeper_begin(&s);
			/* as if the kernel had not woken it: what it would see is already taken */
			pthread_mutex_lock(&fakes[0].lock);
			memcpy(fakes[0].buf, "xy", fakes[0].n = 2);
			fake_known(&streams[0], &fakes[0]);
			pthread_mutex_unlock(&fakes[0].lock);
			iw_ready(&streams[0], fakes[0].fd, POLLIN);
			pthread_join(s.t, NULL);
			assert_int_equal(s.n, 1);
			while (get(0, b, 1))
				;
			none();
		}
	iw_fd_forget(outer);
	close(outer);
}

/* Armed by MOD, given back, closed by another number: each while somebody sleeps. */
static void changed_for_sleepers(void **state)
{
	struct sleeper s = { .by = EPOLL, .ep = set };

	assert_true(map_it(0));
	add(0, EPOLLIN | EPOLLONESHOT);
	peer(0, "ab");
	event(0, EPOLLIN);
	sleeper_begin(&s);
	mod(0, EPOLLIN | EPOLLONESHOT);
	pthread_join(s.t, NULL);
	assert_int_equal(s.n, 1);
	mod(0, 0);
	sleeper_begin(&s);
	mod(0, EPOLLIN);
	pthread_join(s.t, NULL);
	got(0, 9, "ab");
	none();
	for (int by = EPOLL; by <= SELECT; by++) {
		s.by = by;
		sleeper_begin(&s);
		give_back(0);
		peer(0, "c");
		pthread_join(s.t, NULL);
		assert_int_equal(s.n, 1);
		got(0, 9, "c");
		assert_true(map_it(0));
	}
	/* mapped while it sleeps, since before the first was */
	give_back(0);
	s.by = EPOLL;
	sleeper_begin(&s);
	quiet = false;
	assert_true(map_it(0));
	quiet = true;
	peer(0, "d");
	pthread_join(s.t, NULL);
	assert_int_equal(s.n, 1);
}

/* ---- at random, beside the kernel ---- */

static uint64_t seed;

static uint32_t draw(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

static void seeded(void)
{
	const char *s = getenv("IW_SEED");

	seed = s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL) ^ (uint64_t)getpid() << 20;
	print_message("# IW_SEED=%llu\n", (unsigned long long)seed);
}

/* The same is done to a stream, mapped and not in turn, and to a socket: they are reported alike. */
static void as_the_kernel(void **state)
{
	static const uint32_t kinds[] = { 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT };
	uint32_t kind = EPOLLET;
	int v[2], ref = (int)syscall(SYS_epoll_create1, 0);
	struct epoll_event e = { .events = EPOLLIN }, mine;
	bool in = true;

	seeded();
	assert_false(socketpair(AF_UNIX, SOCK_STREAM, 0, v));
	assert_int_equal(syscall(SYS_epoll_ctl, ref, EPOLL_CTL_ADD, v[0], &e), 0);
	add(0, EPOLLIN);
	for (int i = 0; i < 20000; i++) {
		char text[4] = { 'a', 'b', 'c', 0 }, b[8], c[8];
		uint32_t what = draw(100);
		int n, m;

		if (what < 25) {
			text[1 + draw(3)] = 0;
			peer(0, text);
			assert_int_equal(write(v[1], text, strlen(text)), strlen(text));
		} else if (what < 35 && streams[0].mapped) {
			peer(0, draw(2) ? "." : "..");
		} else if (what < 60) {
			size_t k = 1 + draw(8);

			do {		/* until EAGAIN, or once */
				n = (int)get(0, b, k);
				m = (int)recv(v[0], c, k, MSG_DONTWAIT);
				n += n > 0 && n < m ? (int)get(0, b + n, k - (size_t)n) : 0;	/* what lay in two places */
				assert_int_equal(n, m < 0 ? 0 : m);
			} while (n && draw(2));
		} else if (what < 70) {
			bool out = in && !draw(3);
			int op = out ? EPOLL_CTL_DEL : in ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

			kind = kinds[draw(4)];
			e.events = kind | (kind & EPOLLET || draw(3) ? EPOLLIN : draw(2) ? EPOLLOUT : EPOLLIN | EPOLLOUT);
			in = !out;
			mine = (struct epoll_event){ .events = e.events, .data.u64 = 0 };
			assert_int_equal(epoll_ctl(set, op, fakes[0].fd, &mine), 0);
			assert_int_equal(syscall(SYS_epoll_ctl, ref, op, v[0], &e), 0);
		} else if (what < 71 && !(kind & EPOLLET)) {	/* which may report once more then, as at a switch */
			if (streams[0].mapped)
				give_back(0);
			else if (!(streams[0].known) && iw_fd_bits(fakes[0].fd, POLLIN) == 0)
				map_it(0);
		} else {
			n = epoll_wait(set, evs, 32, 0);
			m = (int)syscall(SYS_epoll_pwait, ref, &e, 1, 0, NULL, 8);
			if (n != m || (n && evs[0].events != e.events))
				fail_msg("step %d: %d, kernel %d; %s, kind %#x", i, n, m, streams[0].mapped ? "mapped" : "not mapped", kind);
		}
	}
	close(v[0]);
	close(v[1]);
	close(ref);
}

/* Threads that wait in every way and read a little each time: all octets are read, and nobody sleeps for ever. */
#define OCTETS 20000

static _Atomic size_t read_all;
static _Atomic bool over;
static uint32_t kind_all;
static bool by_poll_all;

static void *reader(void *arg)
{
	struct epoll_event e;
	unsigned int r = (unsigned int)(uintptr_t)arg;
	char b[16];

	while (!atomic_load(&over)) {
		ssize_t n;

		if (by_poll_all && r % 2) {
			struct pollfd p[2] = { { .fd = fakes[0].fd, .events = POLLIN }, { .fd = fakes[1].c, .events = POLLIN } };

			assert_true(poll(p, 2, -1) > 0);
			if (!p[0].revents)
				continue;
		} else if (epoll_wait(set, &e, 1, -1) != 1 || e.data.u64) {
			continue;
		}
		do {
			n = get(0, b, 1 + (size_t)rand_r(&r) % 16);
			atomic_fetch_add(&read_all, (size_t)n);
		} while (n && (kind_all & EPOLLET));
		if (kind_all & EPOLLONESHOT)
			mod(0, EPOLLIN | kind_all);
	}
	return NULL;
}

static void together(void **state)
{
	static const uint32_t kinds[] = { 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT, 0 };
	pthread_t t[4];

	seeded();
	for (int k = 0; k < 5; k++) {
		size_t sent = 0;

		kind_all = kinds[k];
		by_poll_all = k == 4;
		atomic_store(&read_all, 0);
		atomic_store(&over, false);
		if (k) {
			mod(0, EPOLLIN | kind_all);
			mod(1, 0);
		} else {
			add(0, EPOLLIN);
			add(1, 0);
			assert_true(map_it(0));
		}
		for (uintptr_t i = 0; i < 4; i++)
			assert_false(pthread_create(&t[i], NULL, reader, (void *)(i + 4 * (uintptr_t)draw(1000))));
		while (sent < OCTETS) {
			char b[64];
			size_t n = 1 + draw(sizeof(b) - 1);
			bool nothing = draw(4) == 0;

			memset(b, nothing ? '.' : 'a', n);
			assert_int_equal(write(fakes[0].peer, b, n), n);
			sent += nothing ? 0 : n;
			while (sent > atomic_load(&read_all) + draw(512))
				sched_yield();
		}
		while (atomic_load(&read_all) < sent)
			sched_yield();
		assert_int_equal(atomic_load(&read_all), sent);
		atomic_store(&over, true);
		mod(1, EPOLLIN);
		assert_int_equal(write(fakes[1].c, "x", 1), 1);	/* level-triggered: for all of them */
		assert_int_equal(write(fakes[1].fd, "x", 1), 1);
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		assert_int_equal(read(fakes[1].fd, evs, 1), 1);
		assert_int_equal(read(fakes[1].c, evs, 1), 1);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(level), T(edge_triggered), T(oneshot), T(not_mapped_then), T(moved_beside_mapped), T(apart), T(ctl_after), T(left_in_the_kernel), T(room), T(same_data), T(fair), T(time_left), T(polls_bits), T(selects), T(nested_sets),
		T(two_sets), T(set_dup), T(refused), T(left_for_sleepers), T(changed_for_sleepers), T(as_the_kernel), T(together),
	};

	iw_stream_chunks[0] = streams;
	real_init();
	alarm(600);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
