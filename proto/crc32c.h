/* SPDX-License-Identifier: MIT */
/* CRC32c (Castagnoli) as iSCSI and MPA use it, by the fastest way this CPU has. */
#ifndef IW_PROTO_CRC32C_H
#define IW_PROTO_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * CRC of n octets at p. Start and final inversion are inside: give 0 for the first piece and the result so far for each
 * further piece; the value after any piece is the finished CRC of everything so far. iw_crc32c(0, "123456789", 9) is 0xe3069283.
 * On the wire it goes least significant octet first (MPA-4.4-05): store it with iw_crc32c_put().
 */
uint32_t iw_crc32c(uint32_t crc, const void *p, size_t n);
/* The same while copying n octets from src to dst in one pass (no overlap): the CRC is of what was written to dst. */
uint32_t iw_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t n);

static inline void iw_crc32c_put(uint8_t out[4], uint32_t crc)
{
	out[0] = (uint8_t)crc;
	out[1] = (uint8_t)(crc >> 8);
	out[2] = (uint8_t)(crc >> 16);
	out[3] = (uint8_t)(crc >> 24);
}

static inline uint32_t iw_crc32c_get(const uint8_t in[4])
{
	return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/* Every implementation in this build, best first, for the test that compares them. */
struct iw_crc32c_impl {
	const char *name;
	bool (*usable)(void);
	uint32_t (*crc)(uint32_t crc, const void *p, size_t n);
	uint32_t (*copy)(uint32_t crc, void *dst, const void *src, size_t n);
};
extern const struct iw_crc32c_impl iw_crc32c_impls[];
extern const unsigned int iw_crc32c_nimpls;

#endif
