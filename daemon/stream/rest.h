/* SPDX-License-Identifier: MIT */
/*
 * A joined pair of which one end goes to a program that cannot be given what is unread in its ring: that end gets another carrier, and we pass on
 * everything from here on, first what was left (docs/rings.md, 5). When that end is one program's again it may have the carrier itself back.
 */
#ifndef IWARPD_STREAM_REST_H
#define IWARPD_STREAM_REST_H

#include <stdbool.h>
#include <stdint.h>

struct stream;
struct rest;

/* carrier: that of end e, and the caller's no more, whatever comes of it. *s: the new one in its place, the caller's. -errno. */
int rest_begin(struct stream *st, unsigned int e, int carrier, uint32_t uid, int *s);
/*
 * Stops, if nothing is on its way in either direction. Then done() is told a duplicate of the carrier, which is its own, and nothing is passed on until
 * rest_settle(); else -EAGAIN, -ENOTCONN, and all goes on. Not from inside, which returns 0, or -errno without done().
 */
int rest_direct(struct rest *r, void (*done)(void *arg, int carrier), void *arg);
/* Was the carrier taken, as the page says? true: r is gone, and c->fd is the caller's. Else all goes on, and done() will not be called any more. */
struct rest_carrier {
	int fd;
	uint32_t uid;		/* who passed it */
	int watched;		/* what it had when it was given up: its number in the set of local.c, which has it still, */
	uint64_t cookie;	/* and what it was found by */
};
bool rest_settle(struct rest *r, struct rest_carrier *c);
bool rest_stopped(const struct rest *r);	/* the carrier is offered */
bool rest_taken(const struct rest *r, uint64_t cookie);	/* it was the one with that cookie, and was taken: to be settled */

#endif
