/* SPDX-License-Identifier: MIT */
/* What taking a map and giving it back share. */
#ifndef IW_PRELOAD_MAP_PRIV_H
#define IW_PRELOAD_MAP_PRIV_H

#include "preload/map.h"

#pragma GCC visibility push(hidden)

/* Streams that are mapped, or have something left of a ring. */
extern _Atomic uint32_t iw_maps;
/* Out of memory. */
void iw_map_vacate(struct iw_map *m, uint64_t len);
bool iw_map_survives_exec(int fd);
/* An integer of SOL_SOCKET; 0: it has none. */
int iw_map_option(int fd, int name);

#pragma GCC visibility pop

#endif
