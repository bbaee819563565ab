/* SPDX-License-Identifier: MIT */
/* T, the application's TCP socket, while it is a stream's: options that are held otherwise meanwhile, and how far its two directions are. */
#ifndef IWARPD_STREAM_TCP_H
#define IWARPD_STREAM_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct tcp_kept {		/* what the application has set, where T has something else */
	bool alive;		/* T has SO_KEEPALIVE, the application has keepalive */
	int keepalive;
	bool kept, nonblock;
	int nodelay, cork, lowat;
	struct linger linger;
	char congestion[16];	/* TCP_CONGESTION; "" while T has the application's */
	bool unpaced;		/* T is one of those that have reno in its place, or had the promise to be */
};

void tcp_look(int tcp, struct tcp_kept *k);	/* T is still the application's */
/*
 * From here on nothing waits in T, and the kernel of a daemon that dies resets it: a FIN would be a false end. Until tcp_restore(), which
 * leaves T as the application would have it. tcp_offer() does so but for SO_LINGER, and tcp_keep() may follow again.
 */
void tcp_keep(int tcp, struct tcp_kept *k);
void tcp_push(int tcp);		/* what the application's library had TCP gather goes, and nothing is gathered any more */
void tcp_offer(int tcp, const struct tcp_kept *k);
void tcp_restore(int tcp, struct tcp_kept *k);
void tcp_alive(int tcp, struct tcp_kept *k, bool on);	/* T has SO_KEEPALIVE, whatever the application has set */
/*
 * From here on T carries FPDUs: reno in the place of an algorithm that paces (BBR), if the path is shorter than the kernel's timers are exact (100 us, by
 * tcpi_min_rtt) and the application has the system's algorithm, not one of its own choice. TCP_CONGESTION set later is the application's word. As
 * many at a time as TCP_UNPACED, since what of reno is paced all the same costs more with many than BBR does (docs/upgrade.md, 6).
 */
#define TCP_UNPACED	8u
/* promised: it is one of those of tcp_unpace_promise(), which have their places kept: it has one from here on, whether reno could be set or not. */
void tcp_unpace(int tcp, struct tcp_kept *k, bool promised);
bool tcp_unpace_room(void);
void tcp_unpace_promise(bool more);
void tcp_unpaced_before(const struct tcp_kept *k);	/* by a daemon before us */
void tcp_forget(struct tcp_kept *k);	/* T is none of them any more; the answers stay */
/* T's algorithm, and what the application believes it to be. */
void tcp_congestion(int tcp, const struct tcp_kept *k, char now[16], char told[16]);
/* As on the socket of the application's. 0 or -errno. */
int tcp_set(int tcp, struct tcp_kept *k, int level, int name, const void *val, socklen_t len);
int tcp_get(int tcp, const struct tcp_kept *k, int level, int name, void *val, socklen_t *len);
bool tcp_linger0(const struct tcp_kept *k);	/* the application wants a reset when it closes */
/* What a close does: a reset, or in order, without waiting. */
void tcp_on_close(int tcp, bool reset);
void tcp_cut(int tcp);		/* a reset, now, whoever holds it besides */

struct tcp_count {		/* octets since the connection began, as both its ends count them */
	uint64_t sent;		/* written here, */
	uint64_t acked;		/* acknowledged by the other end's kernel */
	uint64_t received;	/* by the kernel, */
	uint32_t unread;	/* and not yet read */
	uint32_t rtt_us;
	uint64_t rate;		/* octets per second that it was seen to deliver, 0 unknown */
};
/* client: it connected. 0; -ENOTCONN: not established, both ways; -EAGAIN: it cannot be told now. With urgent data about it cannot be told either. */
int tcp_count(int tcp, bool client, struct tcp_count *c);
int tcp_unread(int tcp);
int tcp_unacked(int tcp);	/* written, and not acknowledged by the other end's kernel */

#endif
