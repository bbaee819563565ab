/* SPDX-License-Identifier: MIT */
/* Files that are read, and written, as a whole. */
#ifndef IWCTL_FILE_H
#define IWCTL_FILE_H

#include <sys/stat.h>

/* Its text, which ends with a NUL and has none in it, to free(); at most 1 MiB; no link. st may be NULL. NULL: errno. */
char *file_text(const char *path, struct stat *st);
/* The old file or the new one is there, never half of one. like: who owns it, and its mode; NULL: ours, 0644. 0 or -errno. */
int file_replace(const char *path, const char *text, const struct stat *like);

#endif
