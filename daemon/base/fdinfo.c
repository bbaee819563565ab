// SPDX-License-Identifier: MIT
/* What the kernel says of a descriptor of ours: fdinfo.h. */
#include "fdinfo.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool fdinfo(int fd, char *text, size_t size)
{
	char path[40];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, text, size - 1);
	close(fd);
	text[len < 0 ? 0 : len] = 0;
	return len >= 0;
}

long fdinfo_number(int fd, const char *name)
{
	char text[512], *p;

	p = fdinfo(fd, text, sizeof(text)) ? strstr(text, name) : NULL;
	return p ? strtol(p + strlen(name), NULL, 10) : -1;
}
