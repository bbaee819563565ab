// SPDX-License-Identifier: MIT
/* Start-up: originals, switches of the environment, where the daemon may be; socket() and socketpair(), where fds begin. */
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "core.h"

IW_EXPORT int socket(int domain, int type, int protocol);
IW_EXPORT int socketpair(int domain, int type, int protocol, int sv[2]);

_Atomic uint32_t iw_on;
static _Atomic uint32_t inited;
static char program[64], rundirs[2][100], conf[4096];

const char *iw_program(void)
{
	return program;
}

const char *iw_conf(void)
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
	const char *off, *fds;
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
	fds = secure_getenv("LISTEN_FDS");
	if (fds)
		iw_listeners_activated(atoi(fds) & 1023);
	iw_adopt_inherited();
}

__attribute__((constructor(101))) static void init(void)
{
	int saved = errno;

	iw_init();
	errno = saved;
}

int socket(int domain, int type, int protocol)
{
	int saved = errno, fd;

	iw_init();
	fd = iw_real.socket(domain, type, protocol);
	if (fd < 0 || !atomic_load_explicit(&iw_on, memory_order_relaxed) || fd >= IW_FD_MAX)
		return fd;
	if ((domain == AF_INET || domain == AF_INET6) && (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM &&
	    (protocol == 0 || protocol == IPPROTO_TCP))
		iw_fd_born(fd, iw_tcp_word(iw_tcp_new_serial(), 0));
	else
		iw_fd_born(fd, IW_OTHER_SEEN);
	errno = saved;
	return fd;
}

int socketpair(int domain, int type, int protocol, int sv[2])
{
	int saved = errno, ret;

	ret = iw_real.socketpair(domain, type, protocol, sv);
	if (ret || !atomic_load_explicit(&iw_on, memory_order_relaxed))
		return ret;
	for (int i = 0; i < 2; i++)
		if (sv[i] < IW_FD_MAX)
			iw_fd_born(sv[i], IW_OTHER_SEEN);
	errno = saved;
	return ret;
}
