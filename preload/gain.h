/* SPDX-License-Identifier: MIT */
/* Whether a connection to another host is carried better by iWARP than by TCP, as far as it has shown what it carries. */
#ifndef IW_PRELOAD_GAIN_H
#define IW_PRELOAD_GAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/ctlmsg.h"

#pragma GCC visibility push(hidden)

/*
 * T: a TCP socket, which has moved so many octets in so many calls; from_file: some by sendfile() or splice(), which copy nothing. It is no plain gain where it sends
 * large pieces one way, eight times as much as it receives at least: pieces of 24 KiB in the mean; or of 8 KiB, where TCP paces them (BBR, on a short path): there
 * those of less than 24 KiB, and of 96 KiB and more that are not from files, gain by losing that. Who receives such a stream does not judge: it is the
 * sender's processor that is short.
 */
enum iw_gain iw_gain(int tcp, uint64_t octets, uint32_t calls, bool from_file);

#pragma GCC visibility pop
#endif
