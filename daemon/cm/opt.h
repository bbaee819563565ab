/* SPDX-License-Identifier: MIT */
/* Socket options of a stream's TCP socket on behalf of its application. */
#ifndef IWARPD_OPT_H
#define IWARPD_OPT_H

#include "ctl.h"

int ctl_option(struct client *c, const struct iw_ctl_opt *m);

#endif
