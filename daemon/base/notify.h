/* SPDX-License-Identifier: MIT */
/* What the service manager is told while the daemon runs; sd_notify() would wait for one that does not read. */
#ifndef IWARPD_NOTIFY_H
#define IWARPD_NOTIFY_H

#include <stdbool.h>

/* As sd_notify(0, ...), but what does not go at once is dropped: the next one is as good. */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Descriptors that the manager is to keep and pass to the daemon after us, all by that name; it may also have no store, or a full one. 0; 1: it is gone;
 * -EAGAIN: it has too much to read. Until notify_forget(), which is said again until it goes.
 */
#define NOTIFY_FDS	8u
#define NOTIFY_NAME	96u
bool notify_keeps(void);		/* it is there, and perhaps keeps something */
int notify_keep(const char *name, const int *fds, unsigned int n);
void notify_forget(const char *name);

#endif
