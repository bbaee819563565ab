/* SPDX-License-Identifier: MIT */
/* For tests of a part of the library that go by no rings; NO_MAPS: nor has preload/map.c. */
#ifndef TESTS_UNIT_NO_RINGS_H
#define TESTS_UNIT_NO_RINGS_H

#include "preload/conf.h"
#include "preload/map.h"
#include "preload/paths/rings.h"

_Atomic uint8_t iw_conf_rings;
const struct iw_path_ops iw_rings, iw_rest;
struct iw_marks iw_rings_open;
bool iw_rings_begin(struct iw_stream *s, int fd, bool full) { return false; }
size_t iw_rings_end(struct iw_stream *s) { return 0; }
bool iw_rings_hold(struct iw_stream *s, bool away, uint32_t *epoch, bool *rest) { return false; }
bool iw_rings_hold_rest(struct iw_stream *s) { return false; }
bool iw_rings_behind(int carrier) { return false; }
void iw_rings_unmap(struct iw_stream *s) { }
void iw_rings_gone(struct iw_stream *s) { }
bool iw_rings_look(uint32_t set, bool sleeps) { return false; }
void iw_rings_look_at(struct iw_stream *s, bool sleeps) { }
bool iw_rings_still(struct iw_stream *s) { return false; }
void iw_rings_shut(struct iw_stream *s) { }

#ifdef NO_MAPS
bool iw_map_rings(int fd, struct iw_stream *s) { return false; }
const struct iw_path_ops iw_mapped;
#endif

#endif
