// SPDX-License-Identifier: MIT
/* Output of iwctl: messages, JSON, columns, colour only on a terminal. */
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iwctl.h"

static char *kept;
static size_t kept_size;

void iwctl_error_keep(char *buf, size_t size)
{
	kept = buf;
	kept_size = size;
	if (buf)
		*buf = 0;
}

void iwctl_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (kept) {
		vsnprintf(kept, kept_size, fmt, ap);
		va_end(ap);
		return;
	}
	fputs("iwctl: ", stderr);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void iwctl_out_begin(void)
{
	/* for reading: writing goes on to fail */
	if (fcntl(STDOUT_FILENO, F_GETFD) < 0)
		while (open("/dev/null", O_RDONLY) == STDIN_FILENO)
			;
}

int iwctl_out_end(int code)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	iwctl_error("standard output: %s", errno ? strerror(errno) : "not all of it could be written");
	return IWCTL_FAILED;
}

int iwctl_print_json(json_t *v)
{
	int r = json_dumpf(v, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);

	json_decref(v);
	if (r < 0 || putchar('\n') == EOF || fflush(stdout) == EOF)
		return IWCTL_FAILED;
	return IWCTL_OK;
}

const char *iwctl_str(const json_t *o, const char *key, const char *otherwise)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : otherwise;
}

uint64_t iwctl_num(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

bool iwctl_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

int iwctl_result(json_t *list, const char *key, void (*show)(const json_t *o, const char *arg), const char *arg)
{
	int code = json_array_size(list) ? IWCTL_OK : IWCTL_NO, out;
	json_t *o;
	size_t i;

	json_array_foreach(list, i, o)
		if (!iwctl_true(o, key))
			code = IWCTL_NO;
	if (iwctl.json) {
		out = iwctl_print_json(list);
		return out == IWCTL_OK ? code : out;
	}
	json_array_foreach(list, i, o)
		show(o, arg);
	json_decref(list);
	return code;
}

const char *iwctl_colour(enum colour c)
{
	static const char *const codes[] = {
		[PLAIN] = "\033[0m", [GOOD] = "\033[32m", [WARN] = "\033[33m", [BAD] = "\033[31m", [DIM] = "\033[2m", [BOLD] = "\033[1m",
	};

	return iwctl.colour ? codes[c] : "";
}

char *iwctl_bytes(uint64_t n, char buf[16])
{
	static const char units[] = "KMGTPE";
	double v = (double)n;
	int u = -1;

	while (v >= 1023.95 && units[u + 1]) {
		v /= 1024;
		u++;
	}
	if (u < 0)
		snprintf(buf, 16, "%llu", (unsigned long long)n);
	else
		snprintf(buf, 16, "%.1f%c", v, units[u]);
	return buf;
}

char *iwctl_duration(uint64_t ms, char buf[32])
{
	uint64_t s = ms / 1000;

	if (ms < 10000)
		snprintf(buf, 32, "%.1f s", (double)ms / 1000);
	else if (s < 120)
		snprintf(buf, 32, "%u s", (unsigned int)s);
	else if (s < 7200)
		snprintf(buf, 32, "%u min", (unsigned int)(s / 60));
	else if (s < 172800)
		snprintf(buf, 32, "%u h", (unsigned int)(s / 3600));
	else
		snprintf(buf, 32, "%u days", (unsigned int)(s / 86400));
	return buf;
}

/* ---- tables ---- */

struct cell {
	char *text;
	enum colour colour;
};

struct table {
	const char *const *head;
	size_t ncol, n, cap;
	struct cell *cells;
	int fit, rows;
	const unsigned char *fade;
};

static void *must(void *p)
{
	if (p)
		return p;
	iwctl_error("out of memory");
	exit(IWCTL_FAILED);
}

struct table *table_new(const char *const *head)
{
	struct table *t = must(calloc(1, sizeof(*t)));

	t->head = head;
	while (head[t->ncol])
		t->ncol++;
	return t;
}

void table_cell(struct table *t, enum colour c, const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = must(NULL);
	va_end(ap);
	/* nobody's program name shall steer the terminal */
	for (char *p = s; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
	if (t->n == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 64;
		t->cells = must(realloc(t->cells, t->cap * sizeof(*t->cells)));
	}
	t->cells[t->n++] = (struct cell){ s, c };
}

static void print_cell(const char *text, enum colour c, int width, bool right, bool last)
{
	int pad = width - (int)strlen(text);

	if (right)
		printf("%*s", pad, "");
	if (c != PLAIN)
		printf("%s%s%s", iwctl_colour(c), text, iwctl_colour(PLAIN));
	else
		fputs(text, stdout);
	if (!last)
		printf("%*s", right ? 2 : pad + 2, "");
}

void table_fit(struct table *t, int width, int rows, const unsigned char *fade)
{
	t->fit = width;
	t->rows = rows;
	t->fade = fade;
}

/* Of the columns that are shown. */
static size_t line_width(const struct table *t, const size_t *width)
{
	size_t sum = 0;

	for (size_t i = 0; i < t->ncol; i++)
		sum += width[i] ? width[i] + 2 : 0;
	return sum - 2;
}

/* Width 0: not shown. */
static void fall_away(const struct table *t, size_t *width)
{
	while (line_width(t, width) > (size_t)t->fit) {
		size_t worst = t->ncol;

		for (size_t i = 0; i < t->ncol; i++)
			if (width[i] && t->fade[i] && (worst == t->ncol || t->fade[i] > t->fade[worst]))
				worst = i;
		if (worst == t->ncol)
			return;
		width[worst] = 0;
	}
}

static void print_head(const struct table *t, const size_t *width, size_t last)
{
	for (size_t i = 0; i <= last; i++) {
		bool right = t->head[i][0] == '>';

		if (width[i])
			print_cell(t->head[i] + right, BOLD, (int)width[i], right, i == last);
	}
	putchar('\n');
}

static void print_row(const struct table *t, const struct cell *cells, const size_t *width, size_t last)
{
	for (size_t i = 0; i <= last; i++)
		if (width[i])
			print_cell(cells[i].text, cells[i].colour, (int)width[i], t->head[i][0] == '>', i == last);
	putchar('\n');
}

void table_print(struct table *t)
{
	size_t *width = must(calloc(t->ncol, sizeof(*width))), last = t->ncol - 1, rows = t->n / t->ncol, shown = rows;

	for (size_t i = 0; i < t->ncol; i++)
		width[i] = strlen(t->head[i] + (t->head[i][0] == '>'));
	for (size_t i = 0; i < t->n; i++)
		if (strlen(t->cells[i].text) > width[i % t->ncol])
			width[i % t->ncol] = strlen(t->cells[i].text);
	if (t->fit)
		fall_away(t, width);
	while (last && !width[last])
		last--;
	if (t->rows > 0 && rows > (size_t)t->rows)
		shown = (size_t)t->rows - 1;
	print_head(t, width, last);
	for (size_t r = 0; r < shown; r++)
		print_row(t, t->cells + r * t->ncol, width, last);
	if (shown < rows)
		printf("%zu more\n", rows - shown);
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i].text);
	free(t->cells);
	free(width);
	free(t);
}
