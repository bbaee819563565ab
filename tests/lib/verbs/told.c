// SPDX-License-Identifier: MIT
/* What the test says to a device made up, and what it hears: the files of MADE_UP_DEVICE. */
#include "made_up.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

#define PREFIX	(sizeof("RDMA_CM_EVENT_") - 1)

static const char *const kinds[HELD] = { "qp", "mr", "pd", "cq", "channel", "id", "context" };
static int counts[HELD];
static const char *dir;
static int told_fd = -1, held_fd = -1, log_fd = -1;
static char line[128];		/* what is told */
static unsigned int calls;	/* of what it is about, since */
static bool done;

static int file(const char *name, int flags)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, flags | O_CLOEXEC, 0644);
}

__attribute__((constructor)) static void begin(void)
{
	dir = getenv("MADE_UP_DEVICE");
	if (!dir)
		dir = "/nonexistent";
	told_fd = file("told", O_RDONLY | O_CREAT);
	held_fd = file("held", O_WRONLY | O_CREAT | O_TRUNC);
	log_fd = file("log", O_WRONLY | O_CREAT | O_APPEND);
	hold(QP, 0);
}

__attribute__((destructor)) static void end(void)
{
	wire_stop();
	contexts_fini();
	close(told_fd);
	close(held_fd);
	close(log_fd);
}

static void look(void)
{
	char now[sizeof(line)] = "";
	ssize_t n = pread(told_fd, now, sizeof(now) - 1, 0);

	now[n > 0 ? n : 0] = '\0';
	now[strcspn(now, "\n")] = '\0';
	if (!strcmp(now, line))
		return;
	strcpy(line, now);
	calls = 0;
	done = false;
}

bool told_device(char name[static IBV_SYSFS_NAME_MAX])
{
	int fd = file("name", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, name, IBV_SYSFS_NAME_MAX - 1);

	if (fd >= 0)
		close(fd);
	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	return *name && !told("gone");
}

bool told_card(void)
{
	int fd = file("card", O_RDONLY);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

bool told(const char *word)
{
	look();
	return !strcmp(line, word);
}

bool told_once(const char *word)
{
	if (!told(word) || done)
		return false;
	done = true;
	note("%s", line);
	return true;
}

bool told_fail(const char *call)
{
	char name[64];
	unsigned int k;
	int err;

	look();
	if (sscanf(line, "fail %63s %u %d", name, &k, &err) != 3 || strcmp(name, call) || ++calls != k)
		return false;
	note("%s", line);
	errno = err;
	return true;
}

bool told_event(int *type, int *status)
{
	char this[64], that[64];
	int s;

	look();
	if (done || sscanf(line, "event %63s %63s %d", this, that, &s) != 3 || strcmp(this, rdma_event_str(*type) + PREFIX))
		return false;
	for (int t = 0; t <= RDMA_CM_EVENT_TIMEWAIT_EXIT; t++) {
		if (strcmp(that, rdma_event_str(t) + PREFIX))
			continue;
		done = true;
		*type = t;
		*status = s;
		note("%s", line);
		return true;
	}
	return false;
}

bool told_status(enum ibv_wc_status *status)
{
	unsigned int k, s;

	look();
	if (sscanf(line, "status %u %u", &k, &s) != 2 || ++calls != k)
		return false;
	note("%s", line);
	*status = s;
	return true;
}

int told_watch(void)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char path[256];

	snprintf(path, sizeof(path), "%s/told", dir);
	if (fd >= 0)
		inotify_add_watch(fd, path, IN_MODIFY);
	return fd;
}

void hold(enum held what, int n)
{
	char text[256];
	int len = 0;

	counts[what] += n;
	for (int i = 0; i < HELD; i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, "%s %d%s", kinds[i], counts[i], i == HELD - 1 ? "\n" : " ");
	if (pwrite(held_fd, text, (size_t)len, 0) == len && ftruncate(held_fd, len))
		note("misuse: held: %s", strerror(errno));
}

void note(const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(text) - 2)
		n = (int)sizeof(text) - 2;
	text[n++] = '\n';
	if (write(log_fd, text, (size_t)n) != n)
		abort();
}

/* ---- queues ---- */

int events_init(struct events *q)
{
	TAILQ_INIT(&q->all);
	q->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	return q->fd < 0 ? -1 : 0;
}

static void one_less(const struct events *q)
{
	eventfd_t one;

	if (eventfd_read(q->fd, &one))
		abort();
}

void events_fini(struct events *q)
{
	struct event *e;

	while ((e = TAILQ_FIRST(&q->all))) {
		TAILQ_REMOVE(&q->all, e, node);
		free(e);
	}
	close(q->fd);
}

void events_put(struct events *q, struct event *e)
{
	TAILQ_INSERT_TAIL(&q->all, e, node);
	if (eventfd_write(q->fd, 1))
		abort();
}

struct event *events_get(struct events *q)
{
	struct event *e;
	eventfd_t one;

	if (eventfd_read(q->fd, &one))
		return NULL;
	pthread_mutex_lock(&lock);
	e = TAILQ_FIRST(&q->all);
	TAILQ_REMOVE(&q->all, e, node);
	pthread_mutex_unlock(&lock);
	return e;
}

void events_drop(struct events *q, bool (*of)(const struct event *e, const void *what), const void *what)
{
	struct event *e, *next;

	for (e = TAILQ_FIRST(&q->all); e; e = next) {
		next = TAILQ_NEXT(e, node);
		if (!of(e, what))
			continue;
		TAILQ_REMOVE(&q->all, e, node);
		one_less(q);
		free(e);
	}
}
