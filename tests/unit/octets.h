/* SPDX-License-Identifier: MIT */
/* Octets that a test sends: those of a seed, told apart by their position, made and compared eight at a time. */
#ifndef TESTS_OCTETS_H
#define TESTS_OCTETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t octets_eight(uint64_t seed, uint64_t i)
{
	uint64_t x = (i + (seed << 20)) * 0x9e3779b97f4a7c15ull;

	return (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
}

/* The next of n octets from pos on, up to a multiple of eight: how many, and in eight[] what they are. */
static inline size_t octets_next(uint64_t seed, uint64_t pos, size_t n, uint8_t eight[8])
{
	uint64_t x = octets_eight(seed, pos / 8) >> 8 * (pos % 8);
	size_t k = 8 - pos % 8;

	memcpy(eight, &x, 8);
	return k < n ? k : n;
}

static inline void octets_fill(uint8_t *p, size_t n, uint64_t seed, uint64_t pos)
{
	uint8_t eight[8];

	for (size_t k; n; p += k, pos += k, n -= k) {
		k = octets_next(seed, pos, n, eight);
		if (k == 8)
			memcpy(p, eight, 8);
		else
			memcpy(p, eight, k);
	}
}

static inline bool octets_are(const uint8_t *p, size_t n, uint64_t seed, uint64_t pos)
{
	uint8_t eight[8];

	for (size_t k; n; p += k, pos += k, n -= k) {
		k = octets_next(seed, pos, n, eight);
		if (k == 8 ? memcmp(p, eight, 8) : memcmp(p, eight, k))
			return false;
	}
	return true;
}

#endif
