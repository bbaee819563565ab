// SPDX-License-Identifier: MIT
/* Turns that do not begin at once: the fd is being switched, or may be now. */
#include <stddef.h>

#include "holders.h"
#include "map.h"
#include "proc.h"
#include "switch.h"
#include "turn.h"
#include "user.h"

static void stream_wanted(int fd, struct iw_stream *s)
{
	uint32_t want = atomic_load(&s->page->want);

	if (want & IW_WANT_UNMAP)
		iw_map_give(fd, s);
	else if (want & IW_WANT_MAP)
		iw_map_take(fd, s);
	else if (want & IW_WANT_BACK)
		iw_switch_back(fd, s);
}

int iw_turn_slow(struct iw_turn *t, int fd, enum iw_turn_how how)
{
	bool looked = !(how & IW_TURN_DATA);

	for (;;) {
		uint32_t w = iw_word(fd);

		t->s = NULL;
		t->c = NULL;
		switch (iw_word_kind(w)) {
		case IW_FD_STREAM:
			t->s = iw_stream_at(iw_word_val(w));
			if (looked || !atomic_load_explicit(&t->s->page->want, memory_order_relaxed))
				return 1;
			looked = true;
			stream_wanted(fd, t->s);
			break;
		case IW_FD_CANDIDATE:
			t->c = iw_candidate_at(iw_word_val(w));
			if (looked || !atomic_load_explicit(&t->c->due, memory_order_relaxed))
				return 1;
			looked = true;
			iw_candidate_look(fd, t->c);
			break;
		case IW_FD_SWITCHING:
			iw_call_end();
			iw_gate_wait(fd);
			return -1;
		default:
			iw_call_end();
			return 0;
		}
	}
}

void iw_turn_after(int fd, struct iw_candidate *c)
{
	struct iw_turn t;

	if (iw_candidate_ripe(fd, c) && iw_turn(&t, fd, IW_TURN_DATA))
		iw_turn_end();
}

/* What a vfork child does to numbers is for the program that it will execute: that has the file. */
void iw_turn_exec(const struct iw_turn *t, int fd, bool cloexec)
{
	if (t->s && !cloexec)
		iw_map_give(fd, t->s);
	if (!iw_in_vfork())
		iw_holders_settle(iw_turn_holder(t), fd, atomic_load(t->s ? &t->s->refs : &t->c->refs) == 1);
	else if (!cloexec)
		iw_holders_lose(iw_turn_holder(t));
}

int iw_turn_gated_poll(const struct pollfd *v, nfds_t n)
{
	if (n > IW_FD_MAX || !iw_user_readable(v, n * sizeof(*v)))
		return -1;
	for (nfds_t i = 0; i < n; i++)
		if (iw_fd_kind(v[i].fd) == IW_FD_SWITCHING)
			return v[i].fd;
	return -1;
}

int iw_turn_gated_select(int n, const fd_set *r, const fd_set *w, const fd_set *e)
{
	const uint64_t *const set[3] = { (const uint64_t *)r, (const uint64_t *)w, (const uint64_t *)e };
	size_t words = n > 0 && n <= IW_FD_MAX ? ((size_t)n + 63) / 64 : 0;

	for (int k = 0; k < 3; k++) {
		if (!set[k] || !iw_user_readable(set[k], words * 8))
			continue;
		for (size_t i = 0; i < words; i++)
			for (uint64_t bits = set[k][i]; bits; bits &= bits - 1) {
				int fd = (int)(i * 64) + __builtin_ctzll(bits);

				if (iw_fd_kind(fd) == IW_FD_SWITCHING)
					return fd;
			}
	}
	return -1;
}
