/* SPDX-License-Identifier: MIT */
/* What the kernel says of a descriptor of ours: /proc/self/fdinfo, proc_pid_fdinfo(5). */
#ifndef IWARPD_FDINFO_H
#define IWARPD_FDINFO_H

#include <stdbool.h>
#include <stddef.h>

/* The first size - 1 octets of it, and a NUL. false: nothing can be read, as where /proc is not there. */
bool fdinfo(int fd, char *text, size_t size);
/* The number behind this name, which the kernel writes with a colon, or -1. */
long fdinfo_number(int fd, const char *name);

#endif
