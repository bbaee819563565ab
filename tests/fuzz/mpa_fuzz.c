// SPDX-License-Identifier: MIT
/* libFuzzer: MPA Request and Reply Frames, and the private data of both kinds of connections, whole and cut at every octet. */
#include "fuzz.h"

#include "proto/mpa.h"
#include "proto/rs.h"
#include "proto/session.h"

/* In an exact allocation: a sanitizer sees any look beyond. */
static int decode(struct iw_mpa_frame *f, const uint8_t *p, size_t n, bool reply)
{
	uint8_t *exact = malloc(n ? n : 1);
	int r;

	memcpy(exact, p, n);
	r = iw_mpa_decode(f, exact, n, reply);
	free(exact);
	must(r <= (int)n);
	return r;
}

static void private_data(const uint8_t *p, size_t n)
{
	uint8_t out[IW_RS_PD_LEN];
	struct iw_sm_pd sm, sm2;
	struct iw_rs_pd rs, rs2;

	iw_sm_reject_decode(p, n);
	if (!iw_sm_pd_decode(&sm, p, n)) {
		iw_sm_pd_encode(&sm, out);
		must(!iw_sm_pd_decode(&sm2, out, IW_SM_PD_LEN) && !memcmp(&sm, &sm2, sizeof(sm)));
	}
	if (!iw_rs_pd_decode(&rs, p, n)) {
		must(rs.ring_len >= 65536 && rs.ring_len <= 64u << 20 && !(rs.ring_len & (rs.ring_len - 1)));
		must(rs.ring_to <= UINT64_MAX - (rs.ring_len - 1) && rs.bufs >= 8 && rs.buf_size >= 64);
		iw_rs_pd_encode(&rs, out);
		must(!iw_rs_pd_decode(&rs2, out, IW_RS_PD_LEN) && rs2.ring_to == rs.ring_to && rs2.caps == rs.caps);
	}
}

static void accepted(const struct iw_mpa_frame *f, int used, const uint8_t *p, bool reply)
{
	uint8_t out[IW_MPA_FRAME_MAX];
	struct iw_mpa_frame again;
	int n;

	must(f->reply == reply && f->pd_len <= IW_MPA_PD_MAX && used >= 20 && used <= 532);
	must(f->rev == 1 || f->rev == 2);
	n = iw_mpa_encode(f, out);
	must(n == used && decode(&again, out, (size_t)n, reply) == n);
	must(again.crc == f->crc && again.markers == f->markers && again.reject == f->reject && again.enhanced == f->enhanced);
	must(again.ird == f->ird && again.ord == f->ord && again.p2p == f->p2p && again.pd_len == f->pd_len);
	must(!memcmp(again.pd, f->pd, f->pd_len));
	for (int k = 0; k < used; k++)
		must(decode(&again, p, (size_t)k, reply) == 0);	/* not accepted, nor refused, before it is whole */
	private_data(f->pd, f->pd_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct iw_mpa_frame f;
	bool reply;
	int r;

	if (!size || size > 1200)
		return 0;
	reply = data[0] & 1;
	r = decode(&f, data + 1, size - 1, reply);
	if (r > 0) {
		accepted(&f, r, data + 1, reply);
	} else {
		for (size_t k = 0; k < size - 1; k += 1 + k / 64)
			must(decode(&f, data + 1, k, reply) <= 0);
	}
	private_data(data + 1, size - 1);
	return 0;
}
