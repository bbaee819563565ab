// SPDX-License-Identifier: MIT
/* vfork() and clone(): children that run in the memory of their parent, so that calls know when to ask who they are. */
#include <sched.h>
#include <stdarg.h>
#include <sys/types.h>

#include "holders.h"
#include "init.h"
#include "lib.h"
#include "proc.h"
#include "real.h"

IW_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
IW_EXPORT pid_t vfork(void);
IW_EXPORT pid_t __vfork(void);

__attribute__((visibility("hidden"), used)) void iw_vfork_begin(void);
__attribute__((visibility("hidden"), used)) long iw_vfork_end(long r);

void iw_vfork_begin(void)
{
	iw_init();
	if (!iw_in_vfork())
		iw_between_switches(iw_holders_spawn, true);
	atomic_fetch_add(&iw_vforks, 1);
}

/* In the parent. r: pid, or -errno. */
long iw_vfork_end(long r)
{
	atomic_fetch_sub(&iw_vforks, 1);
	return r < 0 ? iw_fail((int)-r) : r;
}

/* The child returns first, on our stack: what the parent still needs is in registers. */
#if defined(__x86_64__)
__asm__(".text\n"
	".globl vfork, __vfork\n"
	".type vfork, @function\n"
	".type __vfork, @function\n"
	"vfork:\n"
	"__vfork:\n"
	"	endbr64\n"
	"	sub	$8, %rsp\n"
	"	call	iw_vfork_begin\n"
	"	add	$8, %rsp\n"
	"	pop	%rdi\n"
	"	mov	$58, %eax\n"		/* SYS_vfork */
	"	syscall\n"
	"	push	%rdi\n"
	"	test	%rax, %rax\n"
	"	jz	1f\n"
	"	mov	%rax, %rdi\n"
	"	sub	$8, %rsp\n"
	"	call	iw_vfork_end\n"
	"	add	$8, %rsp\n"
	"	xor	%ecx, %ecx\n"		/* the child has spoilt our entry of a shadow stack, if there is one */
	"	rdsspq	%rcx\n"
	"	test	%rcx, %rcx\n"
	"	jz	1f\n"
	"	mov	$1, %ecx\n"
	"	incsspq	%rcx\n"
	"	pop	%rdx\n"
	"	notrack jmp *%rdx\n"
	"1:	ret\n"
	".size vfork, . - vfork\n"
	".size __vfork, . - __vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork, __vfork\n"
	".type vfork, %function\n"
	".type __vfork, %function\n"
	"vfork:\n"
	"__vfork:\n"
	"	hint	#34\n"			/* bti c */
	"	stp	x29, x30, [sp, -16]!\n"
	"	bl	iw_vfork_begin\n"
	"	ldp	x29, x30, [sp], 16\n"
	"	mov	x0, #0x4111\n"		/* CLONE_VM | CLONE_VFORK | SIGCHLD */
	"	mov	x1, xzr\n"
	"	mov	x8, #220\n"		/* SYS_clone */
	"	svc	#0\n"
	"	cbz	x0, 1f\n"
	"	b	iw_vfork_end\n"
	"1:	ret\n"
	".size vfork, . - vfork\n"
	".size __vfork, . - __vfork\n");
#endif

/* One that is no thread and shares our memory may do so for ever. */
int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	pid_t *parent, *child;
	void *tls;
	va_list ap;

	iw_init();
	va_start(ap, arg);
	parent = va_arg(ap, pid_t *);
	tls = va_arg(ap, void *);
	child = va_arg(ap, pid_t *);
	va_end(ap);
	if ((flags & CLONE_VFORK) && (flags & CLONE_VM))
		iw_between_switches(iw_holders_spawn, true);
	else if (!(flags & CLONE_THREAD))
		iw_between_switches(iw_holders_uncounted, true);
	if ((flags & CLONE_VM) && !(flags & CLONE_THREAD))
		atomic_fetch_add(&iw_vforks, 1);
	return iw_real.clone(fn, stack, flags, arg, parent, tls, child);
}
