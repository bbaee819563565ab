/* SPDX-License-Identifier: MIT */
/* What the service manager is told while the daemon runs; sd_notify() would wait for one that does not read. */
#ifndef IWARPD_NOTIFY_H
#define IWARPD_NOTIFY_H

/* As sd_notify(0, ...), but what does not go at once is dropped: the next one is as good. */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
