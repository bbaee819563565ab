/* SPDX-License-Identifier: MIT */
/*
 * System calls without libc: they return -errno, touch no errno, are no cancellation points and cannot be intercepted.
 * Numbers come from <sys/syscall.h>; old calls that aarch64 lacks are built from their successors here.
 */
#ifndef IW_PRELOAD_SYS_H
#define IW_PRELOAD_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>

static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
	return x0;
#else
#error "iwsock knows the system calls of x86_64 and aarch64 only"
#endif
}

/* What syscall() was given, however many they are: those that are not are anything. */
static inline void iw_six(long a[6], va_list ap)
{
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
}

/* IW_SYS(name, args...): up to six arguments of any scalar type. */
#define IW_SYS_PICK(_0, _1, _2, _3, _4, _5, _6, name, ...) name
#define IW_SYS(...) IW_SYS_PICK(__VA_ARGS__, IW_SYS6, IW_SYS5, IW_SYS4, IW_SYS3, IW_SYS2, IW_SYS1, IW_SYS0)(__VA_ARGS__)
#define IW_L(x) ((long)(x))
#define IW_SYS0(n) sys6(SYS_##n, 0, 0, 0, 0, 0, 0)
#define IW_SYS1(n, a) sys6(SYS_##n, IW_L(a), 0, 0, 0, 0, 0)
#define IW_SYS2(n, a, b) sys6(SYS_##n, IW_L(a), IW_L(b), 0, 0, 0, 0)
#define IW_SYS3(n, a, b, c) sys6(SYS_##n, IW_L(a), IW_L(b), IW_L(c), 0, 0, 0)
#define IW_SYS4(n, a, b, c, d) sys6(SYS_##n, IW_L(a), IW_L(b), IW_L(c), IW_L(d), 0, 0)
#define IW_SYS5(n, a, b, c, d, e) sys6(SYS_##n, IW_L(a), IW_L(b), IW_L(c), IW_L(d), IW_L(e), 0)
#define IW_SYS6(n, a, b, c, d, e, f) sys6(SYS_##n, IW_L(a), IW_L(b), IW_L(c), IW_L(d), IW_L(e), IW_L(f))

/* -errno of a raw call to the return value of the libc function of that name. */
static inline long iw_ret(long r)
{
	if (r < 0 && r > -4096) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

#endif
