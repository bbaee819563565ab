/* SPDX-License-Identifier: MIT */
/*
 * Areas: where state lies that somebody else may go on with, flat (no pointers in it), apart from what is alive in this process. A memfd that
 * we made and sealed, or ordinary memory for who has no need of that.
 */
#ifndef IWARPD_AREA_H
#define IWARPD_AREA_H

#include <stddef.h>
#include <stdint.h>

struct prm_user;

struct area {
	uint8_t *mem;		/* zeroed, mapped here as long as there is a reference */
	size_t len;
	int fd;			/* ours; given to nobody but who takes over. -1: ordinary memory */
	unsigned int refs;
};

/* Of u's memory that may be registered (prm_mem_create()); u NULL: ordinary memory. One reference. 0 or -errno. */
int area_new(struct prm_user *u, size_t len, struct area **a);
/* One that a daemon before us made (prm_mem_adopt()). Takes over fd on success. */
int area_adopt(struct prm_user *u, size_t len, int fd, struct area **a);
struct area *area_get(struct area *a);		/* one more */
void area_put(struct area *a);			/* NULL: nothing */
/* The whole pages in [p, p + len) of it are zero again, and take no memory. */
void area_trim(const struct area *a, void *p, size_t len);

#endif
