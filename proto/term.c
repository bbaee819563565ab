// SPDX-License-Identifier: MIT
/* RDMAP Terminate Messages: the table of errors, encoding, decoding, and their names. */
#include <string.h>

#include "qp_priv.h"

static const struct {
	uint8_t layer, etype, code, quote;
} terrs[IW_TE_MAX] = {
#define X(sym, layer, etype, code, quote) [IW_TE_##sym] = { layer, etype, code, quote },
	IW_TERRS(X)
#undef X
};

static const struct {
	uint8_t layer, etype, code;
	const char *text;
} texts[] = {
	{ 0, 1, 0x00, "RDMAP / remote protection / invalid STag" },
	{ 0, 1, 0x01, "RDMAP / remote protection / base or bounds" },
	{ 0, 1, 0x02, "RDMAP / remote protection / access rights" },
	{ 0, 1, 0x03, "RDMAP / remote protection / STag not associated with the stream" },
	{ 0, 1, 0x04, "RDMAP / remote protection / TO wrap" },
	{ 0, 1, 0x09, "RDMAP / remote protection / STag cannot be invalidated" },
	{ 0, 1, 0xff, "RDMAP / remote protection / unspecified" },
	{ 0, 2, 0x05, "RDMAP / remote operation / invalid RDMAP version" },
	{ 0, 2, 0x06, "RDMAP / remote operation / unexpected opcode" },
	{ 0, 2, 0x07, "RDMAP / remote operation / catastrophic for this stream" },
	{ 0, 2, 0x08, "RDMAP / remote operation / catastrophic, global" },
	{ 0, 2, 0x09, "RDMAP / remote operation / STag cannot be invalidated" },
	{ 0, 2, 0xff, "RDMAP / remote operation / unspecified" },
	{ 1, 0, 0x00, "DDP / local catastrophic" },
	{ 1, 1, 0x00, "DDP / tagged / invalid STag" },
	{ 1, 1, 0x01, "DDP / tagged / base or bounds" },
	{ 1, 1, 0x02, "DDP / tagged / STag not associated with the stream" },
	{ 1, 1, 0x03, "DDP / tagged / TO wrap" },
	{ 1, 1, 0x04, "DDP / tagged / invalid DDP version" },
	{ 1, 2, 0x01, "DDP / untagged / invalid QN" },
	{ 1, 2, 0x02, "DDP / untagged / no buffer" },
	{ 1, 2, 0x03, "DDP / untagged / MSN range" },
	{ 1, 2, 0x04, "DDP / untagged / MO" },
	{ 1, 2, 0x05, "DDP / untagged / message too long" },
	{ 1, 2, 0x06, "DDP / untagged / invalid DDP version" },
	{ 2, 0, 0x01, "LLP / TCP connection closed or lost" },
	{ 2, 0, 0x02, "LLP / CRC mismatch" },
	{ 2, 0, 0x03, "LLP / Marker and ULPDU_Length disagree" },
	{ 2, 0, 0x04, "LLP / invalid MPA Request or Reply" },
	{ 2, 0, 0x05, "LLP / local catastrophic" },
	{ 2, 0, 0x06, "LLP / insufficient IRD" },
	{ 2, 0, 0x07, "LLP / no matching RTR option" },
};

static const char *find_text(uint8_t layer, uint8_t etype, uint8_t code)
{
	if (layer == 0 && etype == 0)
		return "RDMAP / local catastrophic";	/* any code (RDMAP-4.8-07) */
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].layer == layer && texts[i].etype == etype && texts[i].code == code)
			return texts[i].text;
	return NULL;
}

const char *iw_term_text(uint8_t layer, uint8_t etype, uint8_t code)
{
	const char *s = find_text(layer, etype, code);

	return s ? s : "unknown error";
}

enum iw_terr iw_terr_rdmap(enum iw_access_err e)
{
	switch (e) {
	case IW_ACC_OK:
		return IW_TE_OK;
	case IW_ACC_BOUNDS:
		return IW_TE_RP_BOUNDS;
	case IW_ACC_RIGHTS:
		return IW_TE_RP_RIGHTS;
	case IW_ACC_SCOPE:
		return IW_TE_RP_SCOPE;
	case IW_ACC_WRAP:
		return IW_TE_RP_WRAP;
	case IW_ACC_STAG:
		break;
	}
	return IW_TE_RP_STAG;
}

enum iw_terr iw_terr_ddp(enum iw_access_err e)
{
	switch (e) {
	case IW_ACC_OK:
		return IW_TE_OK;
	case IW_ACC_BOUNDS:
		return IW_TE_T_BOUNDS;
	case IW_ACC_SCOPE:
		return IW_TE_T_SCOPE;
	case IW_ACC_WRAP:
		return IW_TE_T_WRAP;
	case IW_ACC_RIGHTS:	/* DDP has no code for rights */
	case IW_ACC_STAG:
		break;
	}
	return IW_TE_T_STAG;
}

static uint8_t ddp_hdr_len(uint8_t ctl)
{
	return ctl & IW_DDP_T ? IW_DDP_TAGGED : IW_DDP_UNTAGGED;
}

void iw_term_set(struct iw_term *t, enum iw_terr e, const struct iw_quoted *q)
{
	memset(t, 0, sizeof(*t));
	t->layer = terrs[e].layer;
	t->etype = terrs[e].etype;
	t->code = terrs[e].code;
	if (!q || !q->ddp || terrs[e].quote == IW_Q_NONE)
		return;
	t->has_len = t->has_ddp = 1;
	t->seg_len = q->ulpdu;
	t->ddp_len = ddp_hdr_len(q->ddp[0]);
	memcpy(t->ddp, q->ddp, t->ddp_len);
	if (terrs[e].quote == IW_Q_RDMAP && q->read_req) {
		t->has_rdmap = 1;
		memcpy(t->rdmap, q->read_req, sizeof(t->rdmap));
	}
}

size_t iw_term_encode(const struct iw_term *t, uint8_t *out)
{
	size_t n = IW_TERM_CTL;

	out[0] = (uint8_t)(t->layer << 4 | t->etype);
	out[1] = t->code;
	out[2] = (t->has_len ? IW_TERM_M : 0) | (t->has_ddp ? IW_TERM_D : 0) | (t->has_rdmap ? IW_TERM_R : 0);
	out[3] = 0;
	if (t->has_len) {
		iw_put16(out + n, t->seg_len);
		n += 2;
	}
	if (t->has_ddp) {
		memcpy(out + n, t->ddp, t->ddp_len);
		n += t->ddp_len;
	}
	if (t->has_rdmap) {
		memcpy(out + n, t->rdmap, sizeof(t->rdmap));
		n += sizeof(t->rdmap);
	}
	return n;
}

/*
 * Linux siw swaps the nibbles of octet 0 and puts M, D, R into the low bits of octet 2, where the specification has reserved
 * bits that must be ignored. Taken as swapped: low bits only and something quoted, or a code that exists swapped only.
 */
static bool is_swapped(const uint8_t *in, size_t len)
{
	uint8_t hi = in[0] >> 4, lo = in[0] & 15;

	if (in[2] & (IW_TERM_M | IW_TERM_D | IW_TERM_R))
		return false;
	if (in[2] & 7 && len > IW_TERM_CTL)
		return true;
	return !find_text(hi, lo, in[1]) && find_text(lo, hi, in[1]);
}

void iw_term_decode(struct iw_term *t, const uint8_t *in, size_t len)
{
	uint8_t flags;
	size_t n = IW_TERM_CTL;

	memset(t, 0, sizeof(*t));
	if (len < IW_TERM_CTL) {
		t->cut = 1;
		return;		/* nothing known: a local catastrophic error of the peer is the nearest */
	}
	t->siw_swapped = is_swapped(in, len);
	t->layer = t->siw_swapped ? in[0] & 15 : in[0] >> 4;
	t->etype = t->siw_swapped ? in[0] >> 4 : in[0] & 15;
	t->code = in[1];
	flags = t->siw_swapped ? (in[2] & 1 ? IW_TERM_M : 0) | (in[2] & 2 ? IW_TERM_D : 0) | (in[2] & 4 ? IW_TERM_R : 0) : in[2];
	t->cut = 1;
	if (flags & (IW_TERM_M | IW_TERM_D)) {
		if (len < n + 2)
			return;
		t->has_len = 1;
		t->seg_len = iw_get16(in + n);
		n += 2;
	}
	if (flags & IW_TERM_D) {
		if (len < n + 1 || len < n + ddp_hdr_len(in[n]))
			return;
		t->has_ddp = 1;
		t->ddp_len = ddp_hdr_len(in[n]);
		memcpy(t->ddp, in + n, t->ddp_len);
		n += t->ddp_len;
	}
	if (flags & IW_TERM_R) {
		if (len < n + sizeof(t->rdmap))
			return;
		t->has_rdmap = 1;
		memcpy(t->rdmap, in + n, sizeof(t->rdmap));
	}
	t->cut = 0;
}
