// SPDX-License-Identifier: MIT
/* Octets of what is said of a connection beside the application's. */
#include "beside.h"

#include <errno.h>

#include "be.h"

#define DIAL_MAGIC	0x49574244u	/* "IWBD" */
#define MAGIC		0x49574253u	/* "IWBS" */
#define LOST_MAGIC	0x4957424cu	/* "IWBL" */

void iw_beside_dial_encode(const struct iw_beside_dial *d, uint8_t out[IW_BESIDE_DIAL_LEN])
{
	iw_put32(out, DIAL_MAGIC);
	iw_put64(out + 4, d->key);
	iw_put16(out + 12, d->sport);
	iw_put16(out + 14, d->dport);
}

int iw_beside_dial_decode(struct iw_beside_dial *d, const uint8_t *in, size_t len)
{
	if (len < IW_BESIDE_DIAL_LEN || iw_get32(in) != DIAL_MAGIC)
		return -EPROTO;
	*d = (struct iw_beside_dial){ .key = iw_get64(in + 4), .sport = iw_get16(in + 12), .dport = iw_get16(in + 14) };
	return 0;
}

void iw_beside_encode(const struct iw_beside *b, uint8_t out[IW_BESIDE_LEN])
{
	iw_put32(out, MAGIC);
	iw_put64(out + 4, b->key);
	iw_put64(out + 12, b->to);
	iw_put64(out + 20, b->addr);
	iw_put32(out + 28, b->rkey);
}

int iw_beside_decode(struct iw_beside *b, const uint8_t *in, size_t len)
{
	if (len < IW_BESIDE_LEN || iw_get32(in) != MAGIC)
		return -EPROTO;
	*b = (struct iw_beside){ .key = iw_get64(in + 4), .to = iw_get64(in + 12), .addr = iw_get64(in + 20), .rkey = iw_get32(in + 28) };
	return 0;
}

void iw_beside_lost_encode(uint32_t came, uint8_t out[IW_BESIDE_LOST_LEN])
{
	iw_put32(out, LOST_MAGIC);
	iw_put32(out + 4, came);
}

int iw_beside_lost_decode(uint32_t *came, const uint8_t in[IW_BESIDE_LOST_LEN])
{
	if (iw_get32(in) != LOST_MAGIC)
		return -EPROTO;
	*came = iw_get32(in + 4);
	return 0;
}
