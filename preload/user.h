/* SPDX-License-Identifier: MIT */
/* Memory of the application, where the kernel would answer EFAULT for a bad pointer. */
#ifndef IW_PRELOAD_USER_H
#define IW_PRELOAD_USER_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "lib.h"

#pragma GCC visibility push(hidden)

/*
 * Can all n octets be read, or written? By touching each page; where faults may not come (fault.h) by one short system call per page, to read per
 * two, unless it is the page of the caller's stack.
 */
bool iw_user_readable(const void *user, size_t n);
bool iw_user_writable(void *user, size_t n);
/* The same of memory whose octets do not matter, since all of them are about to be overwritten: as reading. */
bool iw_user_fillable(void *user, size_t n);

/* The same of what a thread gives again and again: it is asked once. */
struct iw_user_good {
	void *user;
	size_t n;
};

static inline bool iw_user_writable_still(struct iw_user_good *good, void *user, size_t n)
{
	if (user == good->user && n <= good->n)
		return true;
	if (!iw_user_writable(user, n))
		return false;
	*good = (struct iw_user_good){ user, n };
	return true;
}

/* 0 or -EFAULT. */
static inline int iw_copy_in(void *dst, const void *user, size_t n)
{
	if (!iw_user_readable(user, n))
		return -EFAULT;
	if (n)
		memcpy(dst, user, n);
	return 0;
}

static inline int iw_copy_out(void *user, const void *src, size_t n)
{
	if (!iw_user_writable(user, n))
		return -EFAULT;
	if (n)
		memcpy(user, src, n);
	return 0;
}

/* A signal mask that the kernel would take before it looks at anything else. */
static inline bool iw_mask_ok(const sigset_t *mask)
{
	return !mask || iw_user_readable(mask, 8);
}

/* The length that the application gives with its buffer. -1 with errno as the kernel has it. */
static inline int iw_room_in(socklen_t *room, const socklen_t *len)
{
	if (iw_copy_in(room, len, sizeof(*room)))
		return iw_fail(EFAULT);
	return (int)*room < 0 ? iw_fail(EINVAL) : 0;
}

/* A message header and, for a sender, its address, as the kernel takes them before it looks at the vector. 0 or -errno. */
int iw_msg_in(struct msghdr *m, const struct msghdr *user, bool sending);
/* As many octets the kernel moves at once. A call of the socket cuts its length before it looks at the buffer, a call of any file afterwards. */
#define IW_RW_MOST 0x7ffff000u
/* A buffer, and the vector of such a header, as the kernel takes them before it asks the socket: is it an address at all? 0 or -errno. */
int iw_buf_check(const void *buf, size_t len);
int iw_iov_check(const struct msghdr *m);

/* Of a vector that the kernel or iw_iov_check() has seen. */
static inline size_t iw_iov_total(const struct iovec *v, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i].iov_len;
	return sum;
}

#pragma GCC visibility pop
#endif
