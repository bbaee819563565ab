/* SPDX-License-Identifier: MIT */
/* The path of a stream that nobody bypasses: every octet goes through its carrier. */
#ifndef IW_PRELOAD_PATHS_CARRIER_H
#define IW_PRELOAD_PATHS_CARRIER_H

#include "preload/path.h"

#pragma GCC visibility push(hidden)

extern const struct iw_path_ops iw_carrier;

#pragma GCC visibility pop
#endif
