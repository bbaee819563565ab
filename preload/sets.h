/* SPDX-License-Identifier: MIT */
/*
 * Where the kernel has a file of this process besides its number: in epoll sets, filled by whatever calls, and in io_uring. The kernel is
 * asked (/proc, kcmp), each time: what it said once may be another thing by now, since nobody tells of raw calls. No lock; keeps errno.
 */
#ifndef IW_PRELOAD_SETS_H
#define IW_PRELOAD_SETS_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define IW_SETS		64
#define IW_RINGS	16

/* What was found among the descriptors of this process. */
struct iw_files {
	const int *fds;		/* the numbers of the file that are known */
	unsigned int n;
	uint64_t cookie;	/* the file's */
	bool unknown;		/* it is also behind a number that the table says nothing of */
	bool many;		/* more sets, or rings, than have room here */
	unsigned int sets, rings;
	int set[IW_SETS], ring[IW_RINGS];
};

/*
 * fds stay the caller's. 2 ns for each number that is known, 0.1 us for each that is open and not known, or closed; 1.5 us where that is no
 * socket, once.
 */
void iw_files_look(struct iw_files *v, const int *fds, unsigned int n);
bool iw_is_set(int fd);	/* of epoll, as the kernel knows it */

/* A registration. */
struct iw_in_set {
	int epfd, fd;		/* numbers of ours: of the set, and that by which it was added */
	uint32_t events;	/* as it is armed now; the kernel has EPOLLERR and EPOLLHUP in each */
	uint64_t data;
	bool fired;		/* EPOLLONESHOT, and not armed again: of events the flags are left */
};

/*
 * All registrations of the file. known: the one that there should be, as far as epoll_ctl() was called; NULL: none.
 * Returns how many there are, or
 *	-EBUSY	one of them cannot be moved: it is under a number that is not among fds
 *	-EAGAIN	it would take too long now: 2 us per entry of a large set, a twentieth of the time at most
 *	-E2BIG	more than max, or too many sets, or a set with too many entries
 *	-EACCES	the kernel does not say
 * Of a set of more than IW_SET_SMALL entries `known` is believed when the kernel says that the file is in it at all.
 */
int iw_sets_of(const struct iw_files *v, const struct iw_in_set *known, struct iw_in_set *found, unsigned int max);
#define IW_SET_SMALL	256

/*
 * Can no io_uring of this process have its hands on the file: no operation under way that might be on it, and it is not registered? A ring
 * that has nothing to do is no obstacle. What the kernel does not say may be.
 */
bool iw_uring_quiet(const struct iw_files *v);

#pragma GCC visibility pop
#endif
