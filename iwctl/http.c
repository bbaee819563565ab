// SPDX-License-Identifier: MIT
/* One HTTP request and its answer, with limits on size and time: who is slow, or says what is none, holds a process no longer than that. */
#include "http.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_MAX	8192u
#define REQUEST_MS	5000u
#define ANSWER_MS	5000u
#define DRAIN_MS	1000u	/* octets that are unread when a socket is closed are a reset, which overtakes the answer */
#define PIECE		2048u	/* a file that can be written to has room for so many */

static const struct { unsigned int status; const char *phrase; } phrases[] = {
	{ 200, "OK" }, { 400, "Bad Request" }, { 404, "Not Found" }, { 405, "Method Not Allowed" }, { 408, "Request Timeout" },
	{ 431, "Request Header Fields Too Large" }, { 503, "Service Unavailable" },
};

static const char *phrase(unsigned int status)
{
	for (size_t i = 0; i < sizeof(phrases) / sizeof(*phrases); i++)
		if (phrases[i].status == status)
			return phrases[i].phrase;
	return "";
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* false: it is too late. */
static bool ready(int fd, short events, uint64_t until)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now;
	int n = -1;

	while (n < 0 && (now = now_ms()) < until) {
		n = poll(&p, 1, (int)(until - now));
		if (n < 0 && errno != EINTR)
			return false;
	}
	return n > 0;
}

/* ---- what is asked ---- */

static bool complete(const char *s)
{
	return strstr(s, "\r\n\r\n") || strstr(s, "\n\n");
}

/* As a string; 0, or the status of the error. */
static unsigned int request_read(char buf[REQUEST_MAX + 1], size_t *len)
{
	uint64_t until = now_ms() + REQUEST_MS;
	ssize_t n = 1;

	*len = 0;
	buf[0] = 0;
	while (!complete(buf)) {
		if (*len == REQUEST_MAX)
			return 431;
		if (!ready(STDIN_FILENO, POLLIN, until))
			return 408;
		n = read(STDIN_FILENO, buf + *len, REQUEST_MAX - *len);
		if (n <= 0)
			return 400;
		*len += (size_t)n;
		buf[*len] = 0;
		if (strlen(buf) != *len)
			return 400;
	}
	return 0;
}

/* The path of the target, which may be a whole URL and have a query. */
static bool same_path(const char *target, const char *path)
{
	size_t n = strlen(path);

	if (!strncmp(target, "http://", 7)) {
		target = strchr(target + 7, '/');
		if (!target)
			return false;
	}
	return !strncmp(target, path, n) && (!target[n] || target[n] == '?');
}

static unsigned int request_line(char *line, const char *path, bool *head)
{
	char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;

	line[strcspn(line, "\r\n")] = 0;
	if (!version || target == line || strncmp(version, " HTTP/1.", 8) || strlen(version) != 9 || version[8] < '0' || version[8] > '9')
		return 400;
	*target++ = *version = 0;
	*head = !strcmp(line, "HEAD");
	if (!*head && strcmp(line, "GET"))
		return 405;
	return same_path(target, path) ? 200 : 404;
}

unsigned int http_ask(const char *path, bool *head)
{
	static char buf[REQUEST_MAX + 1];
	unsigned int status;
	size_t len;

	signal(SIGPIPE, SIG_IGN);
	*head = false;
	status = request_read(buf, &len);
	if (status)
		return len ? status : 0;
	return request_line(buf, path, head);
}

/* ---- the answer ---- */

static bool put(const char *s, size_t len, uint64_t until)
{
	while (len) {
		ssize_t n = ready(STDOUT_FILENO, POLLOUT, until) ? write(STDOUT_FILENO, s, len < PIECE ? len : PIECE) : -1;

		if (n < 0)
			return false;
		s += n;
		len -= (size_t)n;
	}
	return true;
}

static void drain(void)
{
	uint64_t until = now_ms() + DRAIN_MS;
	char buf[PIECE];

	if (shutdown(STDOUT_FILENO, SHUT_WR))
		return;		/* not a socket */
	while (ready(STDIN_FILENO, POLLIN, until) && read(STDIN_FILENO, buf, sizeof(buf)) > 0)
		;
}

void http_answer(unsigned int status, bool head, const char *type, const char *body, size_t len)
{
	uint64_t until = now_ms() + ANSWER_MS;
	char h[400];
	int n = snprintf(h, sizeof(h), "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n%sConnection: close\r\n\r\n",
			 status, phrase(status), type, len, status == 405 ? "Allow: GET, HEAD\r\n" : "");

	if (put(h, (size_t)n, until) && !head)
		put(body, len, until);
	drain();
}

void http_error(unsigned int status, bool head, const char *text)
{
	char body[1100];
	int n = snprintf(body, sizeof(body), "%s\n", *text ? text : phrase(status));

	http_answer(status, head, "text/plain; charset=utf-8", body, (size_t)n < sizeof(body) ? (size_t)n : sizeof(body) - 1);
}
