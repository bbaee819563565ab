/* SPDX-License-Identifier: MIT */
/* Replies: dictionaries of strings and variants. */
#ifndef IWARPD_BUS_OUT_H
#define IWARPD_BUS_OUT_H

#include <systemd/sd-bus.h>

struct bus_out {		/* a reply being filled; r: the first error */
	sd_bus_message *m;
	int r;
};
#define put(o, key, type, value) do { \
	if ((o)->r >= 0) \
		(o)->r = sd_bus_message_append((o)->m, "{sv}", key, type, value); \
} while (0)

#endif
