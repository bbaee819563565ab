/* SPDX-License-Identifier: MIT */
/* What iwsock.conf allows this process, and when. */
#ifndef IW_PRELOAD_CONF_H
#define IW_PRELOAD_CONF_H

#include <stdatomic.h>
#include <stdbool.h>

#include "proto/policy.h"

#pragma GCC visibility push(hidden)

enum iw_verb { IW_VERB_CONNECT, IW_VERB_LISTEN };

/*
 * Has a connection shown as little as to be left alone, whatever rule it has? Two loads; 0 limits until the file was read, so that the
 * first one who asks goes on to iw_conf_upgrade().
 */
extern _Atomic uint32_t iw_conf_least_calls, iw_conf_least_octets;
static inline bool iw_conf_young(uint32_t calls, uint32_t octets)
{
	return calls < atomic_load_explicit(&iw_conf_least_calls, memory_order_relaxed) &&
	       octets < atomic_load_explicit(&iw_conf_least_octets, memory_order_relaxed);
}
/* What its own rule says: one look per connection, when it is not young any more. false: plain TCP (policy); the limits are those of all. */
bool iw_conf_upgrade(enum iw_verb verb, const struct iw_addr *a, struct iw_upgrade *u);

extern _Atomic uint8_t iw_conf_spin;	/* enum iw_policy_spin. These once it was read */
extern _Atomic bool iw_conf_burst;
extern _Atomic uint8_t iw_conf_rings;	/* enum iw_policy_rings */

void iw_conf_load(void);	/* from now on the limits are those of the file */
void iw_conf_forked_child(void);

#pragma GCC visibility pop
#endif
