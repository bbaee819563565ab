/* SPDX-License-Identifier: MIT */
/* Registered listeners. */
#ifndef IWARPD_LISTENERS_H
#define IWARPD_LISTENERS_H

#include "ctl.h"

enum iw_reason listener_add(struct client *c, int fd, uint64_t *cookie);
void listener_del(struct client *c, uint64_t cookie);
void listeners_client_gone(struct client *c);
bool listener_match(const struct iw_addr *dst);

#endif
