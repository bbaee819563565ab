// SPDX-License-Identifier: MIT
/* Datagrams to the service manager that never wait. */
#include "notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "engine.h"
#include "list.h"

#define AGAIN_MS	50u

static const char *path_of(size_t *len)
{
	const char *path = getenv("NOTIFY_SOCKET");

	*len = path ? strlen(path) : 0;
	return path;
}

/* 0 or -errno. */
static int say(const char *text, const int *fds, unsigned int n)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct iovec iov = { (char *)text, strlen(text) };
	struct msghdr m = { .msg_name = &a, .msg_iov = &iov, .msg_iovlen = 1 };
	union {
		struct cmsghdr h;
		uint8_t room[CMSG_SPACE(NOTIFY_FDS * sizeof(int))];
	} control = { 0 };
	size_t len;
	const char *path = path_of(&len);
	static int fd = -1;

	if (!len)
		return -ENOENT;
	if ((*path != '/' && *path != '@') || len >= sizeof(a.sun_path))
		return sd_pid_notify_with_fds(0, 0, text, fds, n);
	memcpy(a.sun_path, path, len);
	if (*path == '@')
		a.sun_path[0] = 0;
	m.msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	if (n) {
		m.msg_control = control.room;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.h.cmsg_level = SOL_SOCKET;
		control.h.cmsg_type = SCM_RIGHTS;
		control.h.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.h), fds, n * sizeof(int));
	}
	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void notify(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say(text, NULL, 0);
}

/* ---- the store ---- */

struct forgotten {
	struct list node;
	char name[];
};
static struct list forgotten = { &forgotten, &forgotten };
static struct timer again;

bool notify_keeps(void)
{
	size_t len;

	path_of(&len);
	return len;
}

int notify_keep(const char *name, const int *fds, unsigned int n)
{
	char text[NOTIFY_NAME + 64];
	int ret;

	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	ret = say(text, fds, n);
	return ret == -EAGAIN ? ret : ret < 0;
}

static bool removed(const char *name)
{
	char text[NOTIFY_NAME + 64];

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	return say(text, NULL, 0) != -EAGAIN;
}

static void forget_more(struct timer *t)
{
	list_each(n, nxt, &forgotten) {
		struct forgotten *f = list_entry(n, struct forgotten, node);

		if (!removed(f->name)) {
			timer_start(t, AGAIN_MS, forget_more);
			return;
		}
		list_del(n);
		free(f);
	}
}

void notify_forget(const char *name)
{
	struct forgotten *f;

	if (list_empty(&forgotten) && removed(name))
		return;
	f = malloc(sizeof(*f) + strlen(name) + 1);
	if (!f)
		return;
	strcpy(f->name, name);
	list_add_tail(&forgotten, &f->node);
	if (!again.due)
		timer_start(&again, AGAIN_MS, forget_more);
}
