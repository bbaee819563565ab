// SPDX-License-Identifier: MIT
/*
 * Looks at memory of the application: it is touched where a fault can come to no harm. Elsewhere the kernel is asked by calls that do nothing else,
 * of those that the library cannot do without, so that a sandbox which lets it run lets them pass too.
 */
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>

#include "fault.h"
#include "sys.h"
#include "user.h"

#define PAGE	4096u	/* the smallest there is */

/* The stack is there. */
static bool of_stack(uintptr_t a)
{
	return a / PAGE == (uintptr_t)__builtin_frame_address(0) / PAGE;
}

/* A mask is read before what is to be done with it turns out to be nonsense. */
static bool eight_read(uintptr_t a)
{
	return IW_SYS(rt_sigprocmask, -1, a, NULL, 8) != -EFAULT;
}

static bool page_reads(uintptr_t a)
{
	return eight_read(a & ~(uintptr_t)7);
}

/* The mask as it is goes there. */
static bool eight_overwrite(uintptr_t a)
{
	return IW_SYS(rt_sigprocmask, SIG_BLOCK, NULL, a, 8) >= 0;
}

/* The second futex is or-ed with nothing, atomically; of the first there are none to wake. */
static bool page_writes(uintptr_t a)
{
	static uint32_t nobody;

	return IW_SYS(futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, a & ~(uintptr_t)3, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, 0)) >= 0;
}

static bool touched(uintptr_t a, uintptr_t end, int (*touch)(uintptr_t a))
{
	for (; a < end; a = (a | (PAGE - 1)) + 1)
		if (iw_unlikely(touch(a)))
			return false;
	return true;
}

/* Of eight octets over an edge one call sees two pages. They lie within the n. */
static bool all_pages(uintptr_t a, size_t n, int (*touch)(uintptr_t a), bool (*one)(uintptr_t a), bool (*eight)(uintptr_t a))
{
	uintptr_t end = a + n, edge;

	if (!n)
		return true;
	if (a < PAGE || end < a || (intptr_t)end < 0)
		return false;
	if (iw_likely(iw_faults_come()))
		return touched(a, end, touch);
	for (; a < end; a = edge) {
		edge = (a | (PAGE - 1)) + 1;
		if (of_stack(a))
			continue;
		if (eight && edge - a >= 4 && end >= edge + 4) {
			if (!eight(edge - 4))
				return false;
			edge += PAGE;
		} else if (!(eight && edge - a >= 8 && end - a >= 8 ? eight(a) : one(a))) {
			return false;
		}
	}
	return true;
}

bool iw_user_readable(const void *user, size_t n)
{
	return all_pages((uintptr_t)user, n, iw_touch_read, page_reads, eight_read);
}

bool iw_user_writable(void *user, size_t n)
{
	return all_pages((uintptr_t)user, n, iw_touch_write, page_writes, NULL);
}

bool iw_user_fillable(void *user, size_t n)
{
	return all_pages((uintptr_t)user, n, iw_touch_write, page_writes, eight_overwrite);
}

int iw_msg_in(struct msghdr *m, const struct msghdr *user, bool sending)
{
	if (iw_copy_in(m, user, sizeof(*m)))
		return -EFAULT;
	if (!m->msg_name)
		m->msg_namelen = 0;
	if ((int)m->msg_namelen < 0)
		return -EINVAL;
	if (m->msg_namelen > sizeof(struct sockaddr_storage))
		m->msg_namelen = sizeof(struct sockaddr_storage);
	if (sending && !iw_user_readable(m->msg_name, m->msg_namelen))
		return -EFAULT;
	return m->msg_iovlen > UIO_MAXIOV ? -EMSGSIZE : 0;
}

int iw_buf_check(const void *buf, size_t len)
{
	uintptr_t a = (uintptr_t)buf, end = a + len;

	return (intptr_t)a < 0 || (intptr_t)end < 0 || end < a ? -EFAULT : 0;
}

int iw_iov_check(const struct msghdr *m)
{
	if (!iw_user_readable(m->msg_iov, m->msg_iovlen * sizeof(*m->msg_iov)))
		return -EFAULT;
	for (size_t i = 0; i < m->msg_iovlen; i++)
		if ((ssize_t)m->msg_iov[i].iov_len < 0)
			return -EINVAL;
	for (size_t i = 0; i < m->msg_iovlen; i++)
		if (iw_buf_check(m->msg_iov[i].iov_base, m->msg_iov[i].iov_len))
			return -EFAULT;
	return 0;
}
