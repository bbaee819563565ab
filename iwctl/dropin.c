// SPDX-License-Identifier: MIT
/* Derives the drop-in of a service from what systemd says of its unit. */
#include "dropin.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc.h"

bool dropin_ours(const char *text)
{
	return text && !strncmp(text, DROPIN_MARK, strlen(DROPIN_MARK));
}

const char *dropin_env(const json_t *environment, const char *name)
{
	size_t i, n = strlen(name);
	const json_t *v;

	json_array_foreach(environment, i, v) {
		const char *s = json_string_value(v);

		if (s && !strncmp(s, name, n) && s[n] == '=')
			return s + n + 1;
	}
	return NULL;
}

static bool is_ours(const char *word)
{
	const char *slash = strrchr(word, '/');

	return !strcmp(slash ? slash + 1 : word, IWCTL_LIBRARY);
}

char *dropin_preload(const char *library, const char *has)
{
	size_t room = strlen(library) + (has ? strlen(has) : 0) + 2;
	char *s = malloc(room), *copy = strdup(has ? has : ""), *save = NULL;

	if (s && copy) {
		strcpy(s, library);
		for (char *word = strtok_r(copy, ": \t\n", &save); word; word = strtok_r(NULL, ": \t\n", &save))
			if (!is_ours(word))
				strcat(strcat(s, ":"), word);
	}
	free(copy);
	return s;
}

/* An entry of a list of paths, without its flags and links. */
static const char *entry_path(const char *entry, char path[PATH_MAX])
{
	entry += strspn(entry, "-+");
	return realpath(entry, path) ? path : entry;
}

/* How much of path the entry covers; 0: nothing. */
static size_t covers(const char *entry, const char *path)
{
	size_t n = strlen(entry);

	if (!strcmp(entry, "/"))
		return 1;
	return n && !strncmp(entry, path, n) && (!path[n] || path[n] == '/') ? n : 0;
}

static size_t longest(const json_t *list, const char *path, const char *but)
{
	char real[PATH_MAX];
	size_t i, n, max = 0;
	const json_t *v;

	json_array_foreach(list, i, v) {
		const char *s = json_string_value(v) ? entry_path(json_string_value(v), real) : "";

		if (but && !strcmp(s, but))
			continue;
		n = covers(s, path);
		max = n > max ? n : max;
	}
	return max;
}

bool dropin_covered(const json_t *list, const char *path)
{
	return longest(list, path, NULL);
}

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *s = text; s && (s = strstr(s, line)); s++)
		if ((s == text || s[-1] == '\n') && (!s[n] || s[n] == '\n'))
			return true;
	return false;
}

/* The library may not be executed, unless the line that an earlier drop-in of ours has allows it. */
static bool needs_exec(const json_t *unit, const char *dir)
{
	const json_t *no = json_object_get(unit, "NoExecPaths"), *yes = json_object_get(unit, "ExecPaths");
	size_t n = longest(no, dir, NULL);

	return n && n > longest(yes, dir, dir);
}

/* Addresses of AF_UNIX are forbidden, or allowed by us. */
static bool needs_unix(const json_t *unit, const char *own)
{
	const json_t *restricted = json_object_get(unit, "RestrictAddressFamilies"), *list = json_array_get(restricted, 1), *v;
	bool allow = json_is_true(json_array_get(restricted, 0)), listed = false;
	size_t i;

	json_array_foreach(list, i, v)
		listed |= !strcmp(json_string_value(v) ? json_string_value(v) : "", "AF_UNIX");
	return allow != listed || has_line(own, "RestrictAddressFamilies=AF_UNIX");
}

/* Within quotes; "%" begins a specifier. */
static void quoted(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (strchr("\"\\", *s))
			putc('\\', f);
		if (*s == '%')
			putc('%', f);
		putc(*s, f);
	}
}

char *dropin_text(const json_t *unit, const char *name, const char *library, const char *own, bool environment, bool made)
{
	char dir[PATH_MAX], *preload = NULL, *text = NULL;
	const char *slash = strrchr(library, '/');
	bool exec, local;
	size_t len;
	FILE *f;

	snprintf(dir, sizeof(dir), "%.*s", slash > library ? (int)(slash - library) : 1, library);
	exec = needs_exec(unit, dir);
	local = needs_unix(unit, own);
	if (!environment && !exec && !local)
		return NULL;
	preload = dropin_preload(library, dropin_env(json_object_get(unit, "Environment"), "LD_PRELOAD"));
	f = preload ? open_memstream(&text, &len) : NULL;
	if (!f)
		goto out;
	fprintf(f, DROPIN_MARK " %s on\"; \"iwctl service %s off\" takes it away.\n%s[Service]\n", name, name, made ? DROPIN_DIR : "");
	if (environment) {
		fputs("Environment=\"LD_PRELOAD=", f);
		quoted(f, preload);
		fputs("\"\n", f);
	}
	if (exec) {
		fputs("ExecPaths=\"", f);
		quoted(f, dir);
		fputs("\"\n", f);
	}
	if (local)
		fputs("RestrictAddressFamilies=AF_UNIX\n", f);
	if (fclose(f)) {
		free(text);
		text = NULL;
	}
out:
	free(preload);
	return text;
}
