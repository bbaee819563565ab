/* SPDX-License-Identifier: MIT */
/* The other daemon, as the fuzzer plays it: octets, FPDUs and messages on its socket, whichever of the two has dialled. */
#ifndef TESTS_FUZZ_OTHER_H
#define TESTS_FUZZ_OTHER_H

#include "proto/crc32c.h"
#include "proto/mpa.h"
#include "proto/wire.h"
#include "daemon.h"

#define GENERATION 42u

static struct {
	int s;
	uint32_t msn;
	unsigned int posted;	/* messages said */
	uint8_t in[1 << 16];
	size_t nin;
} other;

static inline void other_new(int s)
{
	other.s = s;
	other.msn = 1;
	other.posted = other.nin = 0;
}

static inline void say(const void *p, size_t n)
{
	if (other.s >= 0)
		send(other.s, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static inline void fpdu(uint8_t *f, size_t ulpdu)
{
	size_t n = fpdu_close(f, ulpdu);

	iw_crc32c_put(f + n - 4, iw_crc32c(0, f, n - 4));
	say(f, n);
}

static inline void post(const uint8_t *payload, size_t n)
{
	uint8_t f[700] = { [2] = 0x41, [3] = 0x40 | IW_OP_SEND };

	iw_put32(f + 12, other.msn++);
	memcpy(f + 20, payload, n);
	fpdu(f, 18 + n);
}

static inline void post_msg(const struct iw_sm *m)
{
	uint8_t out[IW_SM_MAX];
	int n = iw_sm_encode(m, out);

	if (n < 0)
		return;
	other.posted++;
	post(out, (size_t)n);
}

static inline void any_send(struct input *in)
{
	uint8_t p[400];
	size_t n = in16(in) % sizeof(p);

	in_octets(in, p, n);
	other.posted++;
	post(p, n);
}

static inline void any_fpdu(struct input *in)
{
	uint8_t f[600] = { 0 };
	size_t n = in16(in) % 500;

	in_octets(in, f + 2, n);
	other.posted++;
	fpdu(f, n);
}

/* An FPDU that is whole in p[0..n), its CRC checked: octets on the wire, else 0. */
static inline size_t fpdu_whole(const uint8_t *p, size_t n)
{
	size_t wire = n < 2 ? SIZE_MAX : iw_mpa_fpdu_len(iw_get16(p));

	if (n < wire)
		return 0;
	must(iw_crc32c(0, p, wire - 4) == iw_crc32c_get(p + wire - 4));
	return wire;
}

/* What the daemon said: take() deals with what is whole at the front of p[0..n), octets, else 0. */
static inline void hear_all(size_t (*take)(const uint8_t *p, size_t n))
{
	size_t k;
	ssize_t n;

	while (other.s >= 0 && (n = recv(other.s, other.in + other.nin, sizeof(other.in) - other.nin, MSG_DONTWAIT)) > 0) {
		other.nin += (size_t)n;
		while ((k = take(other.in, other.nin))) {
			memmove(other.in, other.in + k, other.nin - k);
			other.nin -= k;
		}
	}
}

/* The frame of a startup, the private data as they should be or as the input says. */
static inline struct iw_mpa_frame startup(struct input *in, uint8_t how)
{
	struct iw_mpa_frame f = { .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = 1, .ird = 1, .ord = 1, .pd_len = IW_SM_PD_LEN };
	struct iw_sm_pd pd = { .ver_lo = IW_SM_VERSION, .ver_hi = IW_SM_VERSION, .bufs = 128, .buf_size = 256, .generation = GENERATION };

	if (how & 0x80) {
		pd.bufs = (uint16_t)in16(in);
		pd.ver_hi = in8(in);
	}
	iw_sm_pd_encode(&pd, f.pd);
	if (how & 0x40)
		in_octets(in, f.pd, f.pd_len = in8(in) % 64);
	return f;
}

static unsigned int sessions;

static inline void sessions_count(void *arg, const struct peer_info *info)
{
	sessions += info->in || info->out;
}

static inline bool no_sessions(void)
{
	sessions = 0;
	peers_foreach(sessions_count, NULL);
	return !sessions && !client_count();
}

#endif
