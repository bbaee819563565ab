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
#include <time.h>
#include <unistd.h>

#define SITES		256u	/* call sites remembered; two that collide share a budget */
#define BURST		20u	/* lines of one call site within WINDOW_MS */
#define WINDOW_MS	5000u

static int max_level = LOG_INFO;
static bool to_journal, never_wait;
static unsigned int lost;	/* lines that could not be written at once */
static const char *program = "iwarpd";

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

/* One datagram of KEY=value lines; sd_journal_send() would wait for a journal that does not read. The text has no control characters. */
static bool to_socket(int level, const char *file, int line, const char *text)
{
	static const struct sockaddr_un journal = { .sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket" };
	static int fd = -1;
	char out[2048];
	int n;

	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	n = snprintf(out, sizeof(out), "MESSAGE=%s\nPRIORITY=%d\nSYSLOG_IDENTIFIER=%s\nCODE_FILE=%s\nCODE_LINE=%d\n", text, level & 7, program,
		     file, line);
	return sendto(fd, out, (size_t)n < sizeof(out) ? (size_t)n : sizeof(out) - 1, MSG_NOSIGNAL | (never_wait ? MSG_DONTWAIT : 0),
		      (const struct sockaddr *)&journal, sizeof(journal)) > 0;
}

static bool put_line(int level, const char *file, int line, const char *text)
{
	return (to_journal && to_socket(level, file, line, text)) || to_stderr(level, text);
}

static void emit(int level, const char *file, int line, const char *text)
{
	char missing[64];

	if (lost) {
		snprintf(missing, sizeof(missing), "%u lines were lost: they were not read in time", lost);
		if (put_line(LOG_WARNING, file, line, missing))
			lost = 0;
	}
	if (!put_line(level, file, line, text))
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

void log_write(int level, const char *file, int line, const char *fmt, ...)
{
	unsigned int dropped;
	char text[1024];
	va_list ap;

	if (level > max_level)
		return;
	/* start-up errors and debugging are wanted complete */
	if (level < LOG_DEBUG && !site_take(file, line, &dropped))
		return;
	if (level < LOG_DEBUG && dropped) {
		snprintf(text, sizeof(text), "%u more lines like the next one were not written", dropped);
		emit(level, file, line, text);
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; *p; p++)	/* names of programs come from clients: keep one line per message */
		if ((unsigned char)*p < 32 || *p == 127)
			*p = '?';
	emit(level, file, line, text);
}
