/* SPDX-License-Identifier: MIT */
/* The addresses of this host. */
#ifndef IWARPD_LOCALS_H
#define IWARPD_LOCALS_H

#include <stdbool.h>
#include <stdint.h>

void locals_start(void);
void locals_stop(void);
/* One that an interface has. */
bool local_listed(const uint8_t ip[16]);
/* One that an interface has, or a loopback address; publishes it as LOCAL. Or one that is claimed. */
bool addr_is_local(const uint8_t ip[16]);

/*
 * One of another network namespace of this host, by its cookie, which a program there says it has; as often as it is given up. false: it is
 * this namespace's, or another one's, no address of one interface, or there are too many.
 */
bool local_claim(const uint8_t ip[16], uint64_t netns);
void local_unclaim(const uint8_t ip[16]);

#endif
