// SPDX-License-Identifier: MIT
/* Memory of the application (preload/user.c): four pages with every combination of rights, ranges from and to each side of their edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "preload/user.c"

#define PAGES	4u
#define FULL	0xa5

static uint8_t full[PAGE];
static const int rights[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };
static const size_t at[] = { 0, 1, 3, 4, 5, 7, 8, 9, 2000, PAGE - 9, PAGE - 8, PAGE - 7, PAGE - 5, PAGE - 4, PAGE - 3, PAGE - 1 };
#define NAT (sizeof(at) / sizeof(at[0]))

/* That of page i in the combination of this number. */
static int right(unsigned int n, size_t i)
{
	while (i--)
		n /= 3;
	return rights[n % 3];
}

static bool all(unsigned int n, size_t from, size_t to, int need)
{
	for (size_t i = from / PAGE; i <= (to - 1) / PAGE; i++)
		if (!(right(n, i) & need))
			return false;
	return true;
}

/* Nothing but these octets was touched. */
static void only_within(unsigned int n, const uint8_t *m, size_t from, size_t to)
{
	for (size_t i = 0; i < PAGES; i++) {
		size_t start = i * PAGE, end = start + PAGE, head = from < end ? from : end, tail = to > start ? to : start;

		if (!(right(n, i) & PROT_READ))
			continue;
		assert_true(head <= start || !memcmp(m + start, full, head - start));
		assert_true(tail >= end || !memcmp(m + tail, full, end - tail));
	}
}

static void range(unsigned int n, uint8_t *m, size_t from, size_t to)
{
	bool writes = all(n, from, to, PROT_WRITE);

	assert_int_equal(iw_user_readable(m + from, to - from), all(n, from, to, PROT_READ));
	assert_int_equal(iw_user_writable(m + from, to - from), writes);
	only_within(n, m, 0, 0);
	assert_int_equal(iw_user_fillable(m + from, to - from), writes);
	only_within(n, m, from, to);
	for (size_t i = from; i < to; i += i % PAGE ? PAGE - i % PAGE : PAGE)
		if (right(n, i / PAGE) & PROT_WRITE)
			memset(m + i, FULL, to - i < PAGE - i % PAGE ? to - i : PAGE - i % PAGE);
}

static void rights_of_pages(void **state)
{
	uint8_t *m = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(m != MAP_FAILED);
	memset(full, FULL, PAGE);
	for (unsigned int n = 0; n < 81; n++) {
		assert_int_equal(mprotect(m, PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
		memset(m, FULL, PAGES * PAGE);
		for (size_t i = 0; i < PAGES; i++)
			assert_int_equal(mprotect(m + i * PAGE, PAGE, right(n, i)), 0);
		for (size_t from = 0; from < NAT; from++)
			for (size_t to = 0; to < NAT * PAGES; to++)
				if (at[from] < to / NAT * PAGE + at[to % NAT])
					range(n, m, at[from], to / NAT * PAGE + at[to % NAT]);
	}
	munmap(m, PAGES * PAGE);
}

static void no_address(void **state)
{
	static void *const bad[] = { NULL, (void *)1, (void *)-1, (void *)-8, (void *)(1ul << 63) };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(iw_user_readable(bad[i], 0) && iw_user_fillable(bad[i], 0));
		assert_false(iw_user_readable(bad[i], 8) || iw_user_writable(bad[i], 8) || iw_user_fillable(bad[i], 8));
		assert_false(iw_user_readable(bad[i], SIZE_MAX / 2) || iw_user_fillable(bad[i], SIZE_MAX / 2));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rights_of_pages), cmocka_unit_test(no_address) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
