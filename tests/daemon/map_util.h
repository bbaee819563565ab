/* SPDX-License-Identifier: MIT */
/* The library of an end whose queue pair is mapped: octets by T and the map, as with MSG_DONTWAIT. */
#ifndef TEST_MAP_UTIL_H
#define TEST_MAP_UTIL_H

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "proto/end.h"

struct mapped {
	struct iw_end end;
	struct iw_map *map;	/* NULL: not mapped */
	uint64_t size;
	int tcp;
	bool dead;
};

/* The descriptors are its own. */
static inline void mapped_get(struct mapped *l, int t, int map, uint64_t size)
{
	*l = (struct mapped){ .size = size, .tcp = t };
	l->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	assert_ptr_not_equal(l->map, MAP_FAILED);
	close(map);
}

static inline void mapped_drop(struct mapped *l)
{
	if (!l->map)
		return;
	munmap(l->map, l->size);
	close(l->tcp);
	*l = (struct mapped){ 0 };
}

static inline void mapped_flush(struct mapped *l)
{
	const uint8_t *out;
	size_t len;

	while ((out = iw_end_out(&l->end, &len))) {
		ssize_t n = send(l->tcp, out, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			iw_end_lost(&l->end, errno);
		if (n <= 0)
			return;
		iw_end_out_done(&l->end, (size_t)n);
	}
}

/* Everything that can be done without waiting. */
static inline void mapped_step(struct mapped *l)
{
	bool over = l->dead || l->end.s->peer_eof;
	size_t room;
	uint8_t *in = iw_end_in(&l->end, &room);
	ssize_t n = over ? -1 : recv(l->tcp, in, room, MSG_DONTWAIT);

	if (n > 0) {
		iw_end_in_done(&l->end, (size_t)n);
	} else if (!n) {
		iw_end_in_eof(&l->end);
	} else if (!over && errno != EAGAIN) {
		l->dead = true;
		iw_end_lost(&l->end, errno);
	}
	iw_end_pump(&l->end);
	mapped_flush(l);
}

/* It was taken. */
static inline void mapped_begin(struct mapped *l)
{
	assert_int_equal(iw_end_open(&l->end, l->map, l->size), 0);
	atomic_store(&l->map->owner, IW_MAP_LIBRARY);
	mapped_step(l);
}

/* Before UNMAP. */
static inline void mapped_end(struct mapped *l)
{
	atomic_store(&l->map->owner, IW_MAP_AGENT);
	mapped_drop(l);
}

static inline ssize_t mapped_send(struct mapped *l, const void *buf, size_t len)
{
	struct iovec v = { (void *)buf, len };
	size_t n;

	mapped_step(l);
	n = iw_end_put(&l->end, &v, 1, 0, len);
	mapped_flush(l);
	errno = iw_end_state(&l->end) & IW_END_DEAD ? iw_end_err(&l->end) : EAGAIN;
	return n ? (ssize_t)n : -1;
}

static inline ssize_t mapped_recv(struct mapped *l, void *buf, size_t len)
{
	struct iovec v = { buf, len };
	unsigned int how;
	size_t n;

	mapped_step(l);
	n = iw_end_get(&l->end, &v, 1, 0, len, false, 0);
	mapped_step(l);
	how = iw_end_state(&l->end);
	errno = how & IW_END_DEAD ? iw_end_err(&l->end) : EAGAIN;
	return n ? (ssize_t)n : how & IW_END_FIN && !(how & IW_END_DEAD) ? 0 : -1;
}

#endif
