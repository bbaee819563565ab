/* SPDX-License-Identifier: MIT */
/*
 * What the parts of opsoak share: the memory of all its processes, in which every stream has a record, and what a process knows of an end that it holds.
 *
 * A stream has two ends: 0 connected, 1 accepted; direction d is what end d writes. Its octets are a function of seed, stream, direction and position,
 * so that whoever reads some knows at once whether they are right. What an end does next is a function of the same seed: positions, its place in the
 * script, and its generators are in the record, so that whoever holds the end goes on from there.
 */
#ifndef IW_OPSOAK_H
#define IW_OPSOAK_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define WORKERS		16	/* at most */
#define BEGUN		4	/* streams that a worker has begun, at a time */
#define STREAMS		(WORKERS * BEGUN)
#define PROCS		256
#define LINES		40	/* operations of an end that are remembered */
#define PERIOD		1000003u
#define MOST		(300 << 10)	/* octets of one call */
#define TABLE		(PERIOD + MOST)
#define SHM_FD		3	/* in every process of ours */
#define TABLE_FD	4

/* What is done: the names are for reports, the counts for coverage. */
#define OPS(X) \
	X(connect) X(accept) X(read) X(readv) X(recv) X(recvfrom) X(peek) X(waitall) X(peek_all) X(dontwait) X(recvmsg) X(recvmmsg) X(splice_in) X(fread) \
	X(write) X(writev) X(send) X(sendto) X(send_more) X(send_dontwait) X(sendmsg) X(sendmmsg) X(splice_out) X(sendfile) X(fwrite) \
	X(poll) X(ppoll) X(select) X(pselect) X(epoll) X(epoll_et) X(epoll_oneshot) X(pause) X(loop) \
	X(fcntl_nonblock) X(fionbio) X(option) X(timeo) X(fionread) X(names) \
	X(dup) X(dupfd) X(dupfd_cloexec) X(dup2) X(dup3) X(threads) X(give_thread) \
	X(fork) X(fork_back) X(fork_exec) X(spawn) X(exec) X(pass) X(taken) X(went_on) \
	X(shut_wr) X(shut_rdwr) X(linger0) X(wait_unread) X(close) X(eof) X(reset) X(killed)
enum op {
#define X(name) OP_##name,
	OPS(X)
#undef X
	OP_COUNT
};

struct rng { uint64_t s; };

struct line {		/* an operation that was made */
	uint64_t us;
	pid_t tid;
	int op, fd, err;
	int64_t asked, got;
	uint64_t at;	/* position before it */
};

struct walk {		/* along the script of a stream: both ends have the same */
	struct rng rng;
	int segments, turns, kind, dir, most;
	uint64_t goal[2];	/* of each direction, by the end of this step */
	int pause;		/* ms, before this step's octets are written */
	bool over;
};

enum { MAY_KILLED = 1, MAY_LINGER = 2, MAY_UNREAD = 4, MAY_DAEMON = 8 };	/* why a stream may be reset */
enum end_state { END_FREE, END_LIVE, END_DONE, END_DEAD };

struct end {
	_Atomic int state;
	_Atomic int holder;		/* in procs */
	_Atomic int fd;			/* there, for reports */
	_Atomic int reset;		/* somebody who held it was told */
	_Atomic int fin;		/* 1: writes no more, 2: nor reads; said before shutdown and close */
	_Atomic uint64_t rpos, wpos;
	_Atomic uint64_t wsaid;		/* wpos after the call that is under way, if it takes everything */
	struct rng rr, wr, cr;		/* of reads, of writes, of everything else */
	struct walk walk;
	uint64_t begun;			/* octets of both directions when this step began */
	int stage;			/* in its part of the end, once the walk is over */
	int deed, deed_at;		/* what is to be done in this step, and after how many of its octets */
	int temper;			/* how often it is handed on */
	int before;			/* octets were ready for it before it was handed on */
	_Atomic unsigned int lines;
	struct line line[LINES];
};

struct stream {
	_Atomic int used;
	uint64_t id;
	_Atomic unsigned int may;
	_Atomic int epoch;		/* of the daemons, when it began */
	_Atomic int handed;
	uint64_t begun_ms;
	_Atomic uint64_t moved_ms;	/* when something was done on it */
	int server;			/* the worker */
	_Atomic int port;		/* the client's; 0: not known yet */
	_Atomic int accepted;
	uint64_t total[2];		/* octets of each direction by the script */
	uint64_t tail;			/* that come after it */
	int ending, starter;
	struct end end[2];
};

enum proc_state { PROC_FREE, PROC_NEW, PROC_LIVE, PROC_AIMED, PROC_LEAVING, PROC_DEAD };

struct proc {
	_Atomic int state;
	_Atomic pid_t pid;
	_Atomic int worker;		/* -1: has one end only */
	_Atomic int side, parent;
	_Atomic int doomed;
	_Atomic int handing;		/* in the middle of it: not to be killed */
	_Atomic unsigned int stops;	/* odd while one may be about to come */
	_Atomic unsigned int sent, handled, rude;	/* signals; rude ones have no SA_RESTART */
	_Atomic int still;		/* the number of the pause in which it has nothing any more */
};

struct place {				/* where workers of a side are */
	char addr[64], netns[256], rundir[256];
};

struct shm {
	uint64_t seed;
	pid_t main;
	int workers, sides;
	bool threads, kills;
	bool without[OP_COUNT];		/* operations that are not made: to find out which one does it */
	struct place place[2];
	char preload[256], conf[256];
	bool resets;			/* a daemon that ends takes streams with it */
	_Atomic int epoch;		/* odd: daemons are about to be away */
	_Atomic int handing;		/* anybody */
	_Atomic int pause;		/* odd: nothing new is begun; its number is in proc.still */
	_Atomic int quit;
	_Atomic int failed;
	int fail_stream, fail_end;
	char why[2048];
	_Atomic int listening[WORKERS];	/* port, 0: not now */
	_Atomic int worker_proc[WORKERS];
	_Atomic uint64_t begun[WORKERS][BEGUN], finished, octets, resets_seen;
	_Atomic uint64_t count[OP_COUNT];
	struct proc procs[PROCS];
	struct stream streams[STREAMS];
};

/* An end in the process that holds it. */
struct hold {
	struct stream *s;
	struct end *e, *peer;
	int me;			/* which end */
	int fd;
	bool nonblock, shared;	/* shared: by threads */
	int rtimeo, stimeo;	/* ms, 0: none */
	bool gone;		/* closed, or somebody else has it */
	bool alone;		/* the process has nothing else */
	int ready;		/* by its loop: POLLIN, POLLOUT that were said and not disproved */
	bool level;		/* ready is exact */
	uint64_t until;		/* ms: pauses */
	int ep, ep_kind, ep_want;
	char *buf;		/* MOST */
};

struct call {		/* what may come between */
	bool late;
	unsigned int stops, sent, rude;
	uint64_t us;
};

extern struct shm *shm;
extern const uint8_t *table;
extern struct proc *self;
extern int self_n;

/* stream.c */
uint64_t rnd(struct rng *r);
uint32_t below(struct rng *r, uint32_t n);
bool one_in(struct rng *r, uint32_t n);
/* n octets at p in up to PIECES pieces, some of them empty; how many */
#define PIECES	4
int pieces(struct rng *r, struct iovec *v, const void *p, size_t n);
uint64_t mix(uint64_t a, uint64_t b);
void stream_begin(struct stream *s, uint64_t id, int server, int client_proc, int server_proc);
bool walk_on(struct walk *w);
const uint8_t *octets(const struct stream *s, int dir, uint64_t pos);
void check(struct hold *h, const void *p, size_t n, uint64_t pos, enum op op);
void check_eof(struct hold *h, enum op op);
bool lost(struct hold *h, enum op op, int err);
void end_over(struct stream *s, int me, enum end_state how);
const char *parts(const struct stream *s, int me);

/* note.c */
uint64_t now_us(void);
uint64_t now_ms(void);
void note(struct hold *h, enum op op, int64_t asked, int64_t got, int err, uint64_t at);
void count(enum op op);
void fail(struct stream *s, int me, const char *fmt, ...) __attribute__((noreturn, format(printf, 3, 4)));
#define hfail(h, ...) fail((h)->s, (h)->me, __VA_ARGS__)
void call_begin(struct call *c);
bool cut(const struct call *c);
bool cut_rudely(const struct call *c);
void block_rude(bool on);
void block_signals(bool on);
void block_children(void);
void wait_mask(sigset_t *m, int sig);

/* reads.c, writes.c: octets moved; 0: end of file, for reads; -EAGAIN, -EINTR, -ECONNRESET (also where it was EPIPE) */
int64_t read_some(struct hold *h, size_t n, bool wait);
int64_t write_some(struct hold *h, size_t n, bool wait);
int refused(struct hold *h, const struct call *c, enum op op, int err, bool wait, int timeo);

/* waits.c */
int wait_for(struct hold *h, int want, int ms);
int wait_by(struct hold *h, enum op kind, int want, int ms);
void wait_forget(struct hold *h);

/* turn.c: what an end does next */
int wants(struct hold *h);
void turn(struct hold *h, int ready);
void run(struct hold *h);
void run_threads(struct hold *h, int readers);

/* deeds.c */
void deed(struct hold *h);
void set_nonblock(struct hold *h, bool on, bool by_ioctl);
void move_fd(struct hold *h, enum op how);

/* hand.c */
bool hand(struct hold *h, enum op how);
void hold_init(struct hold *h, struct stream *s, int me, int fd);
void hold_free(struct hold *h);
void learn(struct hold *h);
void handed(struct proc *p);
int proc_new(int worker, int side);
void proc_leave(void) __attribute__((noreturn));
void proc_reaped(pid_t pid, int status);
void pass_address(int worker, struct sockaddr *sa, socklen_t *len);
int proc_exec_end(int argc, char **argv);
struct passed { int stream, end; };

/* worker.c, loop.c */
int worker_main(int w, int n);
void adopt(struct hold *h);
void start_threads(struct hold *h, int readers);
extern _Atomic int threads_running;
void loop_add(struct hold *h);
void loop_del(struct hold *h);
void loop_init(enum op kind, int listener, int passes);
int loop_wait(int ms);		/* 1: listener, 2: passes */
void loop_turns(void);
int loop_count(void);
extern struct hold *loop_now;	/* whose turn it is */

/* chaos.c, leaks.c, report.c */
void chaos(struct rng *r);
void stop_all(void);
void leaks(void);
bool report(void);
bool without(const char *names);
bool hangs(void);
void reap_own(void);
void tell_counts(void);

#endif
