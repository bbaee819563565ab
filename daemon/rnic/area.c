// SPDX-License-Identifier: MIT
/* Areas: memory of state that outlives who works on it. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "area.h"
#include "prm.h"
#include "prm_mem.h"

int area_new(struct prm_user *u, size_t len, struct area **out)
{
	struct area *a = calloc(1, sizeof(*a));
	void *p = NULL;
	int ret = 0;

	if (!a)
		return -ENOMEM;
	a->fd = -1;
	a->len = len;
	a->refs = 1;
	if (u)
		ret = prm_mem_create(u, len, &p, &a->fd);
	else
		p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		ret = -ENOMEM;
	if (ret) {
		free(a);
		return ret;
	}
	a->mem = p;
	*out = a;
	return 0;
}

int area_adopt(struct prm_user *u, size_t len, int fd, struct area **out)
{
	struct area *a = calloc(1, sizeof(*a));
	void *p = NULL;
	int ret = a ? prm_mem_adopt(u, len, fd, &p) : -ENOMEM;

	if (ret) {
		free(a);
		return ret;
	}
	*a = (struct area){ .mem = p, .len = len, .fd = fd, .refs = 1 };
	*out = a;
	return 0;
}

struct area *area_get(struct area *a)
{
	a->refs++;
	return a;
}

void area_put(struct area *a)
{
	if (!a || --a->refs)
		return;
	if (a->fd >= 0) {
		prm_mem_destroy(a->mem);
		close(a->fd);
	} else {
		munmap(a->mem, a->len);
	}
	free(a);
}

void area_trim(const struct area *a, void *p, size_t len)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)p + page - 1) & ~(page - 1), to = ((uintptr_t)p + len) & ~(page - 1);

	if (from < to)
		madvise((void *)from, to - from, a->fd >= 0 ? MADV_REMOVE : MADV_DONTNEED);
}
