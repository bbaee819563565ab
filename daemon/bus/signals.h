/* SPDX-License-Identifier: MIT */
/* The signals of org.iwsock.Daemon1: for those who called Subscribe, and of each only what its user may see. */
#ifndef IWARPD_BUS_SIGNALS_H
#define IWARPD_BUS_SIGNALS_H

#include "conn.h"

/* Subscribe and Unsubscribe. A negative return is turned into an error reply; -ENOSYS: it is another method. */
int bus_subscription(sd_bus_message *m, const struct bus_caller *who);
/* The connection ends, and with it all who subscribed on it. */
void bus_signals_gone(sd_bus *bus);
unsigned int bus_subscribers(void);
uint64_t bus_signals_missed(void);	/* that were left out for one of them, since start */

#endif
