/* SPDX-License-Identifier: MIT */
/*
 * iwsock.conf for this process, read once when first needed. A file that cannot be read or understood means plain TCP for
 * everything: the library cannot complain, so it does what harms nobody; 'iwctl check-policy' says what is wrong.
 */
#include <sys/mman.h>

#include "conf.h"
#include "init.h"
#include "lib.h"
#include "lock.h"
#include "sys.h"

#ifndef IW_SYSCONFDIR
#define IW_SYSCONFDIR "/etc"
#endif
#define SIZE_MAX_FILE	65536

static struct iw_policy policy;
static bool broken;
static char path[256];
_Atomic uint32_t iw_conf_least_calls, iw_conf_least_octets;
_Atomic bool iw_conf_burst;
_Atomic uint8_t iw_conf_rings;
_Atomic uint8_t iw_conf_spin;
static _Atomic uint32_t state;		/* 0 not read, 1 being read, 2 there */
static struct iw_lock policy_lock;

/* The file, or as much as fits plus one octet. -ENOENT: none. */
static long slurp(const char *name, char *buf, size_t size)
{
	long fd = IW_SYS(openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0), n = 0, r;

	if (fd < 0)
		return fd;
	do {
		r = IW_SYS(read, fd, buf + n, size - (size_t)n);
		if (r > 0)
			n += r;
	} while ((r > 0 && (size_t)n < size) || r == -EINTR);
	IW_SYS(close, fd);
	return r < 0 ? r : n;
}

static void load(void)
{
	struct iw_upgrade_limits least;
	const char *name = iw_conf_name();
	size_t size = SIZE_MAX_FILE + 1;
	long mem = IW_SYS(mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), n;
	bool named = *name;

	n = IW_SYS(readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof(path) - 1);
	if (n < 0)
		path[0] = 0;
	broken = mem < 0 && mem > -4096;
	if (!broken) {
		n = slurp(named ? name : IW_SYSCONFDIR "/iwsock/iwsock.conf", (char *)mem, size);
		if (n == -ENOENT && !named)
			n = 0;
		broken = n < 0 || n > SIZE_MAX_FILE || iw_policy_parse(&policy, (char *)mem, (size_t)n, "", NULL, 0);
		IW_SYS(munmap, mem, size);
	}
	if (broken)
		iw_policy_parse(&policy, "", 0, "", NULL, 0);
	atomic_store_explicit(&iw_conf_burst, policy.burst, memory_order_relaxed);
	atomic_store_explicit(&iw_conf_rings, policy.rings, memory_order_relaxed);
	atomic_store_explicit(&iw_conf_spin, policy.spin, memory_order_relaxed);
	least = iw_policy_least(&policy, iw_program(), path);
	atomic_store_explicit(&iw_conf_least_calls, least.calls, memory_order_relaxed);
	atomic_store_explicit(&iw_conf_least_octets, least.octets, memory_order_relaxed);
}

void iw_conf_load(void)
{
	uint64_t sigs;

	if (iw_likely(atomic_load_explicit(&state, memory_order_acquire) == 2))
		return;
	sigs = iw_lock(&policy_lock);
	if (atomic_load(&state) != 2) {
		load();
		atomic_store_explicit(&state, 2, memory_order_release);
	}
	iw_unlock(&policy_lock, sigs);
}

void iw_conf_forked_child(void)
{
	atomic_store(&policy_lock.v, 0);
}

bool iw_conf_upgrade(enum iw_verb verb, const struct iw_addr *a, struct iw_upgrade *u)
{
	unsigned int v = verb == IW_VERB_CONNECT ? IW_POLICY_CONNECT : IW_POLICY_LISTEN;
	bool iwarp;
	int rule;

	iw_conf_load();
	iwarp = iw_policy_match(&policy, v, iw_program(), path, a, &rule);
	*u = rule < 0 ? policy.upgrade : policy.rule[rule].upgrade;
	return iwarp && !broken;
}
