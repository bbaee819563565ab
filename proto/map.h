/* SPDX-License-Identifier: MIT */
/*
 * The map of a stream between two hosts: a memfd with all of its state but T, mapped into the application while its library works the stream.
 * It is handed over by copying: the agent exports its private state into the map, and imports it again, checked, when it takes over.
 *
 *	struct iw_map; the receive buffer of QN 0, behind the next if it is larger than IW_MAP_RQ; struct iw_remote
 *	and from here on at pages: struct iw_soft, the area Reads go to, receive ring, what is gathered
 *
 * What each small message needs lies on the first page of this and one of struct iw_soft, its octets as framed and as received too.
 * Where each is follows from the ring stream's parameters. There is no transmit ring: a mapped end frames from its caller's memory, or from the
 * last area, where small sends are gathered before: a ring by stream positions, which who never gathers never touches.
 */
#ifndef IW_PROTO_MAP_H
#define IW_PROTO_MAP_H

#include "remote.h"
#include "soft.h"

#define IW_MAP_MAGIC	0x49574d50u	/* "IWMP" */
#define IW_MAP_VERSION	5u
#define IW_MAP_PAGE	4096u
#define IW_MAP_GATHER	(64u << 10)
#define IW_MAP_RQ	576u

/* BURST: the library, in no step, with octets gathered. By compare-and-swap: the library to LIBRARY, or to BURST with more of them; the agent to AGENT. */
enum iw_map_owner { IW_MAP_AGENT = 0, IW_MAP_LIBRARY = 1, IW_MAP_BURST = 2, IW_MAP_OWNER = 3 };
#define IW_MAP_END(word)	((word) >> 2)	/* where the octets gathered end: they begin where what is framed ends, if not behind */

#define IW_MAP_LATE	192u
/* Payload of RDMA Writes and small messages that lies where it was received still, soft.rx[off .. off + len): ring positions pos to end, in this order. By the owner. */
struct iw_map_late {
	uint32_t n, pad;
	uint64_t pos, end;
	struct { uint32_t off, len; } v[IW_MAP_LATE];
};

struct iw_map {
	uint32_t magic;
	uint16_t version, pad;
	uint64_t size;			/* octets of the whole map */
	uint64_t stream_id;
	_Atomic uint64_t owner;		/* enum iw_map_owner: who may work the stream; 4 * IW_MAP_END. iw_map_export() leaves it alone */
	_Atomic uint32_t changing;	/* its owner is in the middle of a change, and of no call on T: torn, if it dies */
	_Atomic uint32_t bell;		/* the agent knows of a burst, and looks at times */
	uint64_t tcp_sent, tcp_read;	/* octets that T took and gave before the FPDUs, as its kernel counts. By the agent */
	uint8_t reserved[72];
	struct iw_map_late late;
};
#define IW_MAP_REMOTE	(((sizeof(struct iw_map) + 63) & ~(size_t)63) + IW_MAP_RQ)	/* where struct iw_remote is */
static_assert(offsetof(struct iw_map, late) == 128 && IW_MAP_REMOTE + offsetof(struct iw_remote, rs.ext[1]) <= IW_MAP_PAGE, "iw_map");

struct iw_map_priv {			/* where the agent has its own */
	struct iw_remote *f;
	struct iw_soft *s;
	uint8_t *rq, *rd, *rx_ring;	/* receive buffers, area of Reads, receive ring: lengths as in f->p */
	uint8_t *tx;			/* transmit ring; of a map what is gathered, IW_MAP_GATHER long */
};

static inline enum iw_map_owner iw_map_owner(struct iw_map *m)
{
	return (enum iw_map_owner)(atomic_load(&m->owner) & IW_MAP_OWNER);
}

/* Octets of the map of a stream with these parameters: whole pages. */
uint64_t iw_map_size(const struct iw_rs_param *p);
/* Where things are in a map: pointers into m, for a stream with these parameters. */
void iw_map_at(struct iw_map *m, const struct iw_rs_param *p, struct iw_map_priv *at);

/*
 * May it be exported now? Only what is running, with everything that was produced framed (the transmit ring empty), nothing offered to the
 * peer's Reads, no Read of the peer unanswered, and none of the two halves ended.
 */
bool iw_map_ready(const struct iw_map_priv *from);
/* Into m, of iw_map_size() octets, zeroed or used for the same stream before. Copies what is in use only. */
void iw_map_export(struct iw_map *m, const struct iw_map_priv *from);
/*
 * Out of m, whose owner may write to it all the while: copies, then checks the copy. `to` is what was exported: what cannot have changed since is
 * compared with it. 0; -EPROTO: unsound, `to` is good only to be reset. Afterwards the agent looks at
 *	to->f->reset_err	the stream was lost: positive errno that the application gets after what can be read
 *	to->f->aborted		the application reset it
 *	to->f->tx_eof		the application's half ended
 *	to->f->ev_abort, ev_done	as the ring stream's events leave them
 * none of which had any consequence yet outside of the state. Nothing was put into C. What was gathered is in the transmit ring, as if read from C.
 */
int iw_map_import(const struct iw_map *m, const struct iw_map_priv *to);
/*
 * Octets that T took and gave by the notes in it, of the FPDUs. Of an owner that lives and is inside no call on T, or of the agent's own, they
 * are what T's kernel has counted.
 */
uint64_t iw_map_sent(const struct iw_map_priv *of);
uint64_t iw_map_read(const struct iw_map_priv *of);
/*
 * The same as iw_map_import() after the death of the owner. sent, read: T's counts now; the call on T in which it died, if any, is brought to its
 * end. -EPROTO: also a torn map, or that the connection was over already.
 */
int iw_map_recover(struct iw_map *m, const struct iw_map_priv *to, uint64_t sent, uint64_t read);

#endif
