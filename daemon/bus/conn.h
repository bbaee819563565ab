/* SPDX-License-Identifier: MIT */
/* Connections of the D-Bus interface. */
#ifndef IWARPD_BUS_CONN_H
#define IWARPD_BUS_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>

/* Who asks, and so what may be shown to him. */
struct bus_caller {
	uint32_t uid;
	bool privileged;	/* root or the daemon's own user: sees everybody's connections */
};
bool bus_privileged(uint32_t uid);

/* One more of this caller's? */
bool bus_conn_room(const struct bus_caller *who);
/* Takes b on success. peer: its only caller; NULL on the system bus, and gone is then called when it is lost. */
int bus_conn_add(sd_bus *b, const struct bus_caller *peer, void (*gone)(void));
void bus_conns_drop(void);
/* A reply was queued outside of sd_bus_process(): let it out. */
void bus_kick(sd_bus *bus);
/* Called by the vtable for every method: finds out who asks, at once or later, and calls bus_answer(). */
int bus_method(sd_bus_message *m, void *userdata, sd_bus_error *error);

#endif
