/* SPDX-License-Identifier: MIT */
/* The methods of org.iwsock.Daemon1 that answer with a list. */
#ifndef IWARPD_BUS_ROWS_H
#define IWARPD_BUS_ROWS_H

#include "conn.h"
#include "out.h"

struct endpoint_stat;
struct plain_info;
struct stream_ended;
struct stream_info;

/* At once or in batches. A negative return is turned into an error reply. */
int bus_list(sd_bus_message *m, const struct bus_caller *who);
/* One stream as Streams tells it, one plain connection as Plain does, one that has ended as Ended does, into an open dictionary. */
void bus_put_stream(struct bus_out *o, const struct stream_info *i);
void bus_put_plain(struct bus_out *o, const struct plain_info *i);
void bus_put_ended(struct bus_out *o, const struct stream_ended *e);
const char *bus_peer_state(unsigned int state);
/* What an endpoint, or several, have counted. */
void bus_put_counts(struct bus_out *o, const struct endpoint_stat *s);

#endif
