/* SPDX-License-Identifier: MIT */
/* What systemd knows of services, and what it is asked to do with them. Errors are printed; results are exit codes of iwctl.h. */
#ifndef IWCTL_SYSTEMD_H
#define IWCTL_SYSTEMD_H

#include <jansson.h>

/* The properties of a service, as org.freedesktop.systemd1.Unit and .Service have them; name with its ".service". The caller owns *out. */
int systemd_service(const char *name, json_t **out);
/* Names of loaded units that a pattern of the shell matches; an array of strings. */
int systemd_matching(const char *pattern, json_t **out);
/* All processes of a unit; an array of numbers. */
int systemd_processes(const char *unit, json_t **out);
int systemd_reload(void);
/* Until it has been restarted, or that has failed. */
int systemd_restart(const char *unit);
/* How the unit of a process is called; NULL: it is of none. free() it. */
char *systemd_unit_of(unsigned int pid);

#endif
