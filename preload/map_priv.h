/* SPDX-License-Identifier: MIT */
/* What taking a map and giving it back share. */
#ifndef IW_PRELOAD_MAP_PRIV_H
#define IW_PRELOAD_MAP_PRIV_H

#include "proto/ctlmsg.h"
#include "preload/map.h"

#pragma GCC visibility push(hidden)

/* Streams that are mapped, or have something left of a ring. */
extern _Atomic uint32_t iw_maps;
/* Out of memory. */
void iw_map_vacate(struct iw_map *m, uint64_t len);
bool iw_map_survives_exec(int fd);
/* Behind the gate: nobody else has it, or is in a call on it, and nothing stands in the way of another file in its place. */
bool iw_map_may(int fd, struct iw_stream *s);
bool iw_map_dry(struct iw_stream *s, int fd);	/* nothing can be read from its carrier */
/* Under iw_tab_lock: it is as it was, and its registrations are out of all sets. */
bool iw_map_detach(int fd, struct iw_stream *s);
/* Behind the gate, of an end that is relayed: by the carrier itself again. */
bool iw_map_direct(int fd, struct iw_stream *s);
/* REST or DIRECT: the other carrier that the daemon gives for that one, with what belongs to the file; or -1. REST waits for a daemon. */
int iw_map_ask_carrier(enum iw_ctl_type type, int mine, int fd);
/* Under iw_tab_lock: another carrier in the place of the one that it had, under all its numbers. */
void iw_map_replace(struct iw_stream *s, int carrier);
/* An integer of SOL_SOCKET; 0: it has none. */
int iw_map_option(int fd, int name);

#pragma GCC visibility pop

#endif
