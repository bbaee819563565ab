// SPDX-License-Identifier: MIT
/* CRC32c: the golden vectors, and all implementations against a bitwise one on random lengths, alignments and cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "proto/crc32c.h"
#include "vec_util.h"

static uint32_t bitwise(const uint8_t *p, size_t n)
{
	uint32_t c = ~0u;

	for (size_t i = 0; i < n; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
	}
	return ~c;
}

static void vectors(void **state)
{
	unsigned int seen = 0;

	for (unsigned int i = 0; i < nvecs; i++) {
		const struct vec *v = &vecs[i];
		uint8_t wire[4];

		if (strncmp(v->name, "crc.", 4))
			continue;
		for (unsigned int k = 0; k < iw_crc32c_nimpls; k++) {
			if (!iw_crc32c_impls[k].usable())
				continue;
			iw_crc32c_put(wire, iw_crc32c_impls[k].crc(0, v->p, v->n - 4));
			assert_memory_equal(wire, v->p + v->n - 4, 4);
		}
		assert_int_equal(iw_crc32c_get(v->p + v->n - 4), iw_crc32c(0, v->p, v->n - 4));
		seen++;
	}
	assert_int_equal(seen, 6);
	assert_int_equal(iw_crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(iw_crc32c(0, "", 0), 0);
}

/* Lengths around every boundary the implementations have, and far beyond. */
static size_t some_len(void)
{
	static const size_t edge[] = { 0, 8, 64, 250, 320, 768, 1536, 12288, 24576, 65536, 65590, 131126 };

	if (random() % 2)
		return (size_t)random() % 70000;
	return edge[(size_t)random() % (sizeof(edge) / sizeof(edge[0]))] + (size_t)random() % 20;
}

static void one_impl(const struct iw_crc32c_impl *im, const uint8_t *src, uint8_t *dst, size_t n, uint32_t want)
{
	size_t cut = n ? (size_t)random() % (n + 1) : 0, at = 32 + (size_t)random() % 16;

	assert_int_equal(im->crc(0, src, n), want);
	assert_int_equal(im->crc(im->crc(0, src, cut), src + cut, n - cut), want);
	memset(dst, 0xa5, at + n + 32);
	assert_int_equal(im->copy(0, dst + at, src, n), want);
	assert_memory_equal(dst + at, src, n);
	for (size_t i = 0; i < at; i++)
		assert_int_equal(dst[i], 0xa5);
	for (size_t i = at + n; i < at + n + 32; i++)
		assert_int_equal(dst[i], 0xa5);
	assert_int_equal(im->copy(im->crc(0, src, cut), dst + at, src + cut, n - cut), want);
}

static void all_agree(void **state)
{
	uint8_t *buf = malloc(1 << 18), *dst = malloc(1 << 18);
	const char *s = getenv("IW_SEED");
	unsigned int seed = s ? (unsigned int)strtoul(s, NULL, 0) : (unsigned int)time(NULL);

	printf("# IW_SEED=%u\n", seed);
	srandom(seed);
	for (unsigned int i = 0; i < 1 << 18; i++)
		buf[i] = (uint8_t)random();
	for (int round = 0; round < 400; round++) {
		size_t n = some_len(), at = (size_t)random() % 64;
		uint32_t want = bitwise(buf + at, n);

		for (unsigned int k = 0; k < iw_crc32c_nimpls; k++)
			if (iw_crc32c_impls[k].usable())
				one_impl(&iw_crc32c_impls[k], buf + at, dst, n, want);
	}
	free(buf);
	free(dst);
}

/* Each length up to some blocks of each implementation, so that no edge of them is missed; alignments of both go along. */
static void every_len(void **state)
{
	uint8_t *buf = malloc(8192), *dst = malloc(8192), *want = malloc(8192);

	for (unsigned int i = 0; i < 8192; i++)
		buf[i] = (uint8_t)random();
	for (size_t n = 0; n < 8000; n++) {
		const uint8_t *src = buf + n % 61;
		uint8_t *to = dst + n % 67;
		uint32_t crc = iw_crc32c_impls[iw_crc32c_nimpls - 1].crc(1, src, n);	/* slice-by-8 */

		memset(want, 0xa5, 8192);
		memcpy(want + (to - dst), src, n);
		for (unsigned int k = 0; k < iw_crc32c_nimpls; k++) {
			if (!iw_crc32c_impls[k].usable())
				continue;
			memset(dst, 0xa5, 8192);
			assert_int_equal(iw_crc32c_impls[k].crc(1, src, n), crc);
			assert_int_equal(iw_crc32c_impls[k].copy(1, to, src, n), crc);
			assert_memory_equal(dst, want, 8192);
		}
	}
	free(buf);
	free(dst);
	free(want);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(vectors), cmocka_unit_test(all_agree), cmocka_unit_test(every_len) };
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	vec_load();
	for (unsigned int k = 0; k < iw_crc32c_nimpls; k++)
		printf("# %s: %s\n", iw_crc32c_impls[k].name, iw_crc32c_impls[k].usable() ? "compared" : "not on this CPU");
	r = cmocka_run_group_tests_name("crc", tests, NULL, NULL);
	vec_unload();
	return r;
}
