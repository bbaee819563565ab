// SPDX-License-Identifier: MIT
/* /proc/thread-self/fdinfo. */
#include <string.h>
#include <sys/sysmacros.h>

#include "fdinfo.h"
#include "sys.h"

#define DIR	"/proc/thread-self/fdinfo/"

int iw_fdinfo_open(struct iw_fdinfo *f, int fd)
{
	char name[sizeof(DIR) + 11], *p = name + sizeof(name);

	*--p = 0;
	do
		*--p = (char)('0' + fd % 10);
	while (fd /= 10);
	p -= sizeof(DIR) - 1;
	memcpy(p, DIR, sizeof(DIR) - 1);
	f->at = f->have = 0;
	f->fd = (int)IW_SYS(openat, AT_FDCWD, p, O_RDONLY | O_CLOEXEC, 0);
	return f->fd < 0 ? f->fd : 0;
}

void iw_fdinfo_close(struct iw_fdinfo *f)
{
	IW_SYS(close, f->fd);
}

const char *iw_fdinfo_line(struct iw_fdinfo *f)
{
	for (;;) {
		char *line = f->buf + f->at, *end = memchr(line, '\n', f->have - f->at);
		long n;

		if (end) {
			*end = 0;
			f->at = (size_t)(end - f->buf) + 1;
			return line;
		}
		memmove(f->buf, line, f->have - f->at);
		f->have -= f->at;
		f->at = 0;
		if (f->have == sizeof(f->buf))
			return NULL;
		n = IW_SYS(read, f->fd, f->buf + f->have, sizeof(f->buf) - f->have);
		if (n <= 0)
			return NULL;
		f->have += (size_t)n;
	}
}

/* The number after this word. */
static bool number(const char *line, const char *word, unsigned int base, uint64_t *v)
{
	const char *p = strstr(line, word);
	bool any = false;

	if (!p)
		return false;
	for (p += strlen(word); *p == ' '; p++)
		;
	for (*v = 0;; p++, any = true) {
		unsigned int c = (unsigned char)*p, d = c >= 'a' ? c - 'a' + 10 : c - '0';

		if (d >= base)
			return any;
		*v = *v * base + d;
	}
}

bool iw_tfd_parse(const char *line, struct iw_tfd *t)
{
	uint64_t fd, events, dev;

	if (strncmp(line, "tfd:", 4) || !number(line, "tfd:", 10, &fd) || !number(line, "events:", 16, &events) ||
	    !number(line, "data:", 16, &t->data) || !number(line, "ino:", 16, &t->ino) || !number(line, "sdev:", 16, &dev) || fd > INT32_MAX)
		return false;
	t->fd = (int)fd;
	t->events = (uint32_t)events;
	t->dev = makedev(dev >> 20, dev & 0xfffff);	/* the kernel's own form */
	return true;
}
