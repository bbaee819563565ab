/* SPDX-License-Identifier: MIT */
/* Memory that may be registered: mappings of sealed memfds of our own, found by address. */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "prm.h"
#include "prm_mem.h"
#include "rnic.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

bool prm_strict = true;
static void *tree;		/* of struct prm_mem; they do not overlap */

/* Ranges that have an octet in common are equal. */
static int by_address(const void *x, const void *y)
{
	const struct prm_mem *a = x, *b = y;

	if (a->addr + a->len <= b->addr)
		return -1;
	return b->addr + b->len <= a->addr;
}

struct prm_mem *prm_mem_find(const void *addr, size_t len)
{
	struct prm_mem key = { .addr = (uint8_t *)addr, .len = 1 }, *m, **found;

	if (!len || len > UINTPTR_MAX - (uintptr_t)addr)
		return NULL;
	found = tfind(&key, &tree, by_address);
	m = found ? *found : NULL;
	return m && len <= m->len - (size_t)((const uint8_t *)addr - m->addr) ? m : NULL;
}

static int memfd_sealed(size_t size)
{
	int fd = memfd_create("iwsock", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("iwsock", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		int err = errno;

		close(fd);
		return -err;
	}
	return fd;
}

static int map(struct prm_user *u, size_t size, int memfd, void **addr)
{
	struct prm_mem *m = calloc(1, sizeof(*m));
	void *p = m ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0) : MAP_FAILED;

	if (p != MAP_FAILED) {
		*m = (struct prm_mem){ .addr = p, .len = size, .user = u };
		if (tsearch(m, &tree, by_address)) {
			*addr = p;
			return 0;
		}
		munmap(p, size);
	}
	free(m);
	return -ENOMEM;
}

int prm_mem_create(struct prm_user *u, size_t size, void **addr, int *fd)
{
	int memfd = memfd_sealed(size), ret;

	if (memfd < 0)
		return memfd;
	ret = map(u, size, memfd, addr);
	if (!ret && fd)
		*fd = memfd;
	else
		close(memfd);
	return ret;
}

int prm_mem_adopt(struct prm_user *u, size_t size, int fd, void **addr)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || ~seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) || fstat(fd, &st) || !size || (uint64_t)st.st_size != size)
		return -EINVAL;
	return map(u, size, fd, addr);
}

void prm_mem_destroy(void *addr)
{
	struct prm_mem *m = addr ? prm_mem_find(addr, 1) : NULL;

	if (!m)
		return;
	while (m->mrs) {
		log_err("STag 0x%08x was still registered when its memory went", rnic_mr_stag(m->mrs));
		rnic_mr_revoke(m->mrs);
	}
	tdelete(m, &tree, by_address);
	munmap(m->addr, m->len);
	free(m);
}
