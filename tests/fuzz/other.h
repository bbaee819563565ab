/* SPDX-License-Identifier: MIT */
/* The other daemon, as the fuzzer plays it: octets, FPDUs and messages on its socket, whichever of the two has dialled. */
#ifndef TESTS_FUZZ_OTHER_H
#define TESTS_FUZZ_OTHER_H

#include "../../proto/crc32c.h"
#include "../../proto/wire.h"
#include "daemon.h"

#define GENERATION 42u

static struct {
	int s;
	uint32_t msn;
	unsigned int posted;	/* messages said */
} other;

static inline void other_new(int s)
{
	other.s = s;
	other.msn = 1;
	other.posted = 0;
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
