/* SPDX-License-Identifier: MIT */
/* Memory that may be registered. */
#ifndef IWARPD_PRM_MEM_H
#define IWARPD_PRM_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prm_user;
struct rnic_mr;

/*
 * Memory for registrations: mappings of memfds that we made and sealed, so that nobody can shrink them under us, zeroed, and known
 * to belong to one user. fd: the memfd for the application, or NULL (then nobody else ever has it). 0 or -errno.
 */
int prm_mem_create(struct prm_user *u, size_t size, void **addr, int *fd);
/* One that a daemon before us made, of that size; fd stays the caller's. -EINVAL: it is not like that. */
int prm_mem_adopt(struct prm_user *u, size_t size, int fd, void **addr);
/* Takes back what is still registered of it (that is a fault of ours, and logged), then unmaps. */
void prm_mem_destroy(void *addr);

/* What the RNIC looks at: the memory that [addr, addr + len) is in, or NULL. */
struct prm_mem {
	uint8_t *addr;
	size_t len;
	struct prm_user *user;
	struct rnic_mr *mrs;		/* registrations of it */
};
struct prm_mem *prm_mem_find(const void *addr, size_t len);
/* Users register nothing but such memory of their own. Tools that run in one user's process switch it off. */
extern bool prm_strict;

#endif
