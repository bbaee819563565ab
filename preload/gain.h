/* SPDX-License-Identifier: MIT */
/* Whether a connection to another host is carried better by iWARP than by TCP, as far as it has shown what it carries. */
#ifndef IW_PRELOAD_GAIN_H
#define IW_PRELOAD_GAIN_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/*
 * T: a TCP socket, which has moved so many octets in so many calls. false: it sends large pieces, 24 KiB in the mean and eight times as much as it
 * receives at least, and TCP does not pace them (what would pace them on a short path is replaced by an upgrade, docs/upgrade.md 6). Who receives
 * such a stream does not judge: it is the sender's processor that is short.
 */
bool iw_gains(int tcp, uint64_t octets, uint32_t calls);

#pragma GCC visibility pop
#endif
