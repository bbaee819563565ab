/* SPDX-License-Identifier: MIT */
/* Replies and signals: dictionaries of strings and variants. */
#ifndef IWARPD_BUS_OUT_H
#define IWARPD_BUS_OUT_H

#include <stdint.h>
#include <systemd/sd-bus.h>

struct iw_addr;

struct bus_out {		/* a message being filled; r: the first error */
	sd_bus_message *m;
	int r;
};
#define put(o, key, type, value) do { \
	if ((o)->r >= 0) \
		(o)->r = sd_bus_message_append((o)->m, "{sv}", key, type, value); \
} while (0)

void put_ip(struct bus_out *o, const char *key, const uint8_t ip[16]);
void put_addr(struct bus_out *o, const char *key, const struct iw_addr *a);
void put_reason(struct bus_out *o, unsigned int reason);	/* its name and its number */
void put_program(struct bus_out *o, const char *key, const char *program);
void put_id(struct bus_out *o, uint64_t id);

#endif
