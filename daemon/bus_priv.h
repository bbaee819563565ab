/* SPDX-License-Identifier: MIT */
/* What bus.c (connections), bus_iface.c (methods) and bus_rows.c (lists) share. */
#ifndef IWARPD_BUS_PRIV_H
#define IWARPD_BUS_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-bus-vtable.h>

struct stream_info;

#define BUS_NAME "org.iwsock.Daemon1"
#define BUS_PATH "/org/iwsock/Daemon1"

/* Who asks, and so what may be shown to him. */
struct bus_caller {
	uint32_t uid;
	bool privileged;	/* root or the daemon's own user: sees everybody's connections */
};

struct bus_out {		/* a reply being filled; r: the first error */
	sd_bus_message *m;
	int r;
};
#define put(o, key, type, value) do { \
	if ((o)->r >= 0) \
		(o)->r = sd_bus_message_append((o)->m, "{sv}", key, type, value); \
} while (0)

/* Called by the vtable for every method. bus.c finds out who asks, at once or later, and calls bus_answer(). */
int bus_method(sd_bus_message *m, void *userdata, sd_bus_error *error);
/* Answer a method call; a negative return is turned into an error reply. */
int bus_answer(sd_bus_message *m, const struct bus_caller *who);
/* The same for the methods that answer with a list: at once or in batches. */
int bus_list(sd_bus_message *m, const struct bus_caller *who);
/* Close and CloseIdle. */
int bus_close(sd_bus_message *m, const struct bus_caller *who);
/* One stream as Streams tells it, into an open dictionary. */
void bus_put_stream(struct bus_out *o, const struct stream_info *i);
/* A reply was queued outside of sd_bus_process(): let it out. */
void bus_kick(sd_bus *bus);
bool bus_on_system(void);
extern uint64_t bus_started;	/* CLOCK_MONOTONIC ms */

extern const sd_bus_vtable bus_vtable[];

#endif
