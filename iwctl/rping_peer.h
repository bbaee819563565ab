/* SPDX-License-Identifier: MIT */
/* One connection of iwctl rping: the protocol, and what the options say of it. */
#ifndef IWCTL_RPING_PEER_H
#define IWCTL_RPING_PEER_H

#include <stdbool.h>
#include <stdint.h>

#define RPING_PORT	7174u
#define RPING_SIZE	64u		/* default, as rping's */
#define RPING_SIZE_MIN	23u		/* "rdma-ping-2147483647: " and the NUL, as rping's */
#define RPING_SIZE_MAX	(1u << 20)	/* rdma-core's rping: 65535 */

struct rping_opts {
	bool server, verbose, validate, persistent;
	bool crc, p2p, markers;
	unsigned int rev;		/* of the MPA Request */
	const char *address;
	uint16_t port;
	uint32_t count;			/* pings; 0: until the other side closes */
	uint32_t size;
	unsigned int timeout;		/* s; how long the client waits for the connection, and for each answer */
};

struct rping_result {
	bool ok;
	uint64_t pings, octets;
	uint64_t us;			/* from the first message to the end of the last ping */
	bool up;			/* the startup came to its end: */
	bool crc, p2p;			/* as negotiated */
};

struct rping_peer;
/*
 * Starts MPA on a connected TCP socket, as Initiator when o says client; takes fd over. done() comes once, after which the peer
 * is gone. Failures are printed. 0 or -errno (fd is closed then too).
 */
int rping_peer_start(int fd, const struct rping_opts *o, void (*done)(const struct rping_result *res));

/* The user wants to end: no more pings, then done() as ever. */
void rping_stop(void);

/* The text of ping n: rping's header and its alphabet, which begins one letter further each time; ends with a NUL. */
void rping_pattern(uint8_t *p, uint32_t size, uint32_t n);

#endif
