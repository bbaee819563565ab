// SPDX-License-Identifier: MIT
/* Log lines: to the journal when standard error leads there, else to standard error; rate-limited per call site. */
#include "log.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-login.h>
#include <time.h>
#include <unistd.h>

#define SITES		256u	/* call sites remembered; two that collide share a budget */
#define BURST		20u	/* lines of one call site within WINDOW_MS */
#define WINDOW_MS	5000u

static int max_level = LOG_INFO;
static bool to_journal, never_wait;
static unsigned int lost;	/* lines that could not be written at once */
static const char *program = "iwarpd";

struct line {
	int level;
	const char *file, *text;
	int line;
	const struct log_about *about;	/* or NULL */
};

static struct site {
	const char *file;
	int line;
	unsigned int count, dropped;
	uint64_t start;
} sites[SITES];

void log_std_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

/* systemd names device and inode of the stream it connected (sd_journal_stream protocol, JOURNAL_STREAM). */
static bool stderr_is_journal(void)
{
	const char *s = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return s && sscanf(s, "%llu:%llu", &dev, &ino) == 2 && !fstat(2, &st) && st.st_dev == dev && st.st_ino == ino;
}

void log_init(int level, int force_stderr)
{
	max_level = level;
	to_journal = !force_stderr && stderr_is_journal();
}

void log_name(const char *name)
{
	program = name;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void log_never_wait(void)
{
	never_wait = true;
}

/* Names of programs come from clients: keep one line per message. */
static void one_line(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 32 || *s == 127)
			*s = '?';
}

static bool to_stderr(int level, const char *text)
{
	static const char *const names[] = {
		"emergency", "alert", "critical", "error", "warning", "notice", "info", "debug",
	};
	struct pollfd p = { .fd = 2, .events = POLLOUT };
	char out[1200];		/* less than PIPE_BUF: a pipe that has room takes all of it */
	int n = snprintf(out, sizeof(out), "%s: %s: %s\n", program, names[level & 7], text);

	if (never_wait && (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT)))
		return false;
	return write(2, out, (size_t)n < sizeof(out) ? (size_t)n : sizeof(out) - 1) > 0;
}

struct datagram {
	char text[2048];
	size_t n;
};

/* One line of it, as far as there is room; what is in a value ends no line. */
static void field(struct datagram *d, const char *fmt, ...)
{
	size_t room = sizeof(d->text) - 1 - d->n;
	char *s = d->text + d->n;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(s, room, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room)
		return;
	one_line(s);
	s[n] = '\n';
	d->n += (size_t)n + 1;
}

/* By /proc/PID/cgroup: none is told of a process that is gone, or not a service's. */
static void unit_field(struct datagram *d, pid_t pid)
{
	char *unit;

	if (sd_pid_get_unit(pid, &unit) < 0)
		return;
	field(d, "UNIT=%s", unit);
	free(unit);
}

static void about_fields(struct datagram *d, const struct log_about *a)
{
	if (a->id)
		field(d, "MESSAGE_ID=%s", a->id);
	if (a->program)
		field(d, "PROGRAM=%s", a->program);
	if (a->pid) {
		field(d, "PID=%d", (int)a->pid);
		field(d, "UID=%u", (unsigned int)a->uid);
		unit_field(d, a->pid);
	}
	if (a->peer)
		field(d, "PEER=%s", a->peer);
	if (a->stream)
		field(d, "STREAM=%llx", (unsigned long long)a->stream);
	if (a->reason)
		field(d, "REASON=%s", a->reason);
}

/* sd_journal_send() would wait for a journal that does not read. */
static bool to_socket(const struct line *l)
{
	static const struct sockaddr_un journal = { .sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket" };
	static int fd = -1;
	struct datagram d = { .n = 0 };

	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	field(&d, "MESSAGE=%s", l->text);
	field(&d, "PRIORITY=%d", l->level & 7);
	field(&d, "SYSLOG_IDENTIFIER=%s", program);
	field(&d, "CODE_FILE=%s", l->file);
	field(&d, "CODE_LINE=%d", l->line);
	if (l->about)
		about_fields(&d, l->about);
	return sendto(fd, d.text, d.n, MSG_NOSIGNAL | (never_wait ? MSG_DONTWAIT : 0), (const struct sockaddr *)&journal, sizeof(journal)) > 0;
}

static bool put_line(const struct line *l)
{
	return (to_journal && to_socket(l)) || to_stderr(l->level, l->text);
}

static void emit(const struct line *l)
{
	struct line missing = { .level = LOG_WARNING, .file = l->file, .line = l->line };
	char text[64];

	if (lost) {
		snprintf(text, sizeof(text), "%u lines were lost: they were not read in time", lost);
		missing.text = text;
		if (put_line(&missing))
			lost = 0;
	}
	if (!put_line(l))
		lost++;
}

/* True when this call site may write now; *dropped is what it could not write before. */
static bool site_take(const char *file, int line, unsigned int *dropped)
{
	struct site *s = &sites[((uintptr_t)file / 8 + (unsigned int)line * 31u) % SITES];
	uint64_t now = now_ms();

	*dropped = 0;
	if (s->file != file || s->line != line || now - s->start >= WINDOW_MS) {
		if (s->file == file && s->line == line)
			*dropped = s->dropped;
		*s = (struct site){ .file = file, .line = line, .start = now };
	}
	if (s->count++ < BURST)
		return true;
	s->dropped++;
	return false;
}

static void write_line(int level, const char *file, int line, const struct log_about *about, const char *fmt, va_list ap)
{
	struct line l = { .level = level, .file = file, .line = line };
	unsigned int dropped;
	char text[1024];

	if (level > max_level)
		return;
	/* start-up errors and debugging are wanted complete */
	if (level < LOG_DEBUG && !site_take(file, line, &dropped))
		return;
	l.text = text;
	if (level < LOG_DEBUG && dropped) {
		snprintf(text, sizeof(text), "%u more lines like the next one were not written", dropped);
		emit(&l);
	}
	vsnprintf(text, sizeof(text), fmt, ap);
	one_line(text);
	l.about = about;
	emit(&l);
}

void log_write(int level, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(level, file, line, NULL, fmt, ap);
	va_end(ap);
}

void log_write_about(int level, const char *file, int line, const struct log_about *about, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(level, file, line, about, fmt, ap);
	va_end(ap);
}
