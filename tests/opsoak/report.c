// SPDX-License-Identifier: MIT
/* What went wrong, for people: the stream, both ends' last operations, and where their processes are. */
#include <dirent.h>
#include <inttypes.h>

#include "opsoak.h"

static const char *const names[] = {
#define X(name) #name,
	OPS(X)
#undef X
};

/* of a list of names, with commas between; false: there is no such operation */
bool without(const char *list)
{
	char b[512], *save, *w;
	int i;

	snprintf(b, sizeof(b), "%s", list);
	for (w = strtok_r(b, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		for (i = 0; i < OP_COUNT && strcmp(names[i], w); i++)
			;
		if (i == OP_COUNT)
			return false;
		shm->without[i] = true;
	}
	return true;
}

/* Nothing was done on a stream for this long, in which nobody was stopped for more than a moment: longer on a busy machine */
bool hangs(void)
{
	double load[1] = { 0 };
	uint64_t limit = 20000, t = now_ms();
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (getloadavg(load, 1) == 1 && load[0] > (double)cpus)
		limit = (uint64_t)(20000 * (load[0] / (double)cpus < 6 ? load[0] / (double)cpus : 6));
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &shm->streams[i];
		uint64_t then = s->moved_ms;

		if (!s->used || t < then || t - then < limit)
			continue;
		shm->fail_stream = i;
		shm->fail_end = s->end[0].state == END_LIVE ? 0 : 1;
		snprintf(shm->why, sizeof(shm->why), "nothing was done for %" PRIu64 " s", (t - then) / 1000);
		shm->failed = 2;
		return true;
	}
	return false;
}

static void cat(const char *fmt, pid_t pid, const char *tid, const char *what)
{
	char path[100], b[600];
	FILE *f;

	snprintf(path, sizeof(path), fmt, pid, tid, what);
	f = fopen(path, "r");
	if (!f)
		return;
	while (fgets(b, sizeof(b), f))
		printf("#    %s %s: %s%s", tid, what, b, strchr(b, '\n') ? "" : "\n");
	fclose(f);
}

static void process(int n)
{
	static const char *const files[] = { "wchan", "syscall", "stack" };
	struct proc *p = &shm->procs[n];
	char dir[64];
	struct dirent *e;
	DIR *d;

	printf("#  process %d, worker %d, side %d, state %d%s\n", p->pid, p->worker, p->side, p->state, p->doomed ? ", was killed" : "");
	snprintf(dir, sizeof(dir), "/proc/%d/task", p->pid);
	d = opendir(dir);
	while (d && (e = readdir(d)))
		for (unsigned int i = 0; e->d_name[0] != '.' && i < 3; i++)
			cat("/proc/%d/task/%s/%s", p->pid, e->d_name, files[i]);
	if (d)
		closedir(d);
}

static void end(struct stream *s, int me)
{
	static const char *const states[] = { "free", "live", "done", "dead" };
	struct end *e = &s->end[me];
	unsigned int n = e->lines;

	printf("# end %d (%s), %s: read %" PRIu64 " of %" PRIu64 ", written %" PRIu64 " (said %" PRIu64 ") of %" PRIu64 "; goals %" PRIu64 " %" PRIu64 "%s\n",
	       me, me ? "accepted" : "connected", states[e->state], (uint64_t)e->rpos, s->total[!me], (uint64_t)e->wpos, (uint64_t)e->wsaid, s->total[me],
	       e->walk.goal[!me], e->walk.goal[me], e->walk.over ? ", script over" : "");
	printf("#  at the end: \"%s\", there at %d; fin %d, reset %d, descriptor %d\n", parts(s, me), e->stage, e->fin, e->reset, e->fd);
	for (unsigned int i = n < LINES ? 0 : n - LINES; i < n; i++) {
		const struct line *l = &e->line[i % LINES];

		printf("#  %8.3f ms  %d %-14s fd %d, at %" PRIu64 ", %" PRId64 ": %" PRId64 "%s%s\n", ((double)l->us - (double)e->line[(n - 1) % LINES].us) / 1000,
		       l->tid, names[l->op], l->fd, l->at, l->asked, l->got, l->err ? " " : "", l->err ? strerror(l->err) : "");
	}
	if (e->state == END_LIVE)
		process(e->holder);
}

/* True: something was wrong */
bool report(void)
{
	struct stream *s;

	if (!shm->failed)
		return false;
	for (int i = 0; shm->failed != 2 && i < 100; i++)
		usleep(10000);
	printf("# seed %" PRIu64 ": %s\n", shm->seed, shm->why);
	if (shm->fail_stream >= 0) {
		s = &shm->streams[shm->fail_stream];
		printf("# stream %d, the %" PRIu64 "th there, end %d; may be reset: %#x; server is worker %d, port %d%s, epoch %d of %d\n", shm->fail_stream,
		       s->id & 0xffffffff, shm->fail_end, s->may, s->server, s->port, s->handed ? ", was handed on" : "", s->epoch, shm->epoch);
		end(s, shm->fail_end);
		end(s, !shm->fail_end);
	}
	fflush(stdout);
	return true;
}

void tell_counts(void)
{
	printf("# operations:");
	for (int i = 0; i < OP_COUNT; i++)
		printf(" %s %" PRIu64, names[i], (uint64_t)shm->count[i]);
	printf("\n");
}
