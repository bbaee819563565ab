// SPDX-License-Identifier: MIT
/* MPA startup frames and FPDU sizes: every mpa., mulpdu. and wirelen. vector, both ways, whole and cut at every octet. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/mpa.h"
#include "vec_util.h"

static uint32_t be(const uint8_t *p, int n)
{
	uint32_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

/* Give the decoder the first n octets in an exact allocation: a sanitizer sees any look beyond. */
static int decode(struct iw_mpa_frame *f, const uint8_t *p, size_t n, bool reply)
{
	uint8_t *exact = malloc(n ? n : 1);
	int r;

	memcpy(exact, p, n);
	r = iw_mpa_decode(f, exact, n, reply);
	free(exact);
	return r;
}

static bool is_reply(const struct vec *v)
{
	return v->p[9] == 0x70;
}

static bool starts(const struct vec *v, const char *s)
{
	return !strncmp(v->name, s, strlen(s));
}

static void good_frame(const struct vec *v)
{
	bool reply = is_reply(v), odd = starts(v, "mpa.ign.");
	uint8_t out[IW_MPA_FRAME_MAX];
	struct iw_mpa_frame f;

	for (size_t n = 0; n < v->n; n++)
		assert_int_equal(decode(&f, v->p, n, reply), 0);
	assert_int_equal(decode(&f, v->p, v->n, reply), (int)v->n);
	assert_int_equal(f.reply, reply);
	if (odd)
		return;
	assert_int_equal(iw_mpa_encode(&f, out), (int)v->n);
	assert_memory_equal(out, v->p, v->n);
	assert_int_equal(decode(&f, v->p, v->n, !reply), -EPROTO);
}

static void frames(void **state)
{
	unsigned int seen = 0;

	for (unsigned int i = 0; i < nvecs; i++)
		if (starts(&vecs[i], "mpa.") && !starts(&vecs[i], "mpa.neg.")) {
			good_frame(&vecs[i]);
			seen++;
		}
	assert_int_equal(seen, 21);
}

static void fields(void **state)
{
	struct iw_mpa_frame f;
	const struct vec *v = vec_get("mpa.req.r2.p2p.all");

	assert_int_equal(decode(&f, v->p, v->n, false), (int)v->n);
	assert_true(f.rev == 2 && f.enhanced && f.crc && !f.markers && f.p2p && f.rtr_send && f.rtr_write && f.rtr_read);
	assert_int_equal(f.ird, 8);
	assert_int_equal(f.ord, 4);
	assert_int_equal(f.pd_len, 8);
	assert_int_equal(f.pd[7], 0xa7);
	v = vec_get("mpa.rep.r2.p2p.read");
	assert_int_equal(decode(&f, v->p, v->n, true), (int)v->n);
	assert_true(f.p2p && !f.rtr_send && !f.rtr_write && f.rtr_read && f.ird == 4 && f.ord == 8 && f.pd_len == 4);
	v = vec_get("mpa.rep.r1.reject");
	assert_int_equal(decode(&f, v->p, v->n, true), (int)v->n);
	assert_true(f.reject && f.crc && f.rev == 1 && !f.enhanced && f.pd_len == 2 && !memcmp(f.pd, "no", 2));
	v = vec_get("mpa.req.r2.noneg");
	assert_int_equal(decode(&f, v->p, v->n, false), (int)v->n);
	assert_true(f.ird == IW_MPA_NONEG && f.ord == IW_MPA_NONEG && !f.p2p);
	v = vec_get("mpa.ign.r");
	assert_int_equal(decode(&f, v->p, v->n, false), (int)v->n);
	assert_false(f.reject);
	v = vec_get("mpa.ign.bcd");
	assert_int_equal(decode(&f, v->p, v->n, false), (int)v->n);
	assert_true(!f.p2p && !f.rtr_send && !f.rtr_write && !f.rtr_read);
	v = vec_get("mpa.rep.r1.mc");
	assert_int_equal(decode(&f, v->p, v->n, true), (int)v->n);
	assert_true(f.markers && f.crc);
}

/* Refused at whatever octet, and never accepted before. */
static void refused(void **state)
{
	static const char *const names[] = { "mpa.neg.key", "mpa.neg.initinit", "mpa.neg.pd513", "mpa.neg.pdffff", "mpa.neg.rev0",
					     "mpa.neg.rev3", "mpa.neg.r2.s1pd2" };
	struct iw_mpa_frame f;

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct vec *v = vec_get(names[i]);

		assert_int_equal(decode(&f, v->p, v->n, false), -EPROTO);
		for (size_t n = 0; n < v->n; n++)
			assert_true(decode(&f, v->p, n, false) <= 0);
	}
	assert_int_equal(decode(&f, vec_get("mpa.req.r1")->p, 20, true), -EPROTO);
	/* these are the caller's to refuse: FIN before the frame was whole, octets behind it */
	assert_int_equal(decode(&f, vec_get("mpa.neg.pdshort")->p, vec_get("mpa.neg.pdshort")->n, false), 0);
	assert_int_equal(decode(&f, vec_get("mpa.neg.pdlong")->p, vec_get("mpa.neg.pdlong")->n, false), 20);
}

/* MPA-7.1.1-01, -06, -07: a frame that can never become valid is refused with the octet that makes it so, and not before. */
static void refused_at_once(void **state)
{
	static const char *const names[] = { "mpa.req.r1.c", "mpa.rep.r2.p2p" };
	struct iw_mpa_frame f;

	for (unsigned int i = 0; i < 2; i++) {
		const struct vec *v = vec_get(names[i]);
		uint8_t bad[64];

		for (unsigned int k = 0; k < 20; k++) {
			bool key = k < 16, never = k == 16 || k == 19;	/* flags and a short length may be anything */
			size_t at = k == 18 ? 20 : k + 1;

			memcpy(bad, v->p, v->n);
			bad[k] = k == 18 ? 0x7f : k == 17 ? 3 : key ? bad[k] ^ 0x20 : bad[k];
			for (size_t n = 0; n < 20; n++)
				assert_int_equal(decode(&f, bad, n, i), never || n < at ? 0 : -EPROTO);
			assert_int_equal(decode(&f, bad, v->n, i), never ? (int)v->n : -EPROTO);
		}
		memcpy(bad, v->p, v->n);
		bad[17] = 0;
		assert_int_equal(decode(&f, bad, 17, i), 0);
		assert_int_equal(decode(&f, bad, 18, i), -EPROTO);
	}
}

/* MPA-7.1.1-05: in revision 1 the bit that is S later is one of the reserved: private data begins at once, however short it is. */
static void reserved_in_rev1(void **state)
{
	uint8_t p[22] = { 0 };
	struct iw_mpa_frame f;

	memcpy(p, vec_get("mpa.req.r1.c")->p, 20);
	p[16] |= 0x1f;
	assert_int_equal(decode(&f, p, 20, false), 20);
	assert_true(f.rev == 1 && !f.enhanced && f.pd_len == 0);
	p[19] = 2;
	p[20] = 0xab;
	p[21] = 0xcd;
	assert_int_equal(decode(&f, p, 22, false), 22);
	assert_true(!f.enhanced && !f.p2p && f.ird == 0 && f.pd_len == 2 && f.pd[0] == 0xab && f.pd[1] == 0xcd);
}

/* What was in the structure before does not show. */
static void nothing_stays(void **state)
{
	for (unsigned int i = 0; i < nvecs; i++) {
		static struct iw_mpa_frame clean, dirty;
		const struct vec *v = &vecs[i];

		if (!starts(v, "mpa.") || starts(v, "mpa.neg."))
			continue;
		memset(&clean, 0, sizeof(clean));
		memset(&dirty, 0xff, sizeof(dirty));
		assert_int_equal(decode(&clean, v->p, v->n, is_reply(v)), decode(&dirty, v->p, v->n, is_reply(v)));
		assert_memory_equal(&clean, &dirty, sizeof(clean));
	}
}

/* MPA-7.1.1-04: R is for Replies. EMPA-9.2-01: without A the other three are 0; each of them has its bit. */
static void encoded_bits(void **state)
{
	static const struct { uint8_t p2p, send, write, read, w1, w2; } c[] = {
		{ 0, 1, 1, 1, 0x01, 0x02 }, { 1, 0, 0, 0, 0x81, 0x02 }, { 1, 1, 0, 0, 0xc1, 0x02 }, { 1, 0, 1, 0, 0x81, 0x82 },
		{ 1, 0, 0, 1, 0x81, 0x42 }, { 1, 1, 1, 1, 0xc1, 0xc2 },
	};
	uint8_t out[IW_MPA_FRAME_MAX];
	struct iw_mpa_frame f;

	for (uint8_t k = 0; k < 32; k++) {
		f = (struct iw_mpa_frame){ .rev = k & 16 ? 2 : 1, .reply = k & 1, .reject = !!(k & 2), .crc = !!(k & 4), .markers = !!(k & 8),
					   .enhanced = !!(k & 16) };
		assert_int_equal(iw_mpa_encode(&f, out), k & 16 ? 24 : 20);
		assert_int_equal(out[16], (k & 3) == 3 ? 0x20 | (k & 4 ? 0x40 : 0) | (k & 8 ? 0x80 : 0) | (k & 16) :
							 (k & 4 ? 0x40 : 0) | (k & 8 ? 0x80 : 0) | (k & 16));
		assert_int_equal(out[17], f.rev);
		assert_int_equal(out[9], k & 1 ? 'p' : 'q');
	}
	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		f = (struct iw_mpa_frame){ .rev = 2, .enhanced = 1, .p2p = c[i].p2p, .rtr_send = c[i].send, .rtr_write = c[i].write,
					   .rtr_read = c[i].read, .ird = 0x102, .ord = 0x203 };
		assert_int_equal(iw_mpa_encode(&f, out), 24);
		assert_true(out[20] == c[i].w1 && out[21] == 2 && out[22] == c[i].w2 && out[23] == 3);
	}
}

static void encode_refuses(void **state)
{
	static struct iw_mpa_frame f;
	uint8_t out[IW_MPA_FRAME_MAX];

	f = (struct iw_mpa_frame){ .rev = 1, .pd_len = 512 };
	assert_int_equal(iw_mpa_encode(&f, out), 532);
	f.pd_len = 513;
	assert_int_equal(iw_mpa_encode(&f, out), -EINVAL);
	f = (struct iw_mpa_frame){ .rev = 2, .enhanced = 1, .pd_len = 508 };
	assert_int_equal(iw_mpa_encode(&f, out), 532);
	f.pd_len = 509;
	assert_int_equal(iw_mpa_encode(&f, out), -EINVAL);
	f = (struct iw_mpa_frame){ .rev = 1, .enhanced = 1 };
	assert_int_equal(iw_mpa_encode(&f, out), -EINVAL);
	f = (struct iw_mpa_frame){ .rev = 0 };
	assert_int_equal(iw_mpa_encode(&f, out), -EINVAL);
	f = (struct iw_mpa_frame){ .rev = 3 };
	assert_int_equal(iw_mpa_encode(&f, out), -EINVAL);
	f = (struct iw_mpa_frame){ .rev = 2, .enhanced = 1, .ird = 0x4000 };
	assert_int_equal(iw_mpa_encode(&f, out), -EINVAL);
	f = (struct iw_mpa_frame){ .rev = 2, .enhanced = 1, .ord = 0x4000 };
	assert_int_equal(iw_mpa_encode(&f, out), -EINVAL);
	f = (struct iw_mpa_frame){ .rev = 2, .enhanced = 1, .ird = 0x3fff, .ord = 0x3fff };
	assert_int_equal(iw_mpa_encode(&f, out), 24);
	f = (struct iw_mpa_frame){ .rev = 2, .ird = 0x4000, .ord = 0x4000 };	/* not sent */
	assert_int_equal(iw_mpa_encode(&f, out), 20);
}

static void sizes(void **state)
{
	unsigned int mulpdu = 0, wirelen = 0;

	for (unsigned int i = 0; i < nvecs; i++) {
		const struct vec *v = &vecs[i];

		if (starts(v, "mulpdu.")) {
			assert_int_equal(iw_mpa_mulpdu(be(v->p, 4), v->p[4]), be(v->p + 5, 4));
			mulpdu++;
		} else if (starts(v, "wirelen.")) {
			assert_int_equal(iw_mpa_fpdu_len_markers(be(v->p, 4), (uint16_t)be(v->p + 4, 2)), be(v->p + 6, 4));
			wirelen++;
		}
	}
	assert_int_equal(mulpdu, 30);
	assert_int_equal(wirelen, 11);
	assert_int_equal(iw_mpa_mulpdu(0, true), 128);
	assert_int_equal(iw_mpa_fpdu_len(0), 8);
	assert_int_equal(iw_mpa_fpdu_len(18), 24);
	assert_int_equal(iw_mpa_fpdu_len(65535), 65544);
}

/* The closed formula against counting, at every offset and beyond 2^32. */
static void markers_counted(void **state)
{
	for (uint32_t ulpdu = 0; ulpdu <= 65535; ulpdu += ulpdu < 1200 ? 1 : 997)
		for (uint64_t base = 0; base < 2; base++)
			for (uint64_t off = 0; off < 512; off += 4) {
				uint64_t start = (base << 32) - (base ? 512 : 0) + off, pos = start;

				for (uint32_t left = iw_mpa_fpdu_len((uint16_t)ulpdu); left;) {
					uint32_t room = 512 - pos % 512;

					if (room == 512) {
						pos += 4;
						room = 508;
					}
					pos += left < room ? left : room;
					left -= left < room ? left : room;
				}
				assert_int_equal(iw_mpa_fpdu_len_markers(start, (uint16_t)ulpdu), pos - start);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames), cmocka_unit_test(fields), cmocka_unit_test(refused), cmocka_unit_test(refused_at_once),
		cmocka_unit_test(reserved_in_rev1), cmocka_unit_test(nothing_stays), cmocka_unit_test(encoded_bits), cmocka_unit_test(encode_refuses),
		cmocka_unit_test(sizes), cmocka_unit_test(markers_counted),
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	vec_load();
	r = cmocka_run_group_tests_name("mpa", tests, NULL, NULL);
	vec_unload();
	return r;
}
