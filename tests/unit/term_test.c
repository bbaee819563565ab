// SPDX-License-Identifier: MIT
/* Terminate Messages: their parts by every combination of bits and at every length, what is quoted, and what codes are called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/qp_priv.h"

/* An exact allocation: a sanitizer sees any look beyond. */
static struct iw_term decode(const uint8_t *p, size_t n)
{
	uint8_t *exact = malloc(n ? n : 1);
	struct iw_term t;

	memcpy(exact, p, n);
	memset(&t, 0xee, sizeof(t));
	iw_term_decode(&t, exact, n);
	free(exact);
	return t;
}

/* RDMAP-4.8-04: the DDP header comes with a length, the RDMAP header when R says so. Cut anywhere, what is whole is taken. */
static void parts(void **state)
{
	uint8_t p[IW_TERM_MAX];

	for (unsigned int k = 0; k < 16; k++) {
		bool m = k & 1, d = k & 2, r = k & 4, tagged = k & 8;
		size_t len_end = m || d ? 6 : 4, ddp_len = tagged ? 14 : 18, ddp_end = len_end + (d ? ddp_len : 0);
		size_t end = ddp_end + (r ? 28 : 0);

		for (unsigned int i = 0; i < sizeof(p); i++)
			p[i] = (uint8_t)(i + 1);
		p[0] = 0x11;
		p[1] = 0x02;
		p[2] = (uint8_t)(m << 7 | d << 6 | r << 5);
		p[6] = tagged ? 0xc1 : 0x41;
		for (size_t n = 0; n <= sizeof(p); n++) {
			struct iw_term t = decode(p, n);

			assert_int_equal(t.cut, n < end);
			assert_int_equal(t.has_len, (m || d) && n >= 6);
			assert_int_equal(t.has_ddp, d && n >= ddp_end);
			assert_int_equal(t.has_rdmap, r && n >= end);
			assert_false(t.siw_swapped);
			if (n < 4) {
				assert_true(t.layer == 0 && t.etype == 0 && t.code == 0);
				continue;
			}
			assert_true(t.layer == 1 && t.etype == 1 && t.code == 2);
			assert_int_equal(t.seg_len, t.has_len ? 0x0506 : 0);
			assert_int_equal(t.ddp_len, t.has_ddp ? ddp_len : 0);
			if (t.has_ddp)
				assert_memory_equal(t.ddp, p + 6, ddp_len);
			if (t.has_rdmap)
				assert_memory_equal(t.rdmap, p + ddp_end, 28);
		}
	}
}

/* RDMAP-4.8-03: reserved bits change nothing, as long as it cannot be Linux siw, which has everything in them. */
static void reserved_bits(void **state)
{
	uint8_t p[IW_TERM_MAX] = { 0x11, 0x02, 0xc0, 0, 0, 99, 0xc1 };

	for (unsigned int bits = 0; bits < 32; bits++) {
		struct iw_term t;

		p[2] = (uint8_t)(0xc0 | bits);
		p[3] = (uint8_t)(bits * 8);
		t = decode(p, 20);
		assert_true(!t.cut && !t.siw_swapped && t.has_ddp && !t.has_rdmap && t.seg_len == 99 && t.ddp_len == 14);
		p[2] = (uint8_t)bits;
		t = decode(p, 4);
		assert_true(!t.cut && !t.siw_swapped && !t.has_len && !t.has_ddp && !t.has_rdmap && t.layer == 1);
	}
}

/* Without anything quoted, octet 0 is taken as swapped only if its code exists so and not otherwise. */
static void swapped_codes(void **state)
{
	static const struct { uint8_t octet, code, layer, etype, swapped; } c[] = {
		{ 0x02, 0x02, 2, 0, 1 },	/* LLP / CRC */
		{ 0x20, 0x02, 2, 0, 0 },
		{ 0x21, 0x01, 1, 2, 1 },	/* DDP / untagged / QN */
		{ 0x12, 0x01, 1, 2, 0 },
		{ 0x01, 0x00, 0, 1, 0 },	/* RDMAP / protection, and DDP / local catastrophic the other way round */
		{ 0x10, 0x00, 1, 0, 0 },
		{ 0x10, 0x01, 0, 1, 1 },
		{ 0x02, 0x7e, 0, 2, 0 },	/* unknown both ways */
		{ 0x00, 0x7e, 0, 0, 0 },
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct iw_term t = decode((const uint8_t[]){ c[i].octet, c[i].code, 0, 0 }, 4);

		assert_true(t.layer == c[i].layer && t.etype == c[i].etype && t.code == c[i].code && !t.cut);
		assert_int_equal(t.siw_swapped, c[i].swapped);
	}
}

/* siw's M, D and R, each alone. */
static void swapped_parts(void **state)
{
	uint8_t p[IW_TERM_MAX] = { 0x10, 0x00, 0, 0, 0, 77, 0x41, 0x41 };

	for (uint8_t bits = 1; bits < 8; bits++) {
		struct iw_term t;

		p[2] = bits;
		t = decode(p, sizeof(p));
		assert_true(t.siw_swapped && t.layer == 0 && t.etype == 1 && !t.cut);
		assert_int_equal(t.has_len, !!(bits & 3));
		assert_int_equal(t.has_ddp, !!(bits & 2));
		assert_int_equal(t.has_rdmap, !!(bits & 4));
	}
}

/* Every code of the specifications has a name that begins with its layer, and nothing else has one. */
static void names(void **state)
{
	static const struct { uint8_t layer, etype; uint32_t codes; bool ff; const char *begin; } c[] = {
		{ 0, 1, 0x21f, true, "RDMAP / remote protection / " }, { 0, 2, 0x3e0, true, "RDMAP / remote operation / " },
		{ 1, 0, 1, false, "DDP / local" }, { 1, 1, 0x1f, false, "DDP / tagged / " }, { 1, 2, 0x7e, false, "DDP / untagged / " },
		{ 2, 0, 0xfe, false, "LLP / " },
	};

	for (unsigned int x = 0; x < 65536; x++) {
		uint8_t layer = (uint8_t)(x >> 12), etype = x >> 8 & 15, code = (uint8_t)x;
		const char *begin = layer || etype ? "unknown error" : "RDMAP / local catastrophic";
		const char *s = iw_term_text(layer, etype, code);

		for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++)
			if (c[i].layer == layer && c[i].etype == etype && (code < 32 ? c[i].codes >> code & 1 : code == 0xff && c[i].ff))
				begin = c[i].begin;
		if (strncmp(s, begin, strlen(begin)))
			fail_msg("%u/%u/%02x is called \"%s\"", layer, etype, code, s);
	}
}

/* No two causes of one kind of error share a code or a name. */
static void causes_differ(void **state)
{
	struct iw_term a, b;

	for (int x = 1; x < IW_TE_MAX; x++)
		for (int y = 1; y < x; y++) {
			iw_term_set(&a, (enum iw_terr)x, NULL);
			iw_term_set(&b, (enum iw_terr)y, NULL);
			assert_false(a.layer == b.layer && a.etype == b.etype && a.code == b.code);
			assert_string_not_equal(iw_term_text(a.layer, a.etype, a.code), iw_term_text(b.layer, b.etype, b.code));
			assert_string_not_equal(iw_term_text(a.layer, a.etype, a.code), "unknown error");
		}
}

/* RDMAP-4.8-02, -05, -06: what is quoted, by the kind of error; the parts left out are not zeros but nothing. */
static void quoted(void **state)
{
	static const struct { enum iw_terr e; uint8_t mdr; } c[] = {
		{ IW_TE_LOCAL, 0 }, { IW_TE_RP_STAG, 7 }, { IW_TE_RP_BOUNDS, 7 }, { IW_TE_RP_RIGHTS, 7 }, { IW_TE_RP_SCOPE, 7 },
		{ IW_TE_RP_WRAP, 7 }, { IW_TE_RP_INV, 6 }, { IW_TE_RO_VERSION, 6 }, { IW_TE_RO_OPCODE, 6 }, { IW_TE_RO_STREAM, 6 },
		{ IW_TE_RO_UNSPEC, 6 }, { IW_TE_DDP_LOCAL, 0 }, { IW_TE_T_STAG, 6 }, { IW_TE_T_BOUNDS, 6 }, { IW_TE_T_SCOPE, 6 },
		{ IW_TE_T_WRAP, 6 }, { IW_TE_T_VERSION, 6 }, { IW_TE_U_QN, 6 }, { IW_TE_U_NOBUF, 6 }, { IW_TE_U_MSN, 6 }, { IW_TE_U_MO, 6 },
		{ IW_TE_U_TOOLONG, 6 }, { IW_TE_U_VERSION, 6 }, { IW_TE_LLP_LOST, 0 }, { IW_TE_LLP_CRC, 0 }, { IW_TE_LLP_MARKER, 0 },
	};
	static const size_t sizes[2][8] = { { [0] = 4, [6] = 24, [7] = 52 }, { [0] = 4, [6] = 20, [7] = 48 } };
	uint8_t ddp[2][18] = { { 0x41, 0x41 }, { 0xc1, 0x40 } }, req[28];

	assert_int_equal(sizeof(c) / sizeof(c[0]), IW_TE_MAX - 1);
	for (unsigned int i = 0; i < 28; i++)
		req[i] = (uint8_t)(i + 100);
	for (unsigned int i = 0; i < 4 * sizeof(c) / sizeof(c[0]); i++) {
		bool tagged = i & 1, read = i & 2;
		struct iw_quoted q = { .ddp = ddp[tagged], .ulpdu = 0x1234, .read_req = read ? req : NULL };
		uint8_t mdr = c[i / 4].mdr & (read ? 7 : 6), out[IW_TERM_MAX];
		struct iw_term t;
		size_t n;

		memset(out, 0xee, sizeof(out));
		iw_term_set(&t, c[i / 4].e, &q);
		n = iw_term_encode(&t, out);
		assert_int_equal(n, sizes[tagged][mdr]);
		assert_int_equal(out[2], mdr << 5);
		assert_int_equal(out[3], 0);
		assert_int_equal(out[0], t.layer << 4 | t.etype);
		assert_int_equal(out[1], t.code);
		if (mdr) {
			assert_true(out[4] == 0x12 && out[5] == 0x34);
			assert_memory_equal(out + 6, ddp[tagged], tagged ? 14 : 18);
		}
		if (mdr & 1)
			assert_memory_equal(out + n - 28, req, 28);
		q.ddp = NULL;		/* nothing to quote, or its header is not whole */
		iw_term_set(&t, c[i / 4].e, &q);
		assert_int_equal(iw_term_encode(&t, out), 4);
		iw_term_set(&t, c[i / 4].e, NULL);
		assert_int_equal(iw_term_encode(&t, out), 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts), cmocka_unit_test(reserved_bits), cmocka_unit_test(swapped_codes), cmocka_unit_test(swapped_parts),
		cmocka_unit_test(names), cmocka_unit_test(causes_differ), cmocka_unit_test(quoted),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("term", tests, NULL, NULL);
}
