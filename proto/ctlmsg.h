/* SPDX-License-Identifier: MIT */
/*
 * Messages between the library and the daemon of one host, over AF_UNIX SOCK_SEQPACKET at RUNDIR/ctl.sock.
 * One message per packet, host byte order (both ends are the same machine), fixed size per type. A request with a
 * reply carries a seq that the reply repeats; several may be outstanding.
 *
 * STREAM with fds is followed by an ACK with the same seq, its id the stream: by then the daemon has closed its copies of them, so that a
 * close by the application is the last one. The reply is complete with it. Of the socket that comes with TCP the daemon keeps its copy until
 * SWITCHED, of that which comes with MAPPED for good. Who has taken what was offered stands in the page (enum iw_hand), should SWITCHED or ABANDON not arrive.
 *
 * The daemon trusts no field: sizes, enums and fds are checked by iw_ctl_check(); a bad message closes that client only.
 */
#ifndef IW_PROTO_CTLMSG_H
#define IW_PROTO_CTLMSG_H

#include <stdint.h>

#include "page.h"

#define IW_CTL_MAGIC	0x49574331u	/* "IWC1" */
#define IW_CTL_VERSION	6
#define IW_CTL_MAX	512u		/* octets of the longest message */
#define IW_CTL_SOCK	"ctl.sock"

enum iw_ctl_type {
	/* library to daemon; (fds passed with it) -> reply (fds) */
	IW_CTL_HELLO = 1,	/* first message -> HELLO_ACK (process page memfd, peers page memfd) */
	IW_CTL_PROPOSE,		/* a candidate has shown that it is worth it. Proves nothing. GO is said in the process page. No reply */
	IW_CTL_PLAIN,		/* a connection stays plain TCP, or a proposed one cannot be switched (now), with the reason. No reply */
	IW_CTL_CLOSED,		/* the process closed its last fd of conn_id. No reply */
	IW_CTL_SWITCH,		/* (TCP socket) of a proposal -> STREAM (carrier, segment), or STREAM with result 1: not now, or plain; reason */
	IW_CTL_SWITCHED,	/* what came with STREAM is the application's fd -> ACK: what was unread in the TCP socket lies in it; what came
				 * with TCP is -> ACK: it is the only one; the map that came with MAPPED is used. No reply without seq */
	IW_CTL_ABANDON,		/* what was offered will not be used: the application keeps what it has. No reply */
	IW_CTL_BACK,		/* a relayed stream that is dry -> TCP (TCP socket), or TCP with result 1: not now. Its connection is proposed
				 * as before, by the same conn_id and slot; GO comes again when it is time */
	IW_CTL_MAP,		/* a stream over RDMAP that is dry -> MAPPED (TCP socket, map), or MAPPED with result 1: not now */
	IW_CTL_UNMAP,		/* the library has stopped, and its copy of the socket is closed -> ACK: the daemon works the stream again */
	IW_CTL_OPEN,		/* (carrier) a carrier without known stream -> STREAM (segment) */
	IW_CTL_GETSOCKOPT,	/* -> OPT; by then iw_page_end.tx_acked is as of now */
	IW_CTL_SETSOCKOPT,	/* -> OPT */
	IW_CTL_SYNC,		/* -> ACK: everything said before on this connection has been done */
	IW_CTL_REST,		/* (carrier) of a LOCAL pair, with octets unread in its ring -> STREAM (another carrier, segment), in which these come
				 * first: everything is relayed from then on; or STREAM with result 1 */
	IW_CTL_DIRECT,		/* (carrier) that REST gave, with nothing unread -> STREAM (the one that it was given for, segment), in which all that comes
				 * from now on is; or STREAM with result 1: something is on its way. It is taken by iw_page_end.relay, then SWITCHED */
	IW_CTL_BELL,		/* octets lie gathered in a map: the daemon shall look at it at times. No reply */
	/* daemon to library */
	IW_CTL_HELLO_ACK = 64,
	IW_CTL_ACK,
	IW_CTL_STREAM,
	IW_CTL_OPT,
	IW_CTL_TCP,
	IW_CTL_MAPPED,
};

/* What a connection between two hosts is carried better by: docs/upgrade.md 6. */
enum iw_gain {
	IW_GAIN_YES,
	IW_GAIN_PACED,		/* by losing TCP's pacing, and by nothing else: so many at a time can */
	IW_GAIN_NONE,		/* TCP is as fast */
};

struct iw_ctl_hdr {
	uint32_t magic;
	uint16_t version;
	uint16_t type;		/* enum iw_ctl_type */
	uint32_t len;		/* octets of the whole message */
	uint32_t seq;
};

struct iw_ctl_hello {
	struct iw_ctl_hdr h;
	char program[64];	/* comm or basename of argv[0], NUL-terminated; for display only. pid and uid come from SO_PEERCRED */
};

struct iw_ctl_hello_ack {
	struct iw_ctl_hdr h;
	int32_t result;		/* 0, or a reason: VERSION, QUOTA, DISABLED: everything of this process is plain */
	uint32_t answer_ms;	/* the longest an answer takes (default 20); a library waits this long + 1 s before it drops the connection */
};

/*
 * conn_id is chosen by the library, unique within its process, never 0; it names the connection until CLOSED. slot: where GO for it is
 * said (iw_proc.go), the library's for as long as the connection is proposed.
 */
struct iw_ctl_propose {
	struct iw_ctl_hdr h;
	uint64_t conn_id;
	uint64_t cookie, netns;	/* SO_COOKIE, SO_NETNS_COOKIE of the socket */
	struct iw_addr local, peer;
	uint64_t octets;	/* so far, both ways together */
	uint32_t calls;		/* so far */
	uint32_t age_ms;	/* since it was connected */
	uint32_t slot;		/* < IW_GO_SLOTS */
	uint32_t flags;		/* IW_CONN_* */
	int32_t fd;		/* the fd number in the application, for display */
	uint32_t gain;		/* enum iw_gain, where its other end is another host's. On one host all gain, and the daemon knows which that is */
};

struct iw_ctl_conn {		/* PLAIN */
	struct iw_ctl_hdr h;
	uint64_t conn_id;
	struct iw_addr local, peer;	/* all zero where conn_id has been proposed */
	uint32_t reason;	/* enum iw_reason */
	uint32_t flags;		/* IW_CONN_* */
	int32_t fd;		/* the fd number in the application, for display */
	uint32_t pad;
};
#define IW_CONN_CLIENT		1u	/* connect side (else accept side) */
#define IW_CONN_FOR_NOW		2u	/* PLAIN: it may be switched later (busy): the proposal stands */

struct iw_ctl_id {		/* CLOSED, SWITCH, SWITCHED, ABANDON, BACK, MAP, UNMAP, BELL */
	struct iw_ctl_hdr h;
	uint64_t id;		/* CLOSED, SWITCH: conn_id; else stream_id */
	uint32_t reason;	/* ABANDON: enum iw_reason */
	int32_t fd;		/* SWITCHED: the fd number in the application, for display */
	uint32_t told;		/* SWITCH: so many of the octets unread the program knows of: it must find them all in the carrier */
	uint32_t pad;
};

struct iw_ctl_fdmsg {		/* OPEN, REST, DIRECT: only the fd matters */
	struct iw_ctl_hdr h;
	uint64_t conn_id;	/* OPEN: conn_id for CLOSED */
	int32_t fd;
	uint32_t pad;
};

struct iw_ctl_ack {
	struct iw_ctl_hdr h;
	int32_t result;		/* 0 or 1 */
	uint32_t reason;	/* enum iw_reason when result != 0 */
	uint64_t id;		/* after STREAM and SWITCHED: the stream */
};

struct iw_ctl_stream {
	struct iw_ctl_hdr h;
	int32_t result;		/* 0: stream, fds follow; 1: plain */
	uint32_t reason;
	uint64_t stream_id;
	uint64_t size;		/* of the segment; plain: what the carrier takes, when more was told of, or 0 */
	uint32_t end;		/* which iw_page.end is this one: 0 or 1 */
	uint32_t flags;		/* IW_PAGE_LOCAL, IW_PAGE_NEAR */
	struct iw_addr local, peer;	/* of this end, as its TCP socket has them */
};

struct iw_ctl_tcp {
	struct iw_ctl_hdr h;
	int32_t result;		/* 0: the socket is here, the stream is over with SWITCHED; 1: not now */
	uint32_t reason;
	uint64_t stream_id;
	int32_t linger_on, linger_s;	/* the application's SO_LINGER; the socket has another one until it is taken */
};

struct iw_ctl_mapped {
	struct iw_ctl_hdr h;
	int32_t result;		/* 0: socket and map (proto/map.h) are here; 1: not now */
	uint32_t reason;
	uint64_t stream_id;
	uint64_t size;		/* of the map */
};

#define IW_CTL_OPTMAX	256u
struct iw_ctl_opt {		/* GETSOCKOPT, SETSOCKOPT and their reply OPT */
	struct iw_ctl_hdr h;
	uint64_t stream_id;
	uint32_t end;
	int32_t level, optname;
	uint32_t optlen;	/* <= IW_CTL_OPTMAX */
	int32_t error;		/* OPT: 0 or errno as getsockopt/setsockopt on the TCP socket gave it */
	uint32_t pad;
	uint8_t val[IW_CTL_OPTMAX];
};
static_assert(sizeof(struct iw_ctl_opt) <= IW_CTL_MAX, "iw_ctl_opt");

/*
 * Check one received message completely: magic, version, type known for this direction, len == size received == size of
 * that type, strings terminated, enums in range, optlen in range, number of fds as the type wants.
 * from_library: 1 when the daemon received it. Returns 0, -EPROTO (bad), -EPROTONOSUPPORT (other version).
 */
int iw_ctl_check(const void *msg, size_t len, unsigned int nfds, int from_library);

/* Fill the header for a message of this type (size from the type); the rest is 0. */
void iw_ctl_init(void *msg, enum iw_ctl_type type, uint32_t seq);
/* Octets of a message of this type; 0 if there is no such type. */
size_t iw_ctl_size(unsigned int type);
const char *iw_ctl_name(unsigned int type);

#endif
