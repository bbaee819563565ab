/* SPDX-License-Identifier: MIT */
/* The D-Bus interface org.iwsock.Daemon1, on RUNDIR/bus.sock and, when there is one, on the system bus. */
#ifndef IWARPD_BUS_H
#define IWARPD_BUS_H

int bus_start(void);
void bus_stop(void);

#endif
