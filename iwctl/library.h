/* SPDX-License-Identifier: MIT */
/* Where the library is installed. */
#ifndef IWCTL_LIBRARY_H
#define IWCTL_LIBRARY_H

#include <limits.h>

/* Its path, without links: beside this program as it was built, where the loader finds it by its name, or in lib beside our bin. 0, -ENOENT. */
int iwctl_library(char path[PATH_MAX]);

#endif
