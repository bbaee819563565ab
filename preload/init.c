// SPDX-License-Identifier: MIT
/* Start-up: originals, switches of the environment, where the daemon may be. */
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "adopt.h"
#include "holders.h"
#include "init.h"
#include "lib.h"
#include "proc.h"
#include "quiet.h"
#include "real.h"
#include "sys.h"

_Atomic uint32_t iw_on;
static _Atomic uint32_t inited;
static char program[64], rundirs[2][100], conf[4096];

const char *iw_program(void)
{
	return program;
}

const char *iw_conf_name(void)
{
	return conf;
}

const char *iw_rundir(int i)
{
	return i < 2 && rundirs[i][0] ? rundirs[i] : NULL;
}

static void copy(char *to, size_t size, const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	if (n + m >= size)
		return;
	memcpy(to, a, n);
	memcpy(to + n, b, m + 1);
}

static void rundirs_init(void)
{
	const char *own = secure_getenv("IWSOCK_RUNDIR"), *xdg = secure_getenv("XDG_RUNTIME_DIR");

	if (own && *own) {
		copy(rundirs[0], sizeof(rundirs[0]), own, "");
		return;
	}
	copy(rundirs[0], sizeof(rundirs[0]), "/run/iwarpd", "");
	if (xdg && *xdg)
		copy(rundirs[1], sizeof(rundirs[1]), xdg, "/iwarpd");
}

/* Read now: by the time it is needed the program may have changed its environment. */
static void conf_init(void)
{
	const char *name = secure_getenv("IWSOCK_CONF");

	if (name)	/* a name that no file can have is one that cannot be read */
		copy(conf, sizeof(conf), strlen(name) < sizeof(conf) ? name : "/", "");
}

/* Constructors of other libraries may call us before ours ran; nobody runs threads that early. */
void iw_init(void)
{
	const char *off;
	size_t n;

	if (iw_likely(atomic_load_explicit(&inited, memory_order_acquire)))
		return;
	iw_real_init();
	if (atomic_exchange(&inited, 1))
		return;
	n = strnlen(program_invocation_short_name, sizeof(program) - 1);
	memcpy(program, program_invocation_short_name, n);
	rundirs_init();
	conf_init();
	iw_proc_init();
	off = secure_getenv("IWSOCK_DISABLE");
	if (!getauxval(AT_SECURE) && !(off && *off && strcmp(off, "0")))
		atomic_store(&iw_on, 1);
	if (!atomic_load(&iw_on))
		return;
	iw_holders_init((int)IW_SYS(getpid));
	iw_spawn_init();
	iw_quiet_init();
	iw_adopt_inherited();
}

__attribute__((constructor(101))) static void init(void)
{
	int saved = errno;

	iw_init();
	errno = saved;
}
