/* SPDX-License-Identifier: MIT */
/* A pair that is relayed becomes direct again: who asked, and what has become of it. */
#ifndef IWARPD_DIRECT_H
#define IWARPD_DIRECT_H

#include "ctl.h"

int cm_direct(struct client *c, const struct iw_ctl_fdmsg *m, int fd);
void direct_said(struct client *c, uint64_t id);	/* SWITCHED or ABANDON of that stream: the page says which */
void direct_client_gone(struct client *c);

#endif
