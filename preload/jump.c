// SPDX-License-Identifier: MIT
/* longjmp() out of a handler leaves the calls that the handler interrupted. Whether it really does nobody can say here. */
#include "fault.h"
#include "handlers.h"
#include "init.h"
#include "lib.h"
#include "real.h"
#include "sleeps.h"

/* Not the header's, whose longjmp() is another one with _FORTIFY_SOURCE. */
#define JUMP(name) \
	IW_EXPORT void jump_##name(void *env, int v) __asm__(#name); \
	void jump_##name(void *env, int v) \
	{ \
		if (iw_unlikely(iw_sleeps)) \
			iw_sleeps_left(); \
		if (iw_unlikely(iw_handlers_step.n))	/* out of a fault's */ \
			iw_handlers_left(); \
		iw_faults_changed(); \
		iw_init(); \
		iw_real.name(env, v); \
	}

JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)
