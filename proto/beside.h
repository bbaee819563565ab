/* SPDX-License-Identifier: MIT */
/*
 * A connection of the daemons' own beside that of the application: what is said of it where it is made, as private data, and what follows the ring
 * stream's private data in Request and Reply on the application's connection, by which both ends agree that its octets go there (docs/rnic.md).
 */
#ifndef IW_PROTO_BESIDE_H
#define IW_PROTO_BESIDE_H

#include <stddef.h>
#include <stdint.h>

#define IW_BESIDE_DIAL_LEN	16u	/* no more than 56: what RoCE takes */
#define IW_BESIDE_LEN		32u

struct iw_beside_dial {		/* which connection it is beside; the addresses are those of its own */
	uint64_t key;		/* random: who has it is known by it on the application's connection */
	uint16_t sport, dport;	/* of the application's, as who dials sees it */
};
void iw_beside_dial_encode(const struct iw_beside_dial *d, uint8_t out[IW_BESIDE_DIAL_LEN]);
int iw_beside_dial_decode(struct iw_beside_dial *d, const uint8_t *in, size_t len);	/* 0 or -EPROTO; what follows is ignored */

struct iw_beside {		/* in Request: it may be used; in Reply: it is */
	uint64_t key;
	uint64_t to;		/* the receive ring, as the private data before names it, */
	uint64_t addr;		/* and as the device does */
	uint32_t rkey;
};
void iw_beside_encode(const struct iw_beside *b, uint8_t out[IW_BESIDE_LEN]);
int iw_beside_decode(struct iw_beside *b, const uint8_t *in, size_t len);	/* 0 or -EPROTO: nothing of that kind */

/*
 * That connection is lost, and nothing comes by it any more: so many Sends have come by it, modulo 2^32. Immediate Data on the application's
 * connection, where those that have not come follow, and everything after them.
 */
#define IW_BESIDE_LOST_LEN	8u
void iw_beside_lost_encode(uint32_t came, uint8_t out[IW_BESIDE_LOST_LEN]);
int iw_beside_lost_decode(uint32_t *came, const uint8_t in[IW_BESIDE_LOST_LEN]);	/* 0 or -EPROTO */

#endif
