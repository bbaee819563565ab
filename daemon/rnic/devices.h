/* SPDX-License-Identifier: MIT */
/* RDMA devices as this daemon uses them, by name: which it may, and what they have carried. Whoever has libibverbs finds the devices themselves. */
#ifndef IWARPD_DEVICES_H
#define IWARPD_DEVICES_H

#include "daemon/base/list.h"
#include "endpoint.h"

#define DEVICE_NAME	64u	/* with its NUL: the kernel's IB_DEVICE_NAME_MAX */

struct device_info {
	char name[DEVICE_NAME];
	unsigned int streams;		/* that it carries */
	uint64_t carried;		/* that it has, with these */
	struct endpoint_stat stat;	/* of all of them */
};

struct device;
struct device_user {			/* in what it carries; all zero: it carries nothing */
	struct list node;
	struct device *device;
	const struct endpoint_stat *stat;
};

/* Does iwarpd.conf, device, allow it? */
bool device_may(const char *name);
/* Lives as long as the daemon: what it has carried is told when it is gone, too. After so many names the last stands for all others. */
struct device *device_named(const char *name);
const char *device_name(const struct device *d);
/* u and what it counts last until device_carries_no_more(), which does nothing to one that carries nothing. */
void device_carries(struct device *d, struct device_user *u, const struct endpoint_stat *stat);
void device_carries_no_more(struct device_user *u);
/* Those that have carried something, or can. */
void devices_foreach(void (*fn)(void *arg, const struct device_info *i), void *arg);

#endif
