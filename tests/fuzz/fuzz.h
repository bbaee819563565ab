/* SPDX-License-Identifier: MIT */
/* What the fuzz targets share: assertions that stay in every build, input taken octet by octet, FPDUs made by hand. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(x) do { if (!(x)) { fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #x, strerror(errno)); abort(); } } while (0)

struct input {
	const uint8_t *p;
	size_t n;
};

static inline uint8_t in8(struct input *in)
{
	if (!in->n)
		return 0;
	in->n--;
	return *in->p++;
}

static inline uint32_t in16(struct input *in)
{
	uint32_t v = (uint32_t)in8(in) << 8;

	return v | in8(in);
}

static inline uint64_t in48(struct input *in)
{
	uint64_t v = 0;

	for (int i = 0; i < 3; i++)
		v = v << 16 | in16(in);
	return v;
}

/* Up to n octets of the input; the rest of out is zero. Returns n. */
static inline size_t in_octets(struct input *in, void *out, size_t n)
{
	size_t k = n < in->n ? n : in->n;

	memset(out, 0, n);
	memcpy(out, in->p, k);
	in->p += k;
	in->n -= k;
	return n;
}

/* ULPDU_Length, room for the ULPDU at out + 2, PAD, and a CRC field of 0. Returns octets. */
static inline size_t fpdu_close(uint8_t *out, size_t ulpdu)
{
	size_t n = 2 + ulpdu;

	out[0] = (uint8_t)(ulpdu >> 8);
	out[1] = (uint8_t)ulpdu;
	while (n & 3)
		out[n++] = 0;
	memset(out + n, 0, 4);
	return n + 4;
}

#endif
