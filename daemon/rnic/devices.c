// SPDX-License-Identifier: MIT
/* RDMA devices as this daemon uses them: which it may, and what they have carried. */
#include "devices.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/conf.h"

#define DEVICES	64u

static struct device {
	char name[DEVICE_NAME];
	struct list users;
	uint64_t carried;
	struct endpoint_stat past;	/* of those that have ended */
} devices[DEVICES];
static unsigned int known;

bool device_may(const char *name)
{
	return !fnmatch(conf.device, name, 0);
}

struct device *device_named(const char *name)
{
	unsigned int i = 0;

	while (i < known && strcmp(devices[i].name, name))
		i++;
	if (i == DEVICES)
		return &devices[DEVICES - 1];
	if (i == known) {
		snprintf(devices[i].name, DEVICE_NAME, "%s", known == DEVICES - 1 ? "others" : name);
		list_init(&devices[i].users);
		known++;
	}
	return &devices[i];
}

const char *device_name(const struct device *d)
{
	return d->name;
}

void device_carries(struct device *d, struct device_user *u, const struct endpoint_stat *stat)
{
	d->carried++;
	u->device = d;
	u->stat = stat;
	list_add_tail(&d->users, &u->node);
}

void device_carries_no_more(struct device_user *u)
{
	if (!u->device)
		return;
	endpoint_stat_add(&u->device->past, u->stat);
	list_del(&u->node);
	u->device = NULL;
}

void devices_foreach(void (*fn)(void *arg, const struct device_info *i), void *arg)
{
	for (unsigned int d = 0; d < known; d++) {
		struct device_info i = { .carried = devices[d].carried, .stat = devices[d].past };

		memcpy(i.name, devices[d].name, sizeof(i.name));
		list_each (pos, nxt, &devices[d].users) {
			endpoint_stat_add(&i.stat, list_entry(pos, struct device_user, node)->stat);
			i.streams++;
		}
		fn(arg, &i);
	}
}
