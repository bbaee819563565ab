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
/* One that an interface has, or a loopback address; publishes it as LOCAL. */
bool addr_is_local(const uint8_t ip[16]);

#endif
