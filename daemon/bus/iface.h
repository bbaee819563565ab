/* SPDX-License-Identifier: MIT */
/* The methods of org.iwsock.Daemon1. */
#ifndef IWARPD_BUS_IFACE_H
#define IWARPD_BUS_IFACE_H

#include <systemd/sd-bus-vtable.h>

#include "conn.h"

#define BUS_NAME "org.iwsock.Daemon1"
#define BUS_PATH "/org/iwsock/Daemon1"

extern const sd_bus_vtable bus_vtable[];
/* Answer a method call; a negative return is turned into an error reply. */
int bus_answer(sd_bus_message *m, const struct bus_caller *who);

#endif
