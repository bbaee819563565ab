/* SPDX-License-Identifier: MIT */
/* The D-Bus interface org.iwsock.Daemon1, on RUNDIR/bus.sock and, when there is one, on the system bus. */
#ifndef IWARPD_BUS_H
#define IWARPD_BUS_H

#include <stdbool.h>
#include <stdint.h>

int bus_start(void);
void bus_stop(void);
bool bus_on_system(void);	/* our name on the system bus is ours */
extern uint64_t bus_started;	/* CLOCK_MONOTONIC ms */

#endif
