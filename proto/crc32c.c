// SPDX-License-Identifier: MIT
/*
 * CRC32c by carry-less multiplication of vectors of 512 or 256 bits, by SSE4.2 or ARMv8 instructions, three streams interleaved to hide their
 * latency, by both at once, or by a table of eight slices.
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
#define HW_4(c, v)	__builtin_ia32_crc32si((uint32_t)(c), (v))
#define HW_1(c, v)	__builtin_ia32_crc32qi((uint32_t)(c), (v))

static bool hw_usable(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
#define HW_ATTR		__attribute__((target("+crc")))
#define HW_NAME		"armv8"
#define HW_8(c, v)	__crc32cd((uint32_t)(c), (v))
#define HW_4(c, v)	__crc32cw((uint32_t)(c), (v))
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
	if (n & 4) {
		uint32_t v;

		memcpy(&v, p, 4);
		if (copy)
			memcpy(dst, &v, 4);
		c = HW_4(c, v);
		p += 4;
		dst += copy ? 4 : 0;
	}
	for (n &= 3; n; n--, p++) {
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
#define UNROLL		_Pragma("GCC unroll 8")	/* without it gcc keeps an array of vectors in memory */

/* x^(D+32) mod P and x^(D-32) mod P for the low and the high half of 128 bits, bits reversed and one place up. */
#define BY_2048		_mm_set_epi64x(0xb9e02b86, 0xdcb17aa4)
#define BY_1024		_mm_set_epi64x(0x0d3b6092, 0x6992cea2)
#define BY_512		_mm_set_epi64x(0x9e4addf8, 0x740eef02)
#define BY_256		_mm_set_epi64x(0xba4fc28e, 0x1384aa63a)
#define BY_128		_mm_set_epi64x(0x14cd00bd6, 0xf20c0dfe)

/*
 * The multiplication and the SSE4.2 instruction have units of their own in the CPU: the first part of much is three streams for the latter,
 * mixed with vectors behind them for the former. From so many octets on that is worth its start and end.
 */
#define MIX_512		2560u
#define MIX_256		1024u

#define LINE		64u
#define LINES		1024u

/* x^(512 i - 33) mod P, bits reversed, for before(): 32 of the 33 are in the CRC of those 64 bits, one is in reversed multiplication. */
static uint32_t by_lines[LINES + 1];

/* Where to read, and to write the copy. */
struct at {
	const uint8_t *p;
	uint8_t *dst;
};

struct streams {
	struct at at[3];
	uint64_t c[3];
};

static bool v256_usable(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul") && hw_usable();
}

static bool v512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && v256_usable();
}

static force_inline void skip(struct at *a, size_t n)
{
	a->p += n;
	a->dst += n;
}

V128_ATTR static force_inline __m128i mul32(uint64_t a, uint32_t b)
{
	return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi32_si128((int)b), 0);
}

/* What state c adds to the last 64 bits of the lines behind it. */
V128_ATTR static force_inline __m128i before(uint64_t c, size_t lines)
{
	for (; lines > LINES; lines -= LINES)
		c = HW_8(0, (uint64_t)_mm_cvtsi128_si64(mul32(c, by_lines[LINES])));
	return mul32(c, by_lines[lines]);
}

/* Three streams of lines each; a goes behind them. */
V128_ATTR static force_inline void streams_start(struct streams *s, struct at *a, size_t lines)
{
	UNROLL
	for (int i = 0; i < 3; i++) {
		s->at[i] = *a;
		s->c[i] = 0;
		skip(a, lines * LINE);
	}
}

/* Eight octets of each. */
V128_ATTR static force_inline void streams_step(struct streams *s, bool copy)
{
	UNROLL
	for (int i = 0; i < 3; i++) {
		s->c[i] = hw_step(s->c[i], s->at[i].dst, s->at[i].p, copy);
		skip(&s->at[i], 8);
	}
}

V128_ATTR static force_inline __m128i streams_end(const struct streams *s, size_t lines, size_t behind)
{
	__m128i y = _mm_xor_si128(before(s->c[0], behind + 2 * lines), before(s->c[1], behind + lines));

	return _mm_xor_si128(y, before(s->c[2], behind));
}

V128_ATTR static force_inline __m128i fold128(__m128i x, __m128i y)
{
	const __m128i k = BY_128;

	return _mm_xor_si128(y, _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)));
}

V256_ATTR static force_inline __m256i next256(struct at *a, bool copy)
{
	__m256i v = _mm256_loadu_si256((const __m256i *)a->p);

	if (copy)
		_mm256_storeu_si256((__m256i *)a->dst, v);
	skip(a, 32);
	return v;
}

/* Move each 128 bits of x left by what k128 stands for, and add y. */
V256_ATTR static force_inline __m256i fold256(__m256i x, __m128i k128, __m256i y)
{
	const __m256i k = _mm256_broadcastsi128_si256(k128);

	return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(x, k, 0x00), _mm256_clmulepi64_epi128(x, k, 0x11)), y);
}

/* The CRC of x with y added to its last 64 bits. */
V256_ATTR static force_inline uint32_t finish256(__m256i x, __m128i y)
{
	__m128i r = fold128(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
	uint64_t c = HW_8(0, (uint64_t)_mm_cvtsi128_si64(r));

	return ~(uint32_t)HW_8(c, (uint64_t)_mm_extract_epi64(r, 1) ^ (uint64_t)_mm_cvtsi128_si64(y));
}

/* Blocks of seven lines, four of them by vectors, and two before the first. Returns how many lines that were. */
V256_ATTR static force_inline size_t v256_mix(__m256i x[4], __m128i *y, struct at *a, size_t lines, bool copy)
{
	size_t steps = (lines - 2) / 7;
	struct streams s;

	streams_start(&s, a, steps);
	UNROLL
	for (int i = 0; i < 4; i++)
		x[i] = next256(a, copy);
	for (size_t j = 0; j < steps; j++) {
		UNROLL
		for (int i = 0; i < 8; i++) {
			x[i % 4] = fold256(x[i % 4], BY_1024, next256(a, copy));
			streams_step(&s, copy);
			__asm__("" : "+x"(x[i % 4]), "+r"(s.c[0]), "+r"(s.c[1]), "+r"(s.c[2]));	/* so that gcc leaves them mixed */
		}
	}
	*y = _mm_xor_si128(*y, streams_end(&s, steps, lines - 3 * steps));
	return 2 + 7 * steps;
}

V256_ATTR static force_inline uint32_t v256_run(uint32_t crc, uint8_t *dst, const uint8_t *p, size_t n, bool copy)
{
	struct at a = { p, dst };
	size_t lines = n / LINE;
	__m256i x[4];
	__m128i y;

	if (lines < 2)
		return hw_run(crc, dst, p, n, copy);
	y = before(~hw_run(crc, dst, p, n % LINE, copy), lines);
	skip(&a, n % LINE);
	if (n >= MIX_256) {
		lines -= v256_mix(x, &y, &a, lines, copy);
	} else {
		UNROLL
		for (int i = 0; i < 4; i++)
			x[i] = next256(&a, copy);
		lines -= 2;
	}
	for (; lines >= 2; lines -= 2) {
		UNROLL
		for (int i = 0; i < 4; i++)
			x[i] = fold256(x[i], BY_1024, next256(&a, copy));
	}
	x[0] = fold256(fold256(x[0], BY_256, x[1]), BY_512, fold256(x[2], BY_256, x[3]));
	if (lines) {
		x[1] = next256(&a, copy);
		x[0] = fold256(x[0], BY_512, fold256(x[1], BY_256, next256(&a, copy)));
	}
	return finish256(x[0], y);
}

V256_ATTR static uint32_t v256_crc(uint32_t crc, const void *p, size_t n)
{
	return v256_run(crc, (uint8_t *)p, p, n, false);
}

V256_ATTR static uint32_t v256_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return v256_run(crc, dst, src, n, true);
}

V512_ATTR static force_inline __m512i next512(struct at *a, bool copy)
{
	__m512i v = _mm512_loadu_si512(a->p);

	if (copy)
		_mm512_storeu_si512(a->dst, v);
	skip(a, LINE);
	return v;
}

V512_ATTR static force_inline __m512i fold512(__m512i x, __m128i k128, __m512i y)
{
	const __m512i k = _mm512_broadcast_i32x4(k128);

	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11), y, XOR3);
}

/* Blocks of eleven lines, eight of them by vectors, and four before the first. Not for a copy: its stores take what that would gain. */
V512_ATTR static force_inline size_t v512_mix(__m512i x[4], __m128i *y, struct at *a, size_t lines)
{
	size_t steps = (lines - 4) / 11;
	struct streams s;

	streams_start(&s, a, steps);
	UNROLL
	for (int i = 0; i < 4; i++)
		x[i] = next512(a, false);
	for (size_t j = 0; j < steps; j++) {
		UNROLL
		for (int i = 0; i < 8; i++) {
			x[i % 4] = fold512(x[i % 4], BY_2048, next512(a, false));
			streams_step(&s, false);
			__asm__("" : "+v"(x[i % 4]), "+r"(s.c[0]), "+r"(s.c[1]), "+r"(s.c[2]));
		}
	}
	*y = _mm_xor_si128(*y, streams_end(&s, steps, lines - 3 * steps));
	return 4 + 11 * steps;
}

V512_ATTR static force_inline uint32_t v512_run(uint32_t crc, uint8_t *dst, const uint8_t *p, size_t n, bool copy)
{
	struct at a = { p, dst };
	size_t lines = n / LINE;
	__m512i x[4];
	__m128i y;

	if (lines < 2)
		return hw_run(crc, dst, p, n, copy);
	y = before(~hw_run(crc, dst, p, n % LINE, copy), lines);
	skip(&a, n % LINE);
	if (lines >= 4) {
		if (!copy && n >= MIX_512) {
			lines -= v512_mix(x, &y, &a, lines);
		} else {
			UNROLL
			for (int i = 0; i < 4; i++)
				x[i] = next512(&a, copy);
			lines -= 4;
		}
		for (; lines >= 4; lines -= 4) {
			UNROLL
			for (int i = 0; i < 4; i++)
				x[i] = fold512(x[i], BY_2048, next512(&a, copy));
		}
		x[0] = fold512(fold512(x[0], BY_512, x[1]), BY_1024, fold512(x[2], BY_512, x[3]));
	} else {
		x[0] = next512(&a, copy);
		lines--;
	}
	for (; lines; lines--)
		x[0] = fold512(x[0], BY_512, next512(&a, copy));
	return finish256(fold256(_mm512_castsi512_si256(x[0]), BY_256, _mm512_extracti64x4_epi64(x[0], 1)), y);
}

V512_ATTR static uint32_t v512_crc(uint32_t crc, const void *p, size_t n)
{
	return v512_run(crc, (uint8_t *)p, p, n, false);
}

V512_ATTR static uint32_t v512_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return v512_run(crc, dst, src, n, true);
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

/* a b mod P, bits reversed */
static uint32_t times(uint32_t a, uint32_t b)
{
	uint32_t c = 0;

	for (; a; a <<= 1) {
		c ^= a >> 31 ? b : 0;
		b = b >> 1 ^ (b & 1 ? POLY : 0);
	}
	return c;
}

static uint32_t x_to(unsigned int n)
{
	uint32_t x = 1u << 30, c = 1u << 31;

	for (; n; n >>= 1, x = times(x, x))
		if (n & 1)
			c = times(c, x);
	return c;
}

/* The function is linear in the state, so a table of each octet is enough. */
static void make_shift(uint32_t t[4][256], uint32_t len)
{
	const uint32_t by = x_to(8 * len);

	for (unsigned int k = 0; k < 4; k++)
		for (unsigned int v = 1; v < 256; v++)
			t[k][v] = v & (v - 1) ? t[k][v & (v - 1)] ^ t[k][v & -v] : times(v << 8 * k, by);
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
	by_lines[1] = x_to(8 * LINE - 33);
	for (uint32_t i = 2, by = x_to(8 * LINE); i <= LINES; i++)
		by_lines[i] = times(by_lines[i - 1], by);
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
