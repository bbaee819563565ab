/* SPDX-License-Identifier: MIT */
/*
 * Memory that daemon and application share: the segment of a stream, the page of a process and the page of peers.
 * Layout only; every field written by the other side is a hint that must be checked before use.
 */
#ifndef IW_PROTO_PAGE_H
#define IW_PROTO_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "addr.h"

/* ---- the segment of a stream: one sealed memfd, mapped by the daemon and by each process that uses the stream ----
 *
 *	0	struct iw_page
 *	512	struct iw_ring_dir x 2 (ring.h), that of end 0 first: a joined pair
 *	4096	tx ring, then rx ring; of a joined pair the rings of IW_PAGE_RING octets that ends 0 and 1 send by
 */
#define IW_PAGE_MAGIC	0x49575047u	/* "IWPG" */
#define IW_PAGE_VERSION	3
#define IW_SHORT_US	100u	/* a path on which BBR is no use, by its shortest round trip (docs/upgrade.md, 6) */
#define IW_PAGE_SIZE	4096u		/* of what comes before the rings */
#define IW_PAGE_DIRS	512u		/* offset of the words of rings on one host */
#define IW_PAGE_RINGS	IW_PAGE_SIZE	/* offset of the first ring */
#define IW_PAGE_RING	65536u

/* iw_ctl_stream.flags */
#define IW_PAGE_LOCAL	0x0001		/* both ends are processes of this host: the carrier joins them directly */
#define IW_PAGE_NEAR	0x0002		/* LOCAL, or may become so (iw_page_end.hand); before that the page is the daemon's and ours alone */

/* Bits of iw_page_end.shut. On LOCAL streams the other end's library reads them. */
#define IW_SHUT_RD	1u
#define IW_SHUT_WR	2u
#define IW_SHUT_CLOSED	4u	/* the last descriptor of this end is gone */
#define IW_SHUT_RST	8u	/* LOCAL: wrote after the peer's close: TCP would have got a RST in CLOSE_WAIT */
#define IW_SHUT_OOB	16u	/* LOCAL: MSG_OOB was used: POLLPRI, SIOCATMARK and SIGURG are the carrier's */

/* iw_page.want: bits */
#define IW_WANT_BACK	1u		/* relayed, and nothing better will come: ask for the TCP socket (BACK) when the carrier is dry */

#define IW_WANT_MAP	2u	/* over RDMAP, and pumped: ask for the map (MAP) when the carrier is dry */
#define IW_WANT_UNMAP	4u	/* mapped, and the daemon asks to have it back (UNMAP) */

/* How the stream of bytes towards this end stands; written by the daemon (by the other end's library when LOCAL). */
enum iw_close_state {
	IW_CLOSE_OPEN = 0,	/* EOF on the carrier of a remote stream is then ECONNRESET */
	IW_CLOSE_FIN = 1,	/* the peer sent FIN: EOF on the carrier is a real end of stream */
	IW_CLOSE_RESET = 2,	/* reset with close_errno */
};

/*
 * What the daemon has offered the library of an end: a carrier in the place of its TCP socket, or that socket back, or the map of a stream over
 * RDMAP. The library takes it at the moment of the exchange, the daemon takes it back when the library is gone or will not: each by a compare-and-swap, so that both know
 * whose it is, whatever becomes of their messages.
 */
enum iw_hand {
	IW_HAND_OFFERED = 0,
	IW_HAND_TAKEN = 1,	/* of end[1]: the pair is LOCAL from here on */
	IW_HAND_VOID = 2,
};

/*
 * Whether the daemon passes on what an end of a LOCAL pair sends and receives (docs/rings.md, 5). The library asks for the carrier itself, the daemon offers
 * it, the library takes it or the daemon takes it back: each by a compare-and-swap.
 */
enum iw_relay {
	IW_RELAY_NONE = 0,
	IW_RELAY_ON = 1,
	IW_RELAY_ASKED = 2,
	IW_RELAY_OFFERED = 3,
};

/* One end of the stream, as its application sees it. Remote streams use end[0] only; LOCAL ones have the
 * connecting side in end[0] and the accepting side in end[1]. */
#define IW_SOPT_LINGER0	1u		/* SO_LINGER {1, 0} is set: close is a reset */
struct iw_page_end {
	uint8_t names[48];		/* not used: names come by messages, the other end of a LOCAL stream can write here */
	_Atomic uint32_t close_state;	/* enum iw_close_state */
	_Atomic uint32_t close_errno;	/* with RESET: ECONNRESET, ETIMEDOUT, ... */
	_Atomic uint32_t err_taken;	/* library: 1 when the error was reported once (sk_err semantics) */
	_Atomic uint32_t shut;		/* library: IW_SHUT_* */
	_Atomic uint64_t tx_taken;	/* octets the daemon took from the carrier */
	_Atomic uint64_t tx_acked;	/* of those, octets that the peer had acknowledged when it was written (SIOCOUTQ); modulo 2^64: what was in
					 * the TCP socket at the switch counts, too */
	_Atomic uint64_t rx_given;	/* octets put into the carrier towards the application */
	_Atomic uint32_t opts;		/* library: options it keeps itself, see preload/opts.h; the daemon reads IW_SOPT_LINGER0 */
	_Atomic uint32_t notsent_lowat;	/* library: TCP_NOTSENT_LOWAT */
	_Atomic uint32_t hand;		/* enum iw_hand */
	_Atomic uint32_t ringed;	/* library, for display: this end goes by the rings (of a LOCAL stream) */
	_Atomic uint32_t relay;		/* enum iw_relay, of a LOCAL stream */
	_Atomic uint32_t cpu;		/* library: the processor of its last call on the rings (of a LOCAL stream), and 1 */
	uint8_t reserved[16];
};
static_assert(sizeof(struct iw_page_end) == 128, "iw_page_end");

struct iw_page {
	uint32_t magic;
	uint16_t version;
	uint16_t pad;
	uint64_t stream_id;		/* unique while the daemon lives, never 0 */
	uint64_t size;			/* octets of the whole segment */
	uint32_t tx_len, rx_len;	/* ring sizes, powers of two */
	_Atomic uint32_t want;		/* by the daemon: IW_WANT_* */
	uint8_t reserved[92];
	struct iw_page_end end[2];
};
static_assert(offsetof(struct iw_page, end) == 128, "iw_page");
static_assert(sizeof(struct iw_page) <= IW_PAGE_DIRS, "iw_page");

/* The daemon passes on what one end of a LOCAL pair sends and receives: so an end that no close_state tells of is the daemon's own. */
static inline bool iw_page_relayed(const struct iw_page *p)
{
	return atomic_load(&p->end[0].relay) != IW_RELAY_NONE || atomic_load(&p->end[1].relay) != IW_RELAY_NONE;
}

/* ---- the page of a process: between its library and the daemon; each may spoil its own connections only ---- */
#define IW_PROC_MAGIC	0x49575052u	/* "IWPR" */
#define IW_GO_SLOTS	(1u << 18)	/* only what is used takes memory */
struct iw_proc {
	uint32_t magic;
	uint32_t version;
	uint8_t reserved[56];
	/* By the daemon: the low half of a conn_id whose other end has proposed too. The library that finds its own there may switch it. */
	_Atomic uint32_t go[IW_GO_SLOTS];
};

/* ---- the page of peers: written by the daemon, mapped read-only by every library ---- */
#define IW_PEERS_MAGIC	0x49575045u	/* "IWPE" */
#define IW_PEERS_SLOTS	1024u		/* power of two; open addressing, linear probing over at most IW_PEERS_PROBE slots */
#define IW_PEERS_PROBE	16u

enum iw_peer_state {
	IW_PEER_UNKNOWN = 0,	/* not in the table: propose, the daemon finds out */
	IW_PEER_POSITIVE = 1,	/* has an iwarpd: propose */
	IW_PEER_NEGATIVE = 2,	/* has none: not worth a proposal, `reason`, until `expires` */
	IW_PEER_LOCAL = 3,	/* an address of this host: propose */
};

struct iw_peer_slot {
	_Atomic uint32_t seq;		/* odd while being written: read again */
	_Atomic uint32_t state;		/* enum iw_peer_state */
	_Atomic uint32_t reason;	/* enum iw_reason, with NEGATIVE */
	_Atomic uint32_t reserved;
	_Atomic uint64_t expires;	/* CLOCK_MONOTONIC ms; 0 = never */
	_Atomic uint64_t ip[2];		/* the 16 octets of the address as stored in iw_addr.ip, memory order */
	uint8_t pad[24];
};
static_assert(sizeof(struct iw_peer_slot) == 64, "iw_peer_slot");

struct iw_peers {
	uint32_t magic, version;
	uint8_t reserved[8];
	_Atomic uint32_t dead;		/* the daemon says good-bye: everything new is plain */
	uint8_t pad[44];
	struct iw_peer_slot slot[IW_PEERS_SLOTS];
};

#endif
