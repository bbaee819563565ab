/* SPDX-License-Identifier: MIT */
/* Close and CloseIdle of org.iwsock.Daemon1. */
#ifndef IWARPD_BUS_CLOSE_H
#define IWARPD_BUS_CLOSE_H

#include "conn.h"

/* A negative return is turned into an error reply. */
int bus_close(sd_bus_message *m, const struct bus_caller *who);

#endif
