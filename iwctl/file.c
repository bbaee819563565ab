// SPDX-License-Identifier: MIT
/* Reads a file, and puts a new one in its place. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX (1u << 20)

char *file_text(const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), err = 0;
	char *text = malloc(TEXT_MAX + 1);
	struct stat s;
	size_t n = 0;
	ssize_t r;

	if (fd < 0 || !text || fstat(fd, st ? st : &s) < 0) {
		err = errno;
		goto out;
	}
	while ((r = read(fd, text + n, TEXT_MAX + 1 - n)) > 0 && n + (size_t)r <= TEXT_MAX)
		n += (size_t)r;
	if (r < 0)
		err = errno;
	else if (r > 0)
		err = EFBIG;
	else if (memchr(text, 0, n))
		err = EINVAL;
	text[err ? 0 : n] = 0;
out:
	if (fd >= 0)
		close(fd);
	if (err) {
		free(text);
		text = NULL;
		errno = err;
	}
	return text;
}

static bool write_all(int fd, const char *s, size_t n)
{
	while (n) {
		ssize_t r = write(fd, s, n);

		if (r < 0)
			return false;
		s += r;
		n -= (size_t)r;
	}
	return true;
}

int file_replace(const char *path, const char *text, const struct stat *like)
{
	const char *slash = strrchr(path, '/');
	char new[PATH_MAX];
	int fd, r = 0;

	/* a name that neither systemd nor others take for one of theirs */
	if (!slash || snprintf(new, sizeof(new), "%.*s/.iwsock.XXXXXX", (int)(slash - path), path) >= (int)sizeof(new))
		return -EINVAL;
	fd = mkostemp(new, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!write_all(fd, text, strlen(text)) || (like && fchown(fd, like->st_uid, like->st_gid) < 0) ||
	    fchmod(fd, like ? like->st_mode & 07777 : 0644) < 0 || fsync(fd) < 0 || rename(new, path) < 0)
		r = -errno;
	close(fd);
	if (r)
		unlink(new);
	return r;
}
