// SPDX-License-Identifier: MIT
/* What a worker has while it has no stream: the same in each pause, but for what is made once, and kept, when it is needed first. */
#include <dirent.h>

#include "opsoak.h"

#define ROOM	8192
#define ONCE	12

struct list { char text[ROOM]; int n; };

static void fds(struct list *l)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	char path[300], to[200];
	size_t at = 0;

	l->n = 0;
	l->text[0] = '\0';
	while (d && (e = readdir(d))) {
		ssize_t k;

		if (atoi(e->d_name) == dirfd(d) || e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		k = readlink(path, to, sizeof(to) - 1);
		to[k < 0 ? 0 : k] = '\0';
		l->n++;
		if (at + 230 < ROOM)
			at += (size_t)snprintf(l->text + at, ROOM - at, " %s:%s", e->d_name, to);
	}
	if (d)
		closedir(d);
}

/* Memory that is shared with others: what is its own is malloc's and the threads' to keep. */
static void maps(struct list *l)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], perm[8], name[256];
	size_t at = 0;

	l->n = 0;
	l->text[0] = '\0';
	while (f && fgets(line, sizeof(line), f)) {
		name[0] = '\0';
		if (sscanf(line, "%*s %7s %*s %*s %*s %255s", perm, name) < 1 || !strchr(perm, 's'))
			continue;
		l->n++;
		if (at + 260 < ROOM)
			at += (size_t)snprintf(l->text + at, ROOM - at, " %s", name);
	}
	if (f)
		fclose(f);
}

void leaks(void)
{
	static struct list fd[2], map[2];
	static int pauses;
	int now = pauses > 0;

	fds(&fd[now]);
	maps(&map[now]);
	if (pauses++ == 0)
		return;
	if (fd[1].n > fd[0].n + ONCE)
		fail(NULL, 0, "without streams it has %d descriptors, at first %d:\n#  %s\n#  %s", fd[1].n, fd[0].n, fd[1].text, fd[0].text);
	if (map[1].n > map[0].n + ONCE)
		fail(NULL, 0, "without streams it has %d shared maps, at first %d:\n#  %s\n#  %s", map[1].n, map[0].n, map[1].text, map[0].text);
}
