/* SPDX-License-Identifier: MIT */
/* Between the measurements (rdma.c) and what carries them: the soft RNIC, a verbs device, plain TCP. */
#ifndef BENCH_RDMA_H
#define BENCH_RDMA_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum what { WRITE_BW, READ_BW, SEND_LAT, WRITE_LAT };

struct ask {		/* of the client, in the private data of its Request; both ends are programs of one machine */
	uint32_t what, size;
	uint16_t depth;		/* messages outstanding, bandwidth */
	uint8_t crc, large;
};
#define DEPTH_MAX	32u	/* as many Reads as an endpoint answers at once */
#define SIZE_MAX_	(64u << 20)
#define SMALL		64u	/* receive buffers are this long at least */

struct there {		/* in the private data of the Reply: where Writes go to and Reads come from */
	uint64_t to;
	uint32_t stag;
};

enum rdma_op { OP_WRITE, OP_READ, OP_SEND };

/* A provider serves one connection, or makes one; both return once bench_over() was true and it is closed. */
struct provider {
	const char *name, *text;
	int (*listen)(struct sockaddr_in *a);	/* the port goes into a; 0 or -errno, as everywhere */
	int (*serve)(void);
	int (*client)(const struct sockaddr_in *a, const struct ask *ask);
	/* Of len octets, from or to the start of the local buffer and, but for Sends, of the region of the peer. */
	int (*post)(enum rdma_op op, uint32_t len);
};
extern const struct provider soft_provider, verbs_provider, tcp_provider;

/* What a provider tells: in this order, from inside listen, serve and client. */
void bench_asked(const struct ask *ask);	/* server: post no more than bench_ready() wants before */
void bench_established(void);
void bench_done(enum rdma_op op);			/* a work request completed */
void bench_received(void);			/* a Send */
bool bench_over(void);

/* Plain TCP has no work requests and does without the above. */
#define BENCH_WARM	0.15	/* of the time, before it counts */
extern double bench_seconds;	/* that count */
double bench_now(void);
void bench_result(const struct ask *ask, double seconds, uint64_t messages);
void bench_warmed(uint64_t messages);
int bench_listen(struct sockaddr_in *a);	/* a TCP socket */

#endif
