/* SPDX-License-Identifier: MIT */
/* What the kernel says of a descriptor of this process, line by line: of an epoll set, what it holds. */
#ifndef IW_PRELOAD_FDINFO_H
#define IW_PRELOAD_FDINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct iw_fdinfo {
	int fd;
	size_t at, have;
	char buf[1024];
};

/* An entry of an epoll set. */
struct iw_tfd {
	int fd;			/* the number it was added by */
	uint32_t events;
	uint64_t data, ino, dev;	/* st_ino, st_dev of the file */
};

/* 0 or -errno. */
int iw_fdinfo_open(struct iw_fdinfo *f, int fd);
/* The next line, without its end, until the next call; NULL: that was all. */
const char *iw_fdinfo_line(struct iw_fdinfo *f);
void iw_fdinfo_close(struct iw_fdinfo *f);
/* false: the line is of something else. */
bool iw_tfd_parse(const char *line, struct iw_tfd *t);

#pragma GCC visibility pop
#endif
