/* SPDX-License-Identifier: MIT */
/* Ask the daemon over D-Bus. Errors are printed; the result is an exit code of iwctl.h, and with IWCTL_OK the caller owns *out. */
#ifndef IWCTL_BUS_H
#define IWCTL_BUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct sd_bus;
struct sd_bus_message;

int iwctl_query(const char *method, json_t **out);
int iwctl_by_ids(const char *method, char **ids, json_t **out);	/* ids, as streams shows them, end with NULL */
int iwctl_close_idle(uint64_t idle_ms, int64_t uid, json_t **out);	/* uid -1: everybody's */
int iwctl_connections(json_t **out);	/* streams and plain connections in one array */
int iwctl_probe(const char *host, uint16_t port, bool *ok, char **text);	/* text: free() */

/*
 * Subscribes, and calls fn with each signal, which takes what over and returns IWCTL_OK to go on, IWCTL_LISTENED when it has enough, or an exit
 * code. IWCTL_NO_DAEMON, too, when the daemon ends.
 */
#define IWCTL_LISTENED (-1)
int iwctl_listen(int (*fn)(const char *signal, json_t *what, void *arg), void *arg);

/* ---- for others of the bus ---- */

/* Until the bus has greeted: -ETIMEDOUT after so long. */
int iwctl_bus_greeting(struct sd_bus *bus, uint64_t limit_us);
/* The next value of a message; structures are arrays. NULL: not understood. */
json_t *iwctl_bus_value(struct sd_bus_message *m);

#endif
