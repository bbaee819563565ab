// SPDX-License-Identifier: MIT
/* Takes out of settings, units and firewall rules what is nobody's business. What is not understood is taken out, too. */
#include "redact.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REMOVED "(removed)"

/* The next line of *at, without its end; false: there is none. */
static bool next_line(const char **at, const char **line, size_t *n)
{
	if (!**at)
		return false;
	*line = *at;
	*n = strcspn(*at, "\n");
	*at += *n + ((*at)[*n] == '\n');
	return true;
}

char *redact_comments(const char *text)
{
	const char *line, *hash;
	char *out = NULL;
	size_t n, size;
	FILE *f = open_memstream(&out, &size);

	while (f && next_line(&text, &line, &n)) {
		hash = memchr(line, '#', n);
		fprintf(f, "%.*s\n", (int)(hash ? hash - line + 1 : (ptrdiff_t)n), line);
	}
	if (f)
		fclose(f);
	return out;
}

/* ---- units ---- */

static bool may_show(const char *token)
{
	return !strncmp(token, "LD_PRELOAD=", 11) || !strncmp(token, "IWSOCK_", 7);
}

static void put_assignment(FILE *f, const char *token)
{
	size_t n = strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	if (!n || token[n] != '=')
		fputs(" " REMOVED, f);
	else if (may_show(token))
		fprintf(f, " \"%s\"", token);
	else
		fprintf(f, " %.*s=" REMOVED, (int)n, token);
}

/* One word of systemd's, without its quotes, into token; false: there is none, or its quotes do not close, and *at stays. */
static bool next_word(const char **at, char *token)
{
	const char *begin;
	char quote = 0;

	*at += strspn(*at, " \t");
	if (!**at)
		return false;
	for (begin = *at; **at && (quote || !strchr(" \t", **at)); (*at)++) {
		if (**at == '\\' && (*at)[1])
			*token++ = *++*at;
		else if (quote ? **at == quote : **at == '"' || **at == '\'')
			quote = quote ? 0 : **at;
		else
			*token++ = **at;
	}
	*token = 0;
	if (quote)
		*at = begin;
	return !quote;
}

static void put_environment(FILE *f, const char *value)
{
	char *token = malloc(strlen(value) + 1);

	fputs("Environment=", f);
	while (token && next_word(&value, token))
		put_assignment(f, token);
	if (!token || *value)
		fputs(" " REMOVED, f);
	fputc('\n', f);
	free(token);
}

/* Arguments of our own daemon are settings of it. */
static void put_program(FILE *f, const char *key, const char *value)
{
	size_t n = strcspn(value, " \t");
	bool ours = n > 6 && !strncmp(value + n - 7, "/iwarpd", 7);

	if (ours || !value[n])
		fprintf(f, "%s=%s\n", key, value);
	else
		fprintf(f, "%s=%.*s " REMOVED "\n", key, (int)n, value);
}

static void put_setting(FILE *f, char *line)
{
	char *value = strchr(line, '=');

	if (!value)
		return;
	*value++ = 0;
	line[strcspn(line, " \t")] = 0;
	value += strspn(value, " \t");
	if (!strcmp(line, "Environment"))
		put_environment(f, value);
	else if (!strncmp(line, "Exec", 4) && strcmp(line, "ExecPaths"))
		put_program(f, line, value);
	else if (!strncmp(line, "SetCredential", 13) || !strncmp(line, "StandardInput", 13) || !strncmp(line, "X-", 2))
		fprintf(f, "%s=" REMOVED "\n", line);
	else
		fprintf(f, "%s=%s\n", line, value);
}

/* "# /etc/systemd/system/...", as systemctl says where a part is from. */
static bool names_file(const char *line, size_t n)
{
	return n > 8 && !strncmp(line, "# /", 3) && !memchr(line + 2, ' ', n - 2) &&
	       (!strncmp(line + n - 5, ".conf", 5) || !strncmp(line + n - 8, ".service", 8) || !strncmp(line + n - 7, ".socket", 7));
}

/* A line with those that continue it: what is left when comments between them are, as systemd has it. */
static void put_unit(FILE *f, const char *text, char *whole)
{
	const char *line;
	size_t n, have = 0;

	while (next_line(&text, &line, &n)) {
		size_t blank = strspn(line, " \t");

		if (blank < n && strchr("#;", line[blank])) {
			if (!have && names_file(line, n))
				fprintf(f, "%.*s\n", (int)n, line);
			continue;
		}
		blank = have ? 0 : blank < n ? blank : n;
		memcpy(whole + have, line + blank, n - blank);
		have += n - blank;
		if (n && line[n - 1] == '\\' && *text) {
			whole[have - 1] = ' ';
			continue;
		}
		whole[have] = 0;
		if (*whole == '[')
			fprintf(f, "%s\n", whole);
		else
			put_setting(f, whole);
		have = 0;
	}
}

char *redact_unit(const char *text)
{
	char *out = NULL, *whole = malloc(strlen(text) + 1);
	size_t size;
	FILE *f = whole ? open_memstream(&out, &size) : NULL;

	if (f) {
		put_unit(f, text, whole);
		fclose(f);
	}
	free(whole);
	return out;
}

/* ---- firewalls ---- */

/* A number alone, or one end of a range around it, as 800-900 and 800:900. */
static bool names_port(const char *line, size_t n, unsigned int port)
{
	unsigned long a = 0, b;
	char *end;

	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)line[i]) || (i && (isalnum((unsigned char)line[i - 1]) || strchr(".:-", line[i - 1]))))
			continue;
		a = b = strtoul(line + i, &end, 10);
		if ((*end == '-' || *end == ':') && isdigit((unsigned char)end[1]))
			b = strtoul(end + 1, &end, 10);
		if (a <= port && port <= b && *end != '.')
			return true;
	}
	return false;
}

static bool frames(const char *line, size_t n)
{
	static const char *const words[] = { "table ", "chain ", "type ", "}", "*", ":" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (n >= strlen(words[i]) && !strncmp(line, words[i], strlen(words[i])))
			return true;
	return false;
}

char *redact_firewall(const char *text, unsigned int port)
{
	const char *line, *comment;
	char *out = NULL;
	size_t n, size;
	FILE *f = open_memstream(&out, &size);

	while (f && next_line(&text, &line, &n)) {
		size_t blank = strspn(line, " \t"), length = n;

		if (blank >= n || (!frames(line + blank, n - blank) && !names_port(line, n, port)))
			continue;
		comment = memmem(line, n, "comment", 7);
		if (comment)
			length = (size_t)(comment - line);
		fprintf(f, "%.*s%s\n", (int)length, line, comment ? REMOVED : "");
	}
	if (f)
		fclose(f);
	return out;
}
