/* SPDX-License-Identifier: MIT */
/* The text of the drop-in that has a service load the library. */
#ifndef IWCTL_DROPIN_H
#define IWCTL_DROPIN_H

#include <jansson.h>
#include <stdbool.h>

/* The first line of each drop-in of ours begins so. */
#define DROPIN_MARK "# Written by \"iwctl service"
#define DROPIN_DIR  "# The directory was made for it, too.\n"

bool dropin_ours(const char *text);
/* LD_PRELOAD as it has to be: the library, then all that has (NULL: nothing) names besides. To free(). */
char *dropin_preload(const char *library, const char *has);
/* The value of NAME in an array of NAME=VALUE; NULL: none. */
const char *dropin_env(const json_t *environment, const char *name);
/*
 * The drop-in for a unit with these properties (systemd.h). own: the one that they have already, or NULL; environment: by the unit, not
 * by a file of the program's own; dir: its directory is ours. NULL: the unit needs none. To free().
 */
char *dropin_text(const json_t *unit, const char *name, const char *library, const char *own, bool environment, bool dir);
/* path is what an entry of the list says, or below it. */
bool dropin_covered(const json_t *list, const char *path);

#endif
