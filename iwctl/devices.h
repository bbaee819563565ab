/* SPDX-License-Identifier: MIT */
/* RDMA devices of this host, with what the daemon does with them. */
#ifndef IWCTL_DEVICES_H
#define IWCTL_DEVICES_H

#include <jansson.h>

/* Those that the kernel has, and those that the daemon had. The caller owns *out. An exit code. */
int iwctl_devices(json_t **out);

#endif
