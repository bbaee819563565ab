// SPDX-License-Identifier: MIT
/* The entries of candidates: birth, duplicates, close, fork. */
#include <string.h>
#include <sys/mman.h>

#include "proto/ctlmsg.h"
#include "candidate.h"
#include "conf.h"
#include "daemon.h"
#include "holders.h"
#include "kinds.h"
#include "lib.h"
#include "proc.h"
#include "sys.h"

static_assert(IW_HOLDERS <= IW_GO_SLOTS, "each candidate has a slot in the page of the process");
static_assert(sizeof(struct iw_candidate) <= 128, "10,000 of them are to cost little");

struct iw_candidate *_Atomic iw_candidates;

/* Address space only: memory comes with use. */
static bool there(void)
{
	struct iw_candidate *none = NULL;
	long p;

	if (iw_likely(atomic_load_explicit(&iw_candidates, memory_order_acquire)))
		return true;
	p = IW_SYS(mmap, NULL, IW_HOLDERS * sizeof(*none), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p < 0 && p > -4096)
		return false;
	if (!atomic_compare_exchange_strong(&iw_candidates, &none, (struct iw_candidate *)p))
		IW_SYS(munmap, p, IW_HOLDERS * sizeof(*none));
	return true;
}

static uint64_t octets_limit(uint32_t octets)
{
	return octets == IW_UPGRADE_NEVER ? UINT64_MAX : octets;
}

void iw_candidate_at_least(struct iw_candidate *c, uint32_t calls, uint32_t octets)
{
	atomic_store_explicit(&c->at_calls, calls, memory_order_relaxed);
	atomic_store_explicit(&c->at_octets, octets_limit(octets), memory_order_relaxed);
	atomic_store_explicit(&c->due, !calls || !octets, memory_order_relaxed);
}

void iw_candidate_later(struct iw_candidate *c, uint32_t calls, uint64_t octets)
{
	uint32_t now = atomic_load(&c->calls);

	atomic_store(&c->at_calls, now < UINT32_MAX - calls ? now + calls : UINT32_MAX);
	atomic_store(&c->at_octets, atomic_load(&c->octets) + octets);
	atomic_store(&c->due, 0);
}

void iw_candidate_never(struct iw_candidate *c)
{
	atomic_store(&c->state, IW_PLAIN);
	atomic_store(&c->at_calls, UINT32_MAX);
	atomic_store(&c->at_octets, UINT64_MAX);
	atomic_store(&c->due, 0);
}

static void begin(struct iw_candidate *c)
{
	iw_conf_load();
	atomic_store_explicit(&c->state, IW_YOUNG, memory_order_relaxed);
	atomic_store_explicit(&c->calls, 0, memory_order_relaxed);
	atomic_store_explicit(&c->octets, 0, memory_order_relaxed);
	c->base = 0;
	c->why = 0;
	c->tries = c->waits = 0;
	atomic_store_explicit(&c->wait, IW_WAIT_NONE, memory_order_relaxed);
	c->told_end = 0;
	c->judged_calls = 0;
	c->judged_kib = 0;
	atomic_store_explicit(&c->told, 0, memory_order_relaxed);
	iw_candidate_at_least(c, atomic_load(&iw_conf_least_calls), atomic_load(&iw_conf_least_octets));
}

uint32_t iw_candidate_born(bool client)
{
	struct iw_candidate *c;
	uint32_t idx;

	if (!there())
		return IW_OTHER_SEEN;
	idx = iw_holders_new();
	if (!idx)
		return IW_OTHER_SEEN;
	c = iw_candidate_at(idx);
	atomic_store_explicit(&c->flags, client ? IW_CAND_CLIENT : 0, memory_order_relaxed);
	c->conn_id = 0;
	atomic_store_explicit(&c->note.seq, 0, memory_order_relaxed);
	atomic_store_explicit(&c->note.unsure, 0, memory_order_relaxed);
	c->note.fd = -1;
	c->note.forks = atomic_load_explicit(&iw_forks, memory_order_relaxed);
	begin(c);
	atomic_store_explicit(&c->refs, 1, memory_order_release);
	return iw_word_make(IW_FD_CANDIDATE, idx);
}

bool iw_candidate_take(struct iw_candidate *c)
{
	return !(atomic_fetch_or(&c->flags, IW_CAND_TAKEN) & IW_CAND_TAKEN);
}

void iw_candidate_leave(struct iw_candidate *c)
{
	atomic_fetch_and(&c->flags, ~IW_CAND_TAKEN);
}

bool iw_candidate_known(const struct iw_candidate *c)
{
	return c->conn_id && atomic_load(&c->gen) == iw_daemon_gen();
}

void iw_candidate_closed(struct iw_candidate *c)
{
	if (iw_candidate_known(c))
		iw_daemon_tell_id(IW_CTL_CLOSED, c->conn_id, 0, -1);
	c->conn_id = 0;
}

/* A thread that is at the proposal of the old one finds out at the switch, whose socket the daemon looks at. */
void iw_candidate_again(struct iw_candidate *c)
{
	if (!iw_candidate_take(c))
		return;
	iw_candidate_closed(c);
	atomic_fetch_and(&c->flags, ~(IW_CAND_JUDGED | IW_CAND_GAIN));
	begin(c);
	iw_candidate_leave(c);
}

void iw_candidate_put(struct iw_candidate *c)
{
	if (atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	iw_candidate_closed(c);
	iw_holders_put(iw_candidate_index(c));
}

void iw_candidate_gone(struct iw_candidate *c)
{
	c->conn_id = 0;
	iw_candidate_leave(c);
}

/* How long it is left alone is the daemon's to say, by GO. Its registrations were just made, in sets that this process has. */
void iw_candidate_back(struct iw_candidate *c, uint32_t fds, uint32_t conn_id, uint64_t moved)
{
	begin(c);
	c->base = (uint32_t)moved;
	c->conn_id = conn_id;
	atomic_store(&c->state, IW_PROPOSED);
	atomic_store(&c->note.unsure, 1);
	c->note.forks = atomic_load(&iw_forks);
	atomic_store(&c->refs, fds);
	atomic_store(&c->due, 1);
}

/* A number that goes while others of the same file stay leaves its registrations behind, where nobody can get at them. */
static void forget(int fd, uint32_t w)
{
	struct iw_candidate *c = iw_candidate_at(iw_word_val(w));

	if (atomic_load(&c->refs) > 1) {
		iw_holders_settle(iw_word_val(w), fd, false);
		if (c->note.fd == fd || atomic_load(&c->note.unsure))
			atomic_fetch_or(&c->flags, IW_CAND_LOST);
	}
	iw_candidate_put(c);
}

static uint32_t dup_candidate(int fd, uint32_t w)
{
	atomic_fetch_add(&iw_candidate_at(iw_word_val(w))->refs, 1);
	return w;
}

/* The daemon that heard of them is the parent's, and so are the threads that were at work. */
static void forked_child(void)
{
	int high = atomic_load(&iw_fd_high_app);

	for (int fd = 0; fd <= high; fd++) {
		uint32_t w = iw_word(fd);
		struct iw_candidate *c;

		if (iw_word_kind(w) == IW_FD_SWITCHING) {
			w = iw_word_ungated(w);
			iw_word_set(fd, w);
		}
		if (iw_word_kind(w) != IW_FD_CANDIDATE)
			continue;
		c = iw_candidate_at(iw_word_val(w));
		iw_candidate_leave(c);
		c->conn_id = 0;
		atomic_store(&c->wait, IW_WAIT_NONE);
		if (atomic_load(&c->state) == IW_PROPOSED) {
			atomic_store(&c->state, IW_YOUNG);
			atomic_store(&c->due, 1);
		}
	}
}

const struct iw_kind_ops iw_candidate_ops = {
	.forget = forget,
	.dup = dup_candidate,
	.fork = iw_holders_fork,
	.forked_child = forked_child,
};
