/* SPDX-License-Identifier: MIT */
/* Addresses as people write them. */
#ifndef IWCTL_ADDR_H
#define IWCTL_ADDR_H

#include <stdbool.h>
#include <stdint.h>

#define IWCTL_HOST_MAX 256
/* "host:port", "[v6]:port", "host"; port 0 when there is none. false: not of that form. */
bool iwctl_split_addr(const char *s, char host[IWCTL_HOST_MAX], uint16_t *port);

#endif
