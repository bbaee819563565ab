/* SPDX-License-Identifier: MIT */
/* What org.iwsock.Daemon1 changes: Close, CloseIdle, Upgrade, Downgrade. */
#ifndef IWARPD_BUS_CHANGE_H
#define IWARPD_BUS_CHANGE_H

#include "conn.h"

/* A negative return is turned into an error reply. */
int bus_change(sd_bus_message *m, const struct bus_caller *who);

#endif
