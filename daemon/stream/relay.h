/* SPDX-License-Identifier: MIT */
/* A switched stream: plain octets between carrier and TCP. */
#ifndef IWARPD_STREAM_RELAY_H
#define IWARPD_STREAM_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/engine.h"

#define RELAY_BUF	(128u << 10)
#define RELAY_LAST	64u		/* octets that a CRC is of */

struct stream;

struct relay_dir {
	uint64_t pos;			/* octets since the connection began that TCP was given (up), that came from it (down) */
	uint32_t known;			/* so many of the last ones are in `last`, its end */
	uint8_t last[RELAY_LAST];
	bool eof;			/* its end was read, */
	bool fin;			/* and passed on */
	size_t off, len;		/* in buf: off..len is in hand, still to be sent */
	uint8_t buf[RELAY_BUF];
};

struct stream_relay {
	struct stream *st;
	bool counted;			/* the positions are right */
	bool over;			/* it has ended; what is left of up is somebody else's: */
	void (*left)(struct stream *st);	/* called when the request that was under way has ended, */
	int err;			/* by this error */
	bool discard;			/* nobody reads the carrier any more, yet it is not closed (SHUT_RD) */
	bool full;			/* the carrier was, for what is in hand of down */
	bool lost;			/* TCP is; what came before is still passed on */
	bool resets;			/* the application is gone, and TCP is to be reset behind what that wrote */
	bool halts, left_on;		/* another process is to go on with it; has all of it */
	bool deaf, mute;		/* by who waits for it to come to rest: the carrier, TCP is not read */
	bool looked_at;			/* what is in hand of down is not to be passed on yet (upgrade.c) */
	unsigned int spun;		/* see engine_file_again() */
	void (*rest)(struct stream *st);	/* called, after the batch, when something has moved */
	struct timer deaf_timer;	/* deaf and mute end then */
	struct relay_dir up, down;	/* up: application to network */
};

size_t relay_memory(void);		/* octets of the daemon's that one takes */
int relay_alloc(struct stream *st);	/* 0 or -errno */
void relay_free(struct stream *st);
/* T is ours from now on. What is unread in it is in the carrier on return, as far as that takes it. */
void relay_start(struct stream *st);
void relay_go(struct stream *st);	/* look what can be done in both directions */
void relay_moved(struct stream *st);	/* after each request on it that ended: whoever waits for something looks again */
void relay_rest(struct stream *st);	/* tell who waits for it to come to rest */
void relay_abort(struct stream *st);	/* RST on TCP */
void relay_lost(struct stream *st, int err);	/* TCP is lost: a reset, behind what came before it */

static inline size_t relay_hand(const struct relay_dir *d)
{
	return d->len - d->off;
}

/* Tells the application's page how many octets are acknowledged as of now. */
void relay_acked(struct stream *st);
/* So many more are in the carrier, for the application. */
void relay_given(struct stream *st, size_t n);
/* Positions: n octets were passed on, or came. */
void relay_count(struct relay_dir *d, const uint8_t *octets, size_t n);
/* Of the last octets before pos, at most RELAY_LAST; 0 when not all of them went through here. */
uint32_t relay_crc(const struct relay_dir *d);

/*
 * To rest: as asked, neither the carrier (deaf) nor TCP (mute) is read any more, what is in hand is passed on; `rest` is called until it is NULL.
 * relay_resting(): no request of either direction is under way, and nothing is in hand.
 */
void relay_still(struct stream *st, bool deaf, bool mute, void (*rest)(struct stream *st));
void relay_unmute(struct stream *st);
bool relay_resting(const struct stream *st);
void relay_resume(struct stream *st, unsigned int ms);	/* on again; after ms what is not read stays unread (so that a second attempt finds it so) */

/*
 * Another process goes on with it: nothing more is read or passed on, and what is under way is called back. When relay_halted() it has ended, and what is
 * noted is the whole of it; or relay_resume(). There, with the carrier and T in their places: relay_revive(), 0 or -errno, and then relay_go().
 */
struct relay_kept {
	bool counted, discard;
	struct relay_dir up, down;
};
void relay_halt(struct stream *st);
bool relay_halted(const struct stream *st);
void relay_note(const struct stream *st, struct relay_kept *k);
int relay_revive(struct stream *st, const struct relay_kept *k);

/*
 * It has ended for good, with nothing under way on T. What the application wrote meanwhile comes by relay_left(), into `to`: at most n octets; -EAGAIN:
 * the request on the carrier has not ended (left() is called when it has); 0: that was all; -ECONNRESET: and a reset. *eof: and the application's end.
 */
void relay_end(struct stream *st, void (*left)(struct stream *st));
int relay_left(struct stream *st, void *to, uint32_t n, bool *eof);
size_t relay_left_len(const struct stream *st);

#endif
