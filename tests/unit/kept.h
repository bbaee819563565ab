/* SPDX-License-Identifier: MIT */
/*
 * Large memory of a test that makes many pairs, one after the other: what one has freed the next one gets, since the pages of fresh memory cost more
 * than all that a test does in them where the machine is a virtual one. A sanitizer sees its ends as those of malloc()ed memory; what is in
 * it is whatever was.
 */
#ifndef TESTS_KEPT_H
#define TESTS_KEPT_H

#include <stdbool.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)		((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n)	((void)(p), (void)(n))
#endif

#define KEPT_ALIGN	4096u

static struct kept { char *p; size_t size; bool used; } kept[256];

/* len octets on a page boundary, for kept_put(). Never NULL. */
static inline void *kept_get(size_t len)
{
	struct kept *k = NULL;

	len += !len;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (!kept[i].used && (!k || (k->size < len ? kept[i].size > k->size : kept[i].size >= len && kept[i].size < k->size)))
			k = &kept[i];
	if (!k)
		abort();
	if (k->size < len) {
		if (k->p)
			ASAN_UNPOISON_MEMORY_REGION(k->p, k->size);
		free(k->p);
		k->size = (2 * len + KEPT_ALIGN - 1) & ~(size_t)(KEPT_ALIGN - 1);
		k->p = aligned_alloc(KEPT_ALIGN, k->size);
		if (!k->p)
			abort();
	}
	ASAN_POISON_MEMORY_REGION(k->p, k->size);
	ASAN_UNPOISON_MEMORY_REGION(k->p, len);
	k->used = true;
	return k->p;
}

static inline void kept_put(void *p)
{
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (p && kept[i].p == p) {
			ASAN_POISON_MEMORY_REGION(p, kept[i].size);
			kept[i].used = false;
		}
}

#endif
