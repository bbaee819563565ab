// SPDX-License-Identifier: MIT
/* Datagrams to the service manager that never wait. */
#include "notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

void notify(const char *fmt, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	static int fd = -1;
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!len)
		return;
	if ((*path != '/' && *path != '@') || len >= sizeof(a.sun_path)) {
		sd_notify(0, text);
		return;
	}
	memcpy(a.sun_path, path, len);
	if (*path == '@')
		a.sun_path[0] = 0;
	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&a,
	       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}
