// SPDX-License-Identifier: MIT
/*
 * CRC32c by carry-less multiplication of vectors of 512 or 256 bits, by SSE4.2 or ARMv8 instructions, three streams interleaved to hide their
 * latency, or by a table of eight slices.
 * The choice is made once, at program start, or by who needs it before: a constructor of another library may have a connection already.
 */
#include "crc32c.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

#define POLY		0x82f63b78u
#define force_inline	inline __attribute__((__always_inline__))

/* Lengths of one of the three streams; three of them make a block. */
#define LONG_LEN	4096u
#define SHORT_LEN	256u

static uint32_t slice[8][256];
static uint32_t shift_long[4][256], shift_short[4][256];	/* CRC state after LONG_LEN, SHORT_LEN zero octets */

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* ---- portable ---- */
static force_inline uint32_t slice_run(uint32_t crc, uint8_t *dst, const uint8_t *p, size_t n, bool copy)
{
	crc = ~crc;
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t v = load64(p);

		if (copy) {
			memcpy(dst, &v, 8);
			dst += 8;
		}
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		v = __builtin_bswap64(v);
#endif
		v ^= crc;
		crc = slice[7][v & 255] ^ slice[6][v >> 8 & 255] ^ slice[5][v >> 16 & 255] ^ slice[4][v >> 24 & 255] ^
		      slice[3][v >> 32 & 255] ^ slice[2][v >> 40 & 255] ^ slice[1][v >> 48 & 255] ^ slice[0][v >> 56];
	}
	for (; n; n--, p++) {
		uint8_t b = *p;

		if (copy)
			*dst++ = b;
		crc = slice[0][(crc ^ b) & 255] ^ crc >> 8;
	}
	return ~crc;
}

static uint32_t slice_crc(uint32_t crc, const void *p, size_t n)
{
	return slice_run(crc, NULL, p, n, false);
}

static uint32_t slice_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return slice_run(crc, dst, src, n, true);
}

static bool slice_usable(void)
{
	return true;
}

/* ---- hardware ---- */
#if defined(__x86_64__)
#define HW_ATTR		__attribute__((target("sse4.2")))
#define HW_NAME		"sse4.2"
#define HW_8(c, v)	__builtin_ia32_crc32di((c), (v))
#define HW_1(c, v)	__builtin_ia32_crc32qi((uint32_t)(c), (v))

static bool hw_usable(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
#define HW_ATTR		__attribute__((target("+crc")))
#define HW_NAME		"armv8"
#define HW_8(c, v)	__crc32cd((uint32_t)(c), (v))
#define HW_1(c, v)	__crc32cb((uint32_t)(c), (v))

static bool hw_usable(void)
{
	return getauxval(AT_HWCAP) & (1ul << 7);	/* HWCAP_CRC32 */
}
#endif

#ifdef HW_ATTR
static force_inline uint32_t shift(const uint32_t t[4][256], uint32_t crc)
{
	return t[0][crc & 255] ^ t[1][crc >> 8 & 255] ^ t[2][crc >> 16 & 255] ^ t[3][crc >> 24];
}

HW_ATTR static force_inline uint64_t hw_step(uint64_t c, uint8_t *dst, const uint8_t *p, bool copy)
{
	uint64_t v = load64(p);

	if (copy)
		memcpy(dst, &v, 8);
	return HW_8(c, v);
}

/* One block of three streams of len octets each. */
HW_ATTR static force_inline uint64_t hw_block(uint64_t c0, uint8_t *dst, const uint8_t *p, uint32_t len,
					       const uint32_t t[4][256], bool copy)
{
	uint64_t c1 = 0, c2 = 0;

	for (uint32_t i = 0; i < len; i += 8) {
		c0 = hw_step(c0, dst + i, p + i, copy);
		c1 = hw_step(c1, dst + i + len, p + i + len, copy);
		c2 = hw_step(c2, dst + i + 2 * len, p + i + 2 * len, copy);
	}
	c0 = shift(t, (uint32_t)c0) ^ c1;
	return shift(t, (uint32_t)c0) ^ c2;
}

HW_ATTR static force_inline uint32_t hw_run(uint32_t crc, uint8_t *dst, const uint8_t *p, size_t n, bool copy)
{
	uint64_t c = ~crc;

	for (; n >= 3 * LONG_LEN; n -= 3 * LONG_LEN, p += 3 * LONG_LEN, dst += copy ? 3 * LONG_LEN : 0)
		c = hw_block(c, dst, p, LONG_LEN, shift_long, copy);
	for (; n >= 3 * SHORT_LEN; n -= 3 * SHORT_LEN, p += 3 * SHORT_LEN, dst += copy ? 3 * SHORT_LEN : 0)
		c = hw_block(c, dst, p, SHORT_LEN, shift_short, copy);
	for (; n >= 8; n -= 8, p += 8, dst += copy ? 8 : 0)
		c = hw_step(c, dst, p, copy);
	for (; n; n--, p++) {
		uint8_t b = *p;

		if (copy)
			*dst++ = b;
		c = HW_1(c, b);
	}
	return ~(uint32_t)c;
}

HW_ATTR static uint32_t hw_crc(uint32_t crc, const void *p, size_t n)
{
	/* dst is never used without copy; p keeps the pointer arithmetic inside an object */
	return hw_run(crc, (uint8_t *)p, p, n, false);
}

HW_ATTR static uint32_t hw_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return hw_run(crc, dst, src, n, true);
}
#endif

/* ---- vectors: the CRC is the remainder of a polynomial, and what stands D bits further left may be added times x^D mod P ---- */
#if defined(__x86_64__)
#define V512_ATTR	__attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))
#define V256_ATTR	__attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2")))
#define V128_ATTR	__attribute__((target("pclmul,sse4.2")))
#define XOR3		0x96	/* of _mm512_ternarylogic_epi64() */

/* x^(D+32) mod P and x^(D-32) mod P for the low and the high half of 128 bits, bits reversed and one place up. */
#define BY_2048		_mm_set_epi64x(0xb9e02b86, 0xdcb17aa4)
#define BY_1024		_mm_set_epi64x(0x0d3b6092, 0x6992cea2)
#define BY_512		_mm_set_epi64x(0x9e4addf8, 0x740eef02)
#define BY_256		_mm_set_epi64x(0xba4fc28e, 0x1384aa63a)
#define BY_128		_mm_set_epi64x(0x14cd00bd6, 0xf20c0dfe)

static bool v256_usable(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul") && hw_usable();
}

static bool v512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && v256_usable();
}

V128_ATTR static force_inline __m128i fold128(__m128i x, __m128i y)
{
	const __m128i k = BY_128;

	return _mm_xor_si128(y, _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)));
}

V128_ATTR static force_inline uint32_t finish128(__m128i x)
{
	uint64_t c = HW_8(0, (uint64_t)_mm_extract_epi64(x, 0));

	return ~(uint32_t)HW_8(c, (uint64_t)_mm_extract_epi64(x, 1));
}

V512_ATTR static force_inline __m512i load512(uint8_t *dst, const uint8_t *p, bool copy)
{
	__m512i v = _mm512_loadu_si512(p);

	if (copy)
		_mm512_storeu_si512(dst, v);
	return v;
}

/* Move each 128 bits of x left by what k stands for, and add y. */
V512_ATTR static force_inline __m512i fold512(__m512i x, __m512i k, __m512i y)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11), y, XOR3);
}

V512_ATTR static force_inline uint32_t finish512(__m512i x)
{
	__m128i r = _mm512_extracti32x4_epi32(x, 0);

	r = fold128(r, _mm512_extracti32x4_epi32(x, 1));
	r = fold128(r, _mm512_extracti32x4_epi32(x, 2));
	return finish128(fold128(r, _mm512_extracti32x4_epi32(x, 3)));
}

/* Blocks of four vectors. */
V512_ATTR static force_inline uint32_t v512_run(uint32_t crc, uint8_t *dst, const uint8_t *p, size_t n, bool copy)
{
	const __m512i k2048 = _mm512_broadcast_i32x4(BY_2048), k512 = _mm512_broadcast_i32x4(BY_512);
	__m512i x[4];

	if (n < 256)
		return hw_run(crc, dst, p, n, copy);
	for (int i = 0; i < 4; i++)
		x[i] = load512(dst + 64 * i, p + 64 * i, copy);
	x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
	for (p += 256, dst += copy ? 256 : 0, n -= 256; n >= 256; n -= 256, p += 256, dst += copy ? 256 : 0)
		for (int i = 0; i < 4; i++)
			x[i] = fold512(x[i], k2048, load512(dst + 64 * i, p + 64 * i, copy));
	for (int i = 1; i < 4; i++)
		x[0] = fold512(x[0], k512, x[i]);
	for (; n >= 64; n -= 64, p += 64, dst += copy ? 64 : 0)
		x[0] = fold512(x[0], k512, load512(dst, p, copy));
	return hw_run(finish512(x[0]), dst, p, n, copy);
}

V512_ATTR static uint32_t v512_crc(uint32_t crc, const void *p, size_t n)
{
	return v512_run(crc, (uint8_t *)p, p, n, false);
}

V512_ATTR static uint32_t v512_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return v512_run(crc, dst, src, n, true);
}

V256_ATTR static force_inline __m256i load256(uint8_t *dst, const uint8_t *p, bool copy)
{
	__m256i v = _mm256_loadu_si256((const __m256i *)p);

	if (copy)
		_mm256_storeu_si256((__m256i *)dst, v);
	return v;
}

V256_ATTR static force_inline __m256i fold256(__m256i x, __m256i k, __m256i y)
{
	return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(x, k, 0x00), _mm256_clmulepi64_epi128(x, k, 0x11)), y);
}

V256_ATTR static force_inline uint32_t v256_run(uint32_t crc, uint8_t *dst, const uint8_t *p, size_t n, bool copy)
{
	const __m256i k1024 = _mm256_broadcastsi128_si256(BY_1024), k256 = _mm256_broadcastsi128_si256(BY_256);
	__m256i x[4];

	if (n < 128)
		return hw_run(crc, dst, p, n, copy);
	for (int i = 0; i < 4; i++)
		x[i] = load256(dst + 32 * i, p + 32 * i, copy);
	x[0] = _mm256_xor_si256(x[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)~crc)));
	for (p += 128, dst += copy ? 128 : 0, n -= 128; n >= 128; n -= 128, p += 128, dst += copy ? 128 : 0)
		for (int i = 0; i < 4; i++)
			x[i] = fold256(x[i], k1024, load256(dst + 32 * i, p + 32 * i, copy));
	for (int i = 1; i < 4; i++)
		x[0] = fold256(x[0], k256, x[i]);
	for (; n >= 32; n -= 32, p += 32, dst += copy ? 32 : 0)
		x[0] = fold256(x[0], k256, load256(dst, p, copy));
	crc = finish128(fold128(_mm256_castsi256_si128(x[0]), _mm256_extracti128_si256(x[0], 1)));
	return hw_run(crc, dst, p, n, copy);
}

V256_ATTR static uint32_t v256_crc(uint32_t crc, const void *p, size_t n)
{
	return v256_run(crc, (uint8_t *)p, p, n, false);
}

V256_ATTR static uint32_t v256_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return v256_run(crc, dst, src, n, true);
}
#endif

/* ---- choice ---- */
const struct iw_crc32c_impl iw_crc32c_impls[] = {
#if defined(__x86_64__)
	{ "avx512", v512_usable, v512_crc, v512_copy },
	{ "avx2", v256_usable, v256_crc, v256_copy },
#endif
#ifdef HW_ATTR
	{ HW_NAME, hw_usable, hw_crc, hw_copy },
#endif
	{ "slice-by-8", slice_usable, slice_crc, slice_copy },
};
const unsigned int iw_crc32c_nimpls = sizeof(iw_crc32c_impls) / sizeof(iw_crc32c_impls[0]);

static uint32_t first_crc(uint32_t crc, const void *p, size_t n);
static uint32_t first_copy(uint32_t crc, void *dst, const void *src, size_t n);
static const struct iw_crc32c_impl first = { .crc = first_crc, .copy = first_copy };
static const struct iw_crc32c_impl *_Atomic best = &first;

static const struct iw_crc32c_impl *chosen(void)
{
	return atomic_load_explicit(&best, memory_order_acquire);
}

/* crc is the raw (inverted) state; the function is linear in it, so a table of each octet is enough. */
static void make_shift(uint32_t t[4][256], uint32_t len)
{
	for (unsigned int k = 0; k < 4; k++) {
		uint32_t bit[8];

		for (unsigned int b = 0; b < 8; b++) {
			uint32_t c = 1u << (8 * k + b);

			for (uint32_t i = 0; i < len; i++)
				c = slice[0][c & 255] ^ c >> 8;
			bit[b] = c;
		}
		for (unsigned int v = 0; v < 256; v++) {
			uint32_t sum = 0;

			for (unsigned int b = 0; b < 8; b++)
				if (v >> b & 1)
					sum ^= bit[b];
			t[k][v] = sum;
		}
	}
}

/* Two at once write the same. */
static void __attribute__((constructor(101))) crc32c_setup(void)
{
	if (chosen() != &first)
		return;
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? POLY : 0);
		slice[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			slice[k][i] = slice[0][slice[k - 1][i] & 255] ^ slice[k - 1][i] >> 8;
	make_shift(shift_long, LONG_LEN);
	make_shift(shift_short, SHORT_LEN);
#if defined(__x86_64__)
	__builtin_cpu_init();
#endif
	for (unsigned int i = 0; i < iw_crc32c_nimpls; i++)
		if (iw_crc32c_impls[i].usable()) {
			atomic_store_explicit(&best, &iw_crc32c_impls[i], memory_order_release);
			break;
		}
}

static uint32_t first_crc(uint32_t crc, const void *p, size_t n)
{
	crc32c_setup();
	return chosen()->crc(crc, p, n);
}

static uint32_t first_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	crc32c_setup();
	return chosen()->copy(crc, dst, src, n);
}

uint32_t iw_crc32c(uint32_t crc, const void *p, size_t n)
{
	return chosen()->crc(crc, p, n);
}

uint32_t iw_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return chosen()->copy(crc, dst, src, n);
}
