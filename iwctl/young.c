// SPDX-License-Identifier: MIT
/* Reads proto/view.h's struct, and what it points to, out of another process: everything that is found there is only believed so far. */
#include "young.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "proto/view.h"

#define DATA_MAX ((uint64_t)1 << 20)	/* of the library's initialised data */

static bool peek(unsigned int pid, uint64_t at, void *to, size_t len)
{
	struct iovec mine = { .iov_base = to, .iov_len = len }, its = { .iov_base = (void *)(uintptr_t)at, .iov_len = len };

	return process_vm_readv((pid_t)pid, &mine, 1, &its, 1, 0) == (ssize_t)len;
}

static bool in_data(unsigned int pid, uint64_t from, uint64_t to, struct iw_view *v)
{
	static const uint8_t magic[] = IW_VIEW_MAGIC;
	size_t len = to - from <= DATA_MAX ? (size_t)(to - from) : 0;
	uint8_t *data = malloc(len + 1);
	bool found = false;

	if (data && peek(pid, from, data, len))
		for (size_t i = 0; !found && i + sizeof(*v) <= len; i += 8)
			if (!memcmp(data + i, magic, sizeof(magic))) {
				memcpy(v, data + i, sizeof(*v));
				found = v->version == IW_VIEW_VERSION;
			}
	free(data);
	return found;
}

static int find(unsigned int pid, struct iw_view *v)
{
	unsigned long long from, to;
	char path[64], *line = NULL;
	int r = -ENOENT;
	size_t cap = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return errno == EACCES ? -EPERM : -ENOENT;
	while (r == -ENOENT && getline(&line, &cap, f) > 0) {
		if (!strstr(line, "/libiwsock.so") || !strstr(line, " rw") || sscanf(line, "%llx-%llx", &from, &to) != 2)
			continue;
		errno = 0;
		if (in_data(pid, from, to, v))
			r = 0;
		else if (errno == EPERM)
			r = -EPERM;
	}
	free(line);
	fclose(f);
	return r;
}

int iwctl_library_on(unsigned int pid)
{
	struct iw_view v = { 0 };
	uint32_t on;
	int r = find(pid, &v);

	if (r)
		return r;
	return peek(pid, (uintptr_t)v.on, &on, sizeof(on)) ? on != 0 : -ENOENT;
}

int iwctl_young(unsigned int pid, int fd, struct iwctl_young *y)
{
	struct iw_view v = { 0 };
	uint64_t entry;
	void *entries;
	uint32_t word;
	uint16_t why;
	uint8_t state;
	int r = find(pid, &v);

	if (r)
		return r;
	if ((uint32_t)fd >= v.fds || !peek(pid, (uintptr_t)v.fdtab + (uint32_t)fd * sizeof(word), &word, sizeof(word)) ||
	    (word & 15) != IW_VIEW_CANDIDATE || !peek(pid, (uintptr_t)v.candidates, &entries, sizeof(entries)))
		return -ENOENT;
	entry = (uintptr_t)entries + (uint64_t)(word >> 4) * v.stride;
	if (!peek(pid, entry + v.octets, &y->octets, 8) || !peek(pid, entry + v.at_octets, &y->at_octets, 8) ||
	    !peek(pid, entry + v.calls, &y->calls, 4) || !peek(pid, entry + v.at_calls, &y->at_calls, 4) ||
	    !peek(pid, entry + v.state, &state, 1) || !peek(pid, entry + v.why, &why, 2))
		return -ENOENT;
	y->state = state;
	y->reason = why;
	return 0;
}
