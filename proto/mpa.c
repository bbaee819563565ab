// SPDX-License-Identifier: MIT
/* MPA startup frames encoded and decoded, and the sizes of FPDUs. */
#include "mpa.h"

#include <errno.h>
#include <string.h>

#include "wire.h"

static const uint8_t key_req[16] = "MPA ID Req Frame";
static const uint8_t key_rep[16] = "MPA ID Rep Frame";

static unsigned int frame_extra(const struct iw_mpa_frame *f)
{
	return f->enhanced ? IW_MPA_CDATA : 0;
}

int iw_mpa_encode(const struct iw_mpa_frame *f, uint8_t *out)
{
	unsigned int extra = frame_extra(f), pd_len = f->pd_len + extra;

	if (f->rev < 1 || f->rev > 2 || (f->enhanced && f->rev < 2) || pd_len > IW_MPA_PD_MAX)
		return -EINVAL;
	if (f->enhanced && (f->ird > IW_MPA_NONEG || f->ord > IW_MPA_NONEG))
		return -EINVAL;
	memcpy(out, f->reply ? key_rep : key_req, 16);
	out[16] = (f->markers ? IW_MPA_M : 0) | (f->crc ? IW_MPA_C : 0) | (f->reply && f->reject ? IW_MPA_R : 0) |
		  (f->enhanced ? IW_MPA_S : 0);
	out[17] = f->rev;
	iw_put16(out + 18, (uint16_t)pd_len);
	if (f->enhanced) {
		/* EMPA: without A the other three are sent as 0 */
		uint16_t w1 = f->ird, w2 = f->ord;

		if (f->p2p) {
			w1 |= IW_MPA_A | (f->rtr_send ? IW_MPA_B : 0);
			w2 |= (f->rtr_write ? IW_MPA_RTR_C : 0) | (f->rtr_read ? IW_MPA_D : 0);
		}
		iw_put16(out + 20, w1);
		iw_put16(out + 22, w2);
	}
	memcpy(out + IW_MPA_HDR + extra, f->pd, f->pd_len);
	return (int)(IW_MPA_HDR + pd_len);
}

static void decode_enhanced(struct iw_mpa_frame *f, const uint8_t *in)
{
	uint16_t w1 = iw_get16(in), w2 = iw_get16(in + 2);

	f->ird = w1 & IW_MPA_NONEG;
	f->ord = w2 & IW_MPA_NONEG;
	if (!(w1 & IW_MPA_A))
		return;
	f->p2p = 1;
	f->rtr_send = !!(w1 & IW_MPA_B);
	f->rtr_write = !!(w2 & IW_MPA_RTR_C);
	f->rtr_read = !!(w2 & IW_MPA_D);
}

int iw_mpa_decode(struct iw_mpa_frame *f, const uint8_t *in, size_t len, bool want_reply)
{
	unsigned int pd_len, extra;

	/* a wrong octet is refused as soon as it is there: the frame can never become valid */
	if (memcmp(in, want_reply ? key_rep : key_req, len < 16 ? len : 16))
		return -EPROTO;
	if (len >= 18 && (in[17] < 1 || in[17] > 2))
		return -EPROTO;
	if (len < IW_MPA_HDR)
		return 0;
	memset(f, 0, sizeof(*f));
	f->reply = want_reply;
	f->rev = in[17];
	f->markers = !!(in[16] & IW_MPA_M);
	f->crc = !!(in[16] & IW_MPA_C);
	f->reject = want_reply && (in[16] & IW_MPA_R);	/* MPA-7.1.1-04: not looked at in a Request */
	f->enhanced = f->rev >= 2 && (in[16] & IW_MPA_S);	/* a reserved bit in revision 1 */
	pd_len = iw_get16(in + 18);
	extra = frame_extra(f);
	if (pd_len > IW_MPA_PD_MAX || pd_len < extra)
		return -EPROTO;
	if (len < IW_MPA_HDR + pd_len)
		return 0;
	if (f->enhanced)
		decode_enhanced(f, in + IW_MPA_HDR);
	f->pd_len = (uint16_t)(pd_len - extra);
	memcpy(f->pd, in + IW_MPA_HDR + extra, f->pd_len);
	return (int)(IW_MPA_HDR + pd_len);
}

uint16_t iw_mpa_mulpdu(uint32_t emss, bool markers)
{
	uint32_t over = 6 + emss % 4 + (markers ? 4 * ((emss + IW_MARKER_IV - 1) / IW_MARKER_IV) : 0);
	uint32_t m = emss > over ? emss - over : 0;

	return (uint16_t)(m < IW_MULPDU_MIN ? IW_MULPDU_MIN : m > IW_MULPDU_MAX ? IW_MULPDU_MAX : m);
}

uint32_t iw_mpa_fpdu_len(uint16_t ulpdu)
{
	return IW_MPA_LEN + ulpdu + iw_mpa_pad(ulpdu) + IW_MPA_CRC;
}

/* An FPDU takes the Markers at every multiple of 512 from its first octet to before its last; one behind it is the next FPDU's. */
uint32_t iw_mpa_fpdu_len_markers(uint64_t pos, uint16_t ulpdu)
{
	uint32_t data = iw_mpa_fpdu_len(ulpdu);
	uint32_t in = (uint32_t)(pos % IW_MARKER_IV);	/* octets since the last Marker position, Marker included */
	uint32_t room = in ? IW_MARKER_IV - in : 0;	/* octets before the first Marker of ours */

	if (data <= room)
		return data;
	data -= room;
	return room + data + IW_MARKER_LEN * ((data + IW_MARKER_IV - IW_MARKER_LEN - 1) / (IW_MARKER_IV - IW_MARKER_LEN));
}
