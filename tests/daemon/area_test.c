/* SPDX-License-Identifier: MIT */
/* State by reference: where it lies, that it is flat, who has it how long, what of it takes memory, and that no application can reach it. */
#include "stream_util.h"

#include <sys/stat.h>

#include "daemon/rnic/area.h"
#include "daemon/rnic/soft_priv.h"
#include "daemon/stream/remote.h"
#include "daemon/stream/remote_mem.h"
#include "daemon/stream/stream_priv.h"

#define PAGE	4096u
#define BULK	(8u << 20)

static struct area *area_of(const struct app *a)
{
	return a->st->remote->area;
}

static struct iw_soft *soft_state(const struct app *a)
{
	return soft_of(a->st->remote->ep)->s;
}

static void bulk(void)
{
	struct job w = { .a = &app[0], .out = BULK, .seed_out = 5 }, r = { .a = &app[1], .in = BULK, .seed_in = 5 };

	start(&w, job_write);
	start(&r, job_read);
	finish(&w);
	finish(&r);
	assert_int_equal(r.err, 0);
	assert_int_equal(r.got, BULK);
}

static uint64_t octets_of(int fd)
{
	struct stat s;

	assert_int_equal(fstat(fd, &s), 0);
	return (uint64_t)s.st_blocks * 512;
}

static void trimmed_and_sealed(void **state)
{
	struct prm_user *u = prm_user_get(1000);
	struct area *a;

	for (int shared = 0; shared < 2; shared++) {
		assert_int_equal(area_new(shared ? u : NULL, 8 * PAGE, &a), 0);
		assert_int_equal(a->fd >= 0, shared);
		memset(a->mem, 7, 8 * PAGE);
		area_trim(a, a->mem + PAGE, 2 * PAGE);
		if (shared)
			assert_int_equal(octets_of(a->fd), 6 * PAGE);
		assert_true(a->mem[PAGE - 1] == 7 && !a->mem[PAGE] && !a->mem[3 * PAGE - 1] && a->mem[3 * PAGE] == 7);
		area_trim(a, a->mem + 5 * PAGE + 1, PAGE);	/* no whole page in it */
		assert_true(a->mem[5 * PAGE] == 7 && a->mem[6 * PAGE] == 7);
		if (shared) {
			assert_int_equal(ftruncate(a->fd, PAGE), -1);
			assert_int_equal(errno, EPERM);
			assert_non_null(prm_mem_find(a->mem, 8 * PAGE));
		}
		area_put(area_get(a));
		assert_int_equal(a->mem[0], 7);
		area_put(a);
	}
	area_put(NULL);
}

static void place_is_checked(void **state)
{
	static const struct endpoint_ulp ulp;
	struct rnic_pd *pd = rnic_pd_get(1000);
	struct endpoint_attr at = { .pd = pd, .ulp = &ulp };
	struct endpoint *ep;

	assert_int_equal(area_new(prm_user_get(1000), sizeof(struct iw_soft) + PAGE, &at.area), 0);
	for (at.area_off = 1; at.area_off < 3 * PAGE; at.area_off *= 2)
		assert_int_equal(soft_create_attr(tcp[0], &at, &ep), at.area_off == PAGE ? 0 : -EINVAL);
	assert_int_equal(((struct iw_soft *)(at.area->mem + PAGE))->magic, IW_SOFT_MAGIC);
	endpoint_unmake(ep);
	area_put(at.area);
	run_rounds(3);
	assert_int_equal(endpoint_count(), 0);
	rnic_pd_put(pd);
}

/* Addresses of this process, as /proc shows them; but for the shadow of a sanitizer, terabytes in which any number may lie. */
static struct { uintptr_t from, to; } maps[4096];
static unsigned int nmaps;

static void look_at_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];

	assert_non_null(f);
	for (nmaps = 0; nmaps < 4096 && fgets(line, sizeof(line), f);) {
		assert_int_equal(sscanf(line, "%lx-%lx", &maps[nmaps].from, &maps[nmaps].to), 2);
		nmaps += maps[nmaps].from >= 1ul << 40 && maps[nmaps].to - maps[nmaps].from < 1ul << 36;
	}
	assert_true(nmaps > 4);
	fclose(f);
}

static bool is_address(uint64_t v)
{
	for (unsigned int i = 0; i < nmaps; i++) {
		if (v >= maps[i].from && v < maps[i].to)
			return true;
	}
	return false;
}

#define ROUNDS 4u

/* Two counters side by side, or a random Tagged Offset, may look like an address once; a pointer does each time, whatever was moved between. */
struct looks {
	uint8_t n[sizeof(struct iw_remote) / 8 + offsetof(struct iw_soft, rx) / 8];
};

static void look(const void *p, size_t n, uint8_t *looks)
{
	const uint64_t *v = p;

	for (size_t i = 0; i < n / sizeof(*v); i++)
		looks[i] += is_address(v[i]);
}

static void flat(const struct looks *l)
{
	for (size_t i = 0; i < sizeof(l->n); i++) {
		if (l->n[i] == ROUNDS)
			fail_msg("octets %zu of the state hold an address", i * 8);
	}
}

static void flat_and_versioned(void **state)
{
	struct looks looks[2] = { 0 };

	remote_pair();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int n = 0; n <= round; n++)
			bulk();
		look_at_maps();
		for (int i = 0; i < 2; i++) {
			look(app[i].st->remote->f, sizeof(struct iw_remote), looks[i].n);
			look(soft_state(&app[i]), offsetof(struct iw_soft, rx), looks[i].n + sizeof(struct iw_remote) / 8);
		}
	}
	for (int i = 0; i < 2; i++) {
		const struct iw_remote *f = app[i].st->remote->f;
		const struct iw_soft *s = soft_state(&app[i]);

		assert_ptr_equal(f, area_of(&app[i])->mem + REMOTE_KEPT);
		assert_int_equal(f->magic, IW_REMOTE_MAGIC);
		assert_int_equal(f->version, IW_REMOTE_VERSION);
		assert_int_equal(f->size, area_of(&app[i])->len);
		assert_int_equal(f->rs.version, IW_RS_VERSION);
		assert_ptr_equal(s, area_of(&app[i])->mem + f->ep_off);
		assert_int_equal(s->magic, IW_SOFT_MAGIC);
		assert_int_equal(s->version, IW_SOFT_VERSION);
		assert_int_equal(s->size, sizeof(*s));
		assert_true(sizeof(*s) <= f->ep_len && REMOTE_KEPT + sizeof(*f) <= f->rq_off && f->rq_off < f->ep_off && f->ep_off + f->ep_len <= f->rd_off);
		assert_int_equal(s->qp.version, IW_QP_VERSION);
		flat(&looks[i]);
	}
}

/* The application has all of the segment mapped, and may write what it likes there. */
static void not_in_the_segment(void **state)
{
	struct stat seg, area;

	remote_pair();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fstat(app[i].st->segment, &seg), 0);
		assert_int_equal(fstat(area_of(&app[i])->fd, &area), 0);
		assert_int_not_equal(seg.st_ino, area.st_ino);
		assert_int_equal(seg.st_size, app[i].g.size);
	}
	memset(app[0].page, 0xa5, app[0].g.size);
	assert_int_equal(app[0].st->remote->f->magic, IW_REMOTE_MAGIC);
	bulk();
}

static bool small(void *arg)
{
	const struct iw_soft *s = arg;
	unsigned char in[sizeof(s->txbuf) / PAGE];
	size_t n = 0;

	assert_int_equal(mincore((void *)s->txbuf, sizeof(s->txbuf), in), 0);
	for (size_t i = 0; i < sizeof(in); i++)
		n += in[i] & 1;
	return n <= 1;
}

static void framed_octets_go(void **state)
{
	remote_pair();
	bulk();
	assert_false(small(soft_state(&app[0])));
	run_until(small, soft_state(&app[0]));
	say(app[0].fd, "and on");
	expect_octets(&app[1], "and on");
}

static struct endpoint *lingering;

static void lost_interest(void *ctx, const struct endpoint_said *said)
{
	endpoint_detach(lingering);
}

static bool none_left(void *arg)
{
	return !endpoint_count();
}

/* Its maker lets go of the area; the endpoint still works on it, and gives it back when it is over. */
static void endpoint_outlives_its_maker(void **state)
{
	static const char request[] = "MPA ID Req Frame\x40\x01\0";	/* CRC, revision 1, and the NUL is the length's second octet */
	static const struct endpoint_ulp ulp = { .request = lost_interest };
	struct rnic_pd *pd = rnic_pd_get(1000);
	struct endpoint_attr at = { .pd = pd, .ulp = &ulp };
	struct area *a;
	int fd;

	assert_int_equal(area_new(prm_user_get(1000), sizeof(struct iw_soft), &at.area), 0);
	a = at.area;
	fd = a->fd;
	assert_int_equal(soft_create_attr(tcp[1], &at, &lingering), 0);
	tcp[1] = -1;
	assert_int_equal(endpoint_respond(lingering), 0);
	area_put(a);
	assert_int_equal(a->refs, 1);
	assert_int_equal(send(tcp[0], request, 20, MSG_NOSIGNAL), 20);
	run_until(none_left, NULL);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	rnic_pd_put(pd);
}


int main(void)
{
	const struct CMUnitTest tests[] = {
		T(trimmed_and_sealed), T(place_is_checked), T(flat_and_versioned), T(not_in_the_segment), T(framed_octets_go),
		T(endpoint_outlives_its_maker),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
