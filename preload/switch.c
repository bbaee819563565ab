// SPDX-License-Identifier: MIT
/*
 * The switch: T, the application's TCP socket, goes to the daemon, and the carrier of a stream takes its place; and back.
 *
 * All fds of the file are gated first (SWITCHING), so that no call of ours begins on them, and the calls under way are looked for: when
 * there is one, not now. Then everything is judged as it is at this moment. Until the carrier is in place the application has what it
 * had, whatever happens; from dup3 on the daemon has T alone. Just before that the page says that the carrier is taken, so that the daemon
 * knows it whatever becomes of the messages (enum iw_hand). The gate is opened when what was unread in T lies in the carrier.
 */
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "proto/ctlmsg.h"
#include "proto/probe.h"
#include "daemon.h"
#include "holders.h"
#include "internal.h"
#include "lock.h"
#include "opts.h"
#include "path.h"
#include "plain.h"
#include "proc.h"
#include "quiet.h"
#include "reg.h"
#include "sets.h"
#include "stream.h"
#include "swap.h"
#include "switch.h"
#include "sys.h"
#include "tcpstate.h"

#define NUMBERS		16u		/* fds of one file that are moved together */
#define LOOKS		64	/* what arrives meanwhile spoils one */
#define UNSEEN	64u	/* octets: for a SYN, and calls that are under way */
#define URGENT_TIMES	4u		/* that the daemon is asked for the socket, some ms each */

/* The numbers of one file, and the word that all of them had. */
struct numbers {
	unsigned int n;
	uint32_t word;
	int fd[NUMBERS];
};

/* word: what it was when its turn began. Another thread may be at it since, and have it gated. */
static bool numbers_find(struct numbers *p, int fd, uint32_t word, uint32_t refs)
{
	int high = atomic_load(&iw_fd_high_app);

	if (iw_word(fd) != word)
		return false;
	p->word = word;
	p->n = 1;
	p->fd[0] = fd;
	for (int i = 0; refs > 1 && i <= high && p->n <= refs; i++) {
		if (i == fd || iw_word(i) != p->word)
			continue;
		if (p->n == NUMBERS)
			return false;
		p->fd[p->n++] = i;
	}
	return p->n == refs;
}

/* ---- the gate ---- */

static void gate_open(const struct numbers *p, unsigned int n, uint32_t w)
{
	for (unsigned int i = 0; i < n; i++) {
		iw_word_set(p->fd[i], w);
		iw_futex_wake(&iw_fdtab[p->fd[i]], INT32_MAX);
	}
}

static bool gate_close(const struct numbers *p)
{
	for (unsigned int i = 0; i < p->n; i++)
		if (!iw_word_cas(p->fd[i], p->word, iw_word_gated(p->word))) {
			gate_open(p, i, p->word);
			return false;
		}
	return true;
}

/* Nobody is inside a call on any of them. */
static bool nobody_inside(const struct numbers *p, uint64_t *way)
{
	for (unsigned int i = 0; i < p->n; i++)
		if (!iw_quiet(p->fd[i], way))
			return false;
	return true;
}

/* ---- one file in the place of another; under iw_tab_lock ---- */

static void attach(const struct numbers *p, unsigned int n, bool other)
{
	for (unsigned int i = 0; i < n; i++)
		iw_reg_attach(p->fd[i], other);
}

/* Out of all epoll sets, or it is in all of them as before. */
static bool detach(const struct numbers *p)
{
	for (unsigned int i = 0; i < p->n; i++)
		if (iw_reg_lost(p->fd[i]) || iw_reg_detach(p->fd[i])) {
			attach(p, i, false);
			return false;
		}
	return true;
}

static void place(const struct numbers *p, int file, uint32_t w)
{
	for (unsigned int i = 0; i < p->n; i++) {
		long fl = IW_SYS(fcntl, p->fd[i], F_GETFD, 0);

		IW_SYS(dup3, file, p->fd[i], fl & FD_CLOEXEC ? O_CLOEXEC : 0);
		iw_word_set(p->fd[i], iw_word_gated(w));
	}
}

/* What the daemon offered is ours, unless it has taken it back. */
static bool take(struct iw_stream *s)
{
	uint32_t offered = IW_HAND_OFFERED;

	return atomic_compare_exchange_strong(&iw_stream_end(s)->hand, &offered, IW_HAND_TAKEN);
}

static void set_linger(int tcp, int on, int s)
{
	struct linger l = { .l_onoff = on, .l_linger = s };

	IW_SYS(setsockopt, tcp, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

static bool same_file(const struct numbers *p, uint64_t ino)
{
	for (unsigned int i = 0; i < p->n; i++)
		if (iw_fd_ino(p->fd[i]) != ino)
			return false;
	return true;
}

/* ---- what must hold ---- */

struct judged {
	struct iw_opts opts;
	struct iw_flags flags;
	uint64_t ino;
	uint32_t told;		/* octets that must lie in the carrier at once */
	bool unread;		/* there were some in T when nobody could be told of any more */
	uint64_t told_end;	/* the position after them, if there are any */
};

static enum iw_switched say(enum iw_reason *why, enum iw_reason reason, enum iw_switched r)
{
	*why = reason;
	return r;
}

/* Of struct tcp_info of <linux/tcp.h>, which libc's ends before. */
struct info {
	uint8_t state, other[119];
	uint64_t acked, received;	/* octets */
};

static bool info(int tcp, struct info *i)
{
	socklen_t len = sizeof(*i);

	return IW_SYS(getsockopt, tcp, IPPROTO_TCP, TCP_INFO, i, &len) >= 0 && len == sizeof(*i);
}

/* Octets that the program has given to the kernel and taken from it, as that counts them, and what is unread. */
struct counts {
	uint64_t sent, taken;
	uint32_t unread;
};

/* Several calls are not one look: each direction counts when its counter is the same before and after. false: it cannot be told now. */
static bool count(int tcp, const struct iw_candidate *c, struct counts *n)
{
	uint32_t syn = atomic_load(&c->flags) & IW_CAND_CLIENT ? 1 : 0;
	bool tx = false, rx = false;

	for (int i = 0; i < LOOKS && !(tx && rx); i++) {
		int in = 0, out = 0;
		struct info a, b;

		if (!info(tcp, &a) || IW_SYS(ioctl, tcp, SIOCINQ, &in) < 0 || IW_SYS(ioctl, tcp, SIOCOUTQ, &out) < 0 || !info(tcp, &b))
			return false;
		if (!tx && a.acked == b.acked) {
			tx = true;
			n->sent = a.acked - syn + (uint64_t)out;
		}
		if (!rx && a.received == b.received) {
			rx = true;
			n->unread = (uint32_t)in;
			n->taken = a.received - n->unread;
		}
	}
	return tx && rx;
}

/*
 * However much is unread: as much as the carrier takes lies in it when the gate is opened, and the rest follows. The program must not
 * find less at once than it was told of: by FIONREAD, by MSG_PEEK, or that as much as its SO_RCVLOWAT is there.
 */
static bool what_was_told(int tcp, struct iw_candidate *c, struct judged *j)
{
	uint64_t told = atomic_load(&c->told), lowat = j->opts.lowat > 1 ? (uint64_t)j->opts.lowat : 0;
	struct counts n;

	j->told = 0;
	j->told_end = 0;
	if (!told && !c->told_end && !lowat)
		return true;
	if (!count(tcp, c, &n))
		return false;
	atomic_store(&c->told, 0);
	if (told && n.taken + told > c->told_end)
		c->told_end = n.taken + told;
	told = c->told_end > n.taken ? c->told_end - n.taken : 0;
	if (lowat > told)
		told = lowat;
	j->told = (uint32_t)(told < n.unread ? told : n.unread);
	j->told_end = j->told ? n.taken + j->told : 0;
	return true;
}

bool iw_switch_taken(int fd, uint64_t position)
{
	struct info i;
	int unread = 0;

	return !info(fd, &i) || IW_SYS(ioctl, fd, SIOCINQ, &unread) < 0 || i.received >= position + (uint64_t)unread;
}

/* Much more was moved than by calls that were counted: others will follow that nobody sees, and who reads by them would wait in vain once it is mapped. */
static bool unseen(int tcp, struct iw_candidate *c, const struct info *i)
{
	uint64_t counted = atomic_load(&c->octets);
	int32_t more = (int32_t)((uint32_t)(i->acked + i->received) - c->base - (uint32_t)counted);
	int unread = 0;

	return IW_SYS(ioctl, tcp, SIOCINQ, &unread) >= 0 && more > 0 && (uint64_t)more > (uint64_t)unread + counted / 4 + UNSEEN;
}

/*
 * Nobody is inside a call. In a process of several threads somebody may write between here and the exchange by calls that nobody sees, into a socket that
 * nobody reads from then on: one of which the kernel has counted more than the calls have stays plain, and so does one that was given to libc (fd.c,
 * by_libc()). -EAGAIN: it cannot be told now. So it is with a single octet: an urgent one that the program passed over is counted as taken, and whether the
 * other end uses urgent data that end says.
 */
static int writes_unseen(int tcp, struct iw_candidate *c)
{
	struct counts n;
	int32_t more;

	if (__libc_single_threaded)
		return 0;
	if (!count(tcp, c, &n))
		return -EAGAIN;
	more = (int32_t)((uint32_t)(n.sent + n.taken) - c->base - (uint32_t)atomic_load(&c->octets));
	if (more > 1)
		iw_candidate_flag(c, IW_CAND_UNSEEN);
	if (atomic_load(&c->flags) & IW_CAND_UNSEEN)
		return 1;
	return more > 0 ? -EAGAIN : 0;
}

static enum iw_switched judge_tcp(int tcp, struct iw_candidate *c, struct judged *j, enum iw_reason *why)
{
	short bits = iw_fd_bits(tcp, POLLPRI | POLLRDHUP);
	enum iw_reason r;
	struct info i;
	int ret;

	if (!info(tcp, &i) || i.state != TCP_ESTABLISHED || (bits & (POLLRDHUP | POLLHUP | POLLERR)))
		return say(why, IW_REASON_HALF_CLOSED, IW_SWITCH_NEVER);
	if (bits & POLLPRI)
		return say(why, IW_REASON_URGENT, IW_SWITCH_NEVER);
	r = iw_opts_read(tcp, &j->opts);
	if (r)
		return say(why, r, IW_SWITCH_NEVER);
	if (!what_was_told(tcp, c, j))
		return say(why, 0, IW_SWITCH_NOT_NOW);
	ret = writes_unseen(tcp, c);
	if (ret)
		return ret < 0 ? say(why, 0, IW_SWITCH_NOT_NOW) : say(why, IW_REASON_UNSEEN, IW_SWITCH_NEVER);
	if (unseen(tcp, c, &i))
		iw_candidate_flag(c, IW_CAND_UNSEEN);
	iw_flags_read(tcp, &j->flags);
	j->ino = iw_fd_ino(tcp);
	return IW_SWITCH_DONE;
}

/* A filter of system calls may refuse what puts one file in the place of another: known before, since afterwards there is no way back. */
static bool may_place(int fd)
{
	return IW_SYS(dup3, fd, fd, 0) == -EINVAL;
}

/* Behind the gate. */
static enum iw_switched judge(const struct numbers *p, struct iw_candidate *c, struct judged *j, enum iw_reason *why)
{
	struct iw_files files;
	uint64_t way = 0;
	uint32_t flags;

	if (!nobody_inside(p, &way)) {
		atomic_store(&c->way, way);
		return say(why, IW_REASON_BUSY, IW_SWITCH_NOT_NOW);
	}
	flags = atomic_load(&c->flags);
	iw_files_look(&files, p->fd, p->n);
	if (!iw_uring_quiet(&files))
		return say(why, IW_REASON_IO_URING_USER, IW_SWITCH_NOT_NOW);
	/* these were said by calls that are over now */
	if (flags & IW_CAND_PASSED)
		return say(why, IW_REASON_INHERITED, IW_SWITCH_NEVER);
	if (flags & IW_CAND_URGENT)
		return say(why, IW_REASON_URGENT, IW_SWITCH_NEVER);
	if (flags & IW_CAND_OPTION)
		return say(why, IW_REASON_OPTION, IW_SWITCH_NEVER);
	if (flags & IW_CAND_LOST)
		return say(why, IW_REASON_EPOLL_UNKNOWN, IW_SWITCH_NEVER);
	if (atomic_load(&c->refs) != p->n || files.unknown)
		return say(why, IW_REASON_ALIAS, IW_SWITCH_NOT_NOW);
	if (iw_reg_learn(&files, &c->note))
		return say(why, IW_REASON_EPOLL_UNKNOWN, IW_SWITCH_NOT_NOW);
	if (!iw_fd_room(p->fd[0]))
		return say(why, IW_REASON_RESOURCES, IW_SWITCH_NOT_NOW);
	if (!may_place(p->fd[0]))
		return say(why, IW_REASON_ALIAS, IW_SWITCH_NEVER);
	return judge_tcp(p->fd[0], c, j, why);
}

/* ---- the switch ---- */

/* NULL: refused; c->way is what to wait for. */
static struct iw_stream *ask(int fd, struct iw_candidate *c, const struct judged *j, int *carrier)
{
	struct iw_ctl_stream r;
	struct iw_stream *s;
	struct iw_ctl_id m;
	int fds[2];

	iw_ctl_init(&m, IW_CTL_SWITCH, 0);
	m.id = c->conn_id;
	m.fd = fd;
	m.told = j->told;
	atomic_store(&c->way, 0);
	if (iw_daemon_ask(&m, fd, &r, sizeof(r), fds, c->gen))
		return NULL;
	if (r.result) {
		atomic_store(&c->way, r.size && r.size < j->told ? j->told_end - r.size : 0);
		return NULL;
	}
	s = fds[1] >= 0 ? iw_stream_new(&r, fds[1], fds[0], c->conn_id) : NULL;	/* closes fds[1] */
	*carrier = fds[0];
	if (s) {
		atomic_store(&s->ctl_gen, c->gen);
	} else {
		IW_SYS(close, fds[0]);
		iw_daemon_tell_id(IW_CTL_ABANDON, r.stream_id, IW_REASON_RESOURCES, fd);
		iw_daemon_sync();
	}
	return s;
}

/* Still alone, still the same file, and still nothing written unseen? From here on it is the carrier's number. */
static bool put_in_place(const struct numbers *p, struct iw_candidate *c, struct judged *j, struct iw_stream *s, int carrier)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	uint32_t holder = iw_candidate_index(c);
	bool done = iw_holders_alone(holder, p->fd, p->n) && same_file(p, j->ino) && detach(p);
	int unread = 0;

	j->unread = done && (IW_SYS(ioctl, p->fd[0], SIOCINQ, &unread) < 0 || unread);
	if (done && (writes_unseen(p->fd[0], c) || !take(s))) {
		attach(p, p->n, false);
		done = false;
	}
	if (done) {
		if (!iw_stream_local(s))	/* the kernel of a daemon that dies resets it, from now on; the daemon knows what it was */
			set_linger(p->fd[0], 1, 0);
		s->holder = holder;
		atomic_store(&s->refs, p->n);
		place(p, carrier, iw_stream_word(s));
		attach(p, p->n, true);
	}
	iw_unlock(&iw_tab_lock, sigs);
	return done;
}

/* What was unread in T lies in the carrier when this returns, or T is the application's alone; unless the daemon is gone. */
static void switched(const struct iw_stream *s, int fd)
{
	struct iw_ctl_id m;
	struct iw_ctl_ack r;

	iw_ctl_init(&m, IW_CTL_SWITCHED, 0);
	m.id = s->stream_id;
	m.fd = fd;
	iw_daemon_ask(&m, -1, &r, sizeof(r), NULL, s->ctl_gen);
}

/* The socket is the application's alone again when this returns: its close must be the last one. */
static void abandon(struct iw_stream *s, int fd)
{
	iw_daemon_tell_id(IW_CTL_ABANDON, s->stream_id, IW_REASON_BUSY, fd);
	iw_stream_put(s, false);
	iw_daemon_sync();
}

static enum iw_switched behind_gate(const struct numbers *p, struct iw_candidate *c, struct iw_stream **stream, enum iw_reason *why)
{
	enum iw_switched r;
	struct iw_stream *s;
	struct judged j;
	int carrier = -1;
	bool done;

	r = judge(p, c, &j, why);
	if (r != IW_SWITCH_DONE)
		return r;
	s = ask(p->fd[0], c, &j, &carrier);
	if (!s)
		return IW_SWITCH_REFUSED;
	iw_opts_write(s, carrier, &j.opts);
	iw_flags_write(carrier, &j.flags);
	s->client = atomic_load(&c->flags) & IW_CAND_CLIENT;
	done = nobody_inside(p, NULL) && put_in_place(p, c, &j, s, carrier);	/* whoever makes raw calls knows of no gate */
	IW_SYS(close, carrier);
	if (!done) {
		abandon(s, p->fd[0]);
		return IW_SWITCH_NOT_NOW;
	}
	if (j.unread || iw_stream_local(s))
		switched(s, p->fd[0]);
	else
		iw_daemon_tell_id(IW_CTL_SWITCHED, s->stream_id, 0, p->fd[0]);
	*stream = s;
	return IW_SWITCH_DONE;
}

enum iw_switched iw_switch(int fd, struct iw_candidate *c, enum iw_reason *why)
{
	struct iw_stream *s = NULL;
	enum iw_switched r;
	struct numbers p;

	*why = 0;
	if (!numbers_find(&p, fd, iw_word_make(IW_FD_CANDIDATE, iw_candidate_index(c)), atomic_load(&c->refs)))
		return say(why, IW_REASON_ALIAS, IW_SWITCH_NOT_NOW);
	if (!iw_holders_alone(iw_candidate_index(c), p.fd, p.n))
		return say(why, IW_REASON_INHERITED, IW_SWITCH_NOT_NOW);
	if (!gate_close(&p))
		return IW_SWITCH_NOT_NOW;
	r = behind_gate(&p, c, &s, why);
	if (r == IW_SWITCH_DONE) {
		IW_PROBE2(libiwsock, switched, fd, s->stream_id);
		iw_candidate_gone(c);
	}
	for (unsigned int i = 0; r != IW_SWITCH_DONE && i < p.n; i++)
		iw_reg_forget(p.fd[i]);	/* what was learned for this time */
	gate_open(&p, p.n, s ? iw_stream_word(s) : p.word);
	return r;
}

/* ---- and back ---- */

/* Behind the gate: both directions are open, and nothing lies in the carrier for the application. What it wrote the daemon looks at. */
static bool dry(const struct numbers *p, struct iw_stream *s)
{
	bool unseen = !__libc_single_threaded && (atomic_load(&iw_candidate_at(s->holder)->flags) & IW_CAND_UNSEEN);
	struct iw_page_end *me = iw_stream_end(s);
	struct iw_files files;

	iw_files_look(&files, p->fd, p->n);
	return !unseen && atomic_load(&s->refs) == p->n && may_place(p->fd[0]) && nobody_inside(p, NULL) && iw_uring_quiet(&files) && !files.unknown && !atomic_load(&me->shut) &&
	       atomic_load(&me->close_state) == IW_CLOSE_OPEN && !iw_path(s)->inq(s, p->fd[0]);
}

static int ask_back(const struct iw_stream *s, int fd, struct iw_ctl_tcp *r)
{
	struct iw_ctl_id m;
	int fds[2];

	iw_ctl_init(&m, IW_CTL_BACK, 0);
	m.id = s->stream_id;
	m.fd = fd;
	if (iw_daemon_ask(&m, -1, r, sizeof(*r), fds, s->ctl_gen) || r->result)
		return -1;
	return fds[0];
}

/* The socket as the application shall have it, or -1: not now. What another thread wrote unseen since the daemon looked would be overtaken. */
static int take_back(struct iw_stream *s, int fd)
{
	struct iw_ctl_tcp r;
	struct iw_flags f;
	int tcp = ask_back(s, fd, &r), late = 0;

	if (tcp < 0)
		return -1;
	if (IW_SYS(ioctl, fd, SIOCOUTQ, &late) < 0 || late) {
		IW_SYS(close, tcp);
		iw_daemon_tell_id(IW_CTL_ABANDON, s->stream_id, IW_REASON_BUSY, fd);
		return -1;
	}
	if (!take(s)) {
		IW_SYS(close, tcp);
		return -1;
	}
	set_linger(tcp, r.linger_on, r.linger_s);
	iw_opts_back(s, fd, tcp);
	iw_flags_read(fd, &f);
	iw_flags_write(tcp, &f);
	return tcp;
}

/* Forks, and programs that are started, wait at the gate (proc.c): between answer and exchange nobody gets what is void by then. */
static bool back_behind_gate(const struct numbers *p, struct iw_stream *s, uint32_t w)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	int tcp;
	bool out = same_file(p, s->ino) && iw_reg_may_move(p->fd[0]) && detach(p);

	iw_unlock(&iw_tab_lock, sigs);
	if (!out)
		return false;
	tcp = take_back(s, p->fd[0]);
	sigs = iw_lock(&iw_tab_lock);
	if (tcp >= 0)
		place(p, tcp, w);
	attach(p, p->n, tcp >= 0);
	iw_unlock(&iw_tab_lock, sigs);
	if (tcp < 0)
		return false;
	IW_SYS(close, tcp);
	switched(s, p->fd[0]);
	for (unsigned int i = 0; i < p->n; i++)
		iw_reg_forget(p->fd[i]);
	return true;
}

static uint64_t moved(int tcp, const struct iw_candidate *c)
{
	struct counts n = { 0 };

	count(tcp, c, &n);
	return n.sent + n.taken;
}

static bool back(int fd, struct iw_stream *s)
{
	struct iw_candidate *c;
	struct numbers p;
	bool done;

	if (iw_stream_local(s) || iw_stream_own(s, fd) || !numbers_find(&p, fd, iw_stream_word(s), atomic_load(&s->refs)))
		return false;
	if (!s->holder || !gate_close(&p))
		return false;
	c = iw_candidate_at(s->holder);
	done = iw_stream_alone(s, p.fd, p.n) && dry(&p, s) && back_behind_gate(&p, s, iw_word_make(IW_FD_CANDIDATE, s->holder));
	if (done) {
		IW_PROBE2(libiwsock, back, fd, s->stream_id);
		iw_candidate_back(c, p.n, (uint32_t)s->conn_id, moved(fd, c));
		s->holder = 0;
		atomic_store(&s->refs, 1);
		iw_stream_put(s, false);
	}
	gate_open(&p, p.n, done ? iw_word_make(IW_FD_CANDIDATE, iw_candidate_index(c)) : p.word);
	return done;
}

void iw_switch_back(int fd, struct iw_stream *s)
{
	uint32_t rest = atomic_load_explicit(&s->back_rest, memory_order_relaxed);
	uint8_t tries = atomic_load_explicit(&s->back_tries, memory_order_relaxed);
	uint64_t sigs;

	if (rest) {
		atomic_store_explicit(&s->back_rest, rest - 1, memory_order_relaxed);
		return;
	}
	if (iw_in_vfork())
		return;
	sigs = iw_sig_block();
	if (!back(fd, s)) {
		atomic_store_explicit(&s->back_rest, 8u << tries, memory_order_relaxed);
		atomic_store_explicit(&s->back_tries, tries + (tries < IW_CAND_TRIES), memory_order_relaxed);
	}
	iw_sig_restore(sigs);
}

bool iw_switch_urgent(int fd, struct iw_stream *s)
{
	struct iw_candidate *c = iw_candidate_at(s->holder);
	bool done = false;
	uint64_t sigs;

	if (iw_in_vfork())
		return false;
	sigs = iw_sig_block();
	for (unsigned int i = 0; i < URGENT_TIMES && !done; i++)
		done = back(fd, s);
	if (done && iw_candidate_take(c)) {	/* it would not be looked at for long, and GO would come again */
		iw_candidate_never(c);
		iw_plain_tell(fd, c, NULL, IW_REASON_URGENT, false);
		iw_candidate_leave(c);
	}
	iw_sig_restore(sigs);
	return done;
}
