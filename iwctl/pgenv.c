// SPDX-License-Identifier: MIT
/* The block that has a PostgreSQL cluster of Debian's load the library, in its file "environment", which pg_ctlcluster reads. */
#include "pgenv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dropin.h"

#define BEGIN	"# iwsock: written by iwctl service, which takes it away, too"
#define NO_FILE	" (there was no file)"
#define NO_END	" (the line before had no end)"
#define END	"# iwsock: end\n"

/* Where the block begins, with the end of a line that we made; NULL: there is none. */
static const char *block(const char *text, const char **end)
{
	const char *s = strstr(text, BEGIN), *line;

	if (!s || (s > text && s[-1] != '\n') || !(*end = strstr(s, END)))
		return NULL;
	*end += strlen(END);
	line = s + strlen(BEGIN);
	return !strncmp(line, NO_END, strlen(NO_END)) && s > text ? s - 1 : s;
}

bool pgenv_has(const char *text)
{
	const char *end;

	return text && block(text, &end);
}

char *pgenv_remove(const char *text, bool *was)
{
	const char *end, *begin = block(text, &end);
	char *s = strdup(text);

	*was = true;
	if (!s || !begin)
		return s;
	*was = strncmp(begin + strlen(BEGIN), NO_FILE, strlen(NO_FILE)) || begin != text || *end;
	strcpy(s + (begin - text), end);
	return s;
}

/* "LD_PRELOAD = 'value'", the last line of them; as the parser of postgresql-common has it. To free(). */
static char *value(const char *text)
{
	char *found = NULL, *line = NULL;
	size_t cap = 0;
	FILE *f = *text ? fmemopen((char *)(size_t)text, strlen(text), "r") : NULL;

	while (f && getline(&line, &cap, f) > 0) {
		char *s = line + strspn(line, " \t"), *to;

		if (strncmp(s, "LD_PRELOAD", 10) || !strchr(" \t=", s[10]))
			continue;
		s += 10 + strspn(s + 10, " \t=");
		free(found);
		found = to = calloc(1, strlen(s) + 1);
		if (!found)
			break;
		if (*s != '\'') {
			memcpy(found, s, strcspn(s, " \t\n#"));
			continue;
		}
		for (s++; *s && (*s != '\'' || s[1] == '\''); s++) {
			if ((*s == '\\' || *s == '\'') && s[1])
				s++;
			*to++ = *s;
		}
	}
	if (f)
		fclose(f);
	free(line);
	return found;
}

static void quoted(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' || *s == '\'')
			putc(*s == '\\' ? '\\' : '\'', f);
		putc(*s, f);
	}
}

char *pgenv_add(const char *old, const char *library)
{
	bool was = old != NULL;
	char *base = pgenv_has(old) ? pgenv_remove(old, &was) : strdup(old ? old : ""), *has = base ? value(base) : NULL;
	char *preload = dropin_preload(library, has), *text = NULL;
	size_t n = base ? strlen(base) : 0, len;
	FILE *f = base && preload ? open_memstream(&text, &len) : NULL;
	bool open = n && base[n - 1] != '\n';

	if (f) {
		fprintf(f, "%s%s" BEGIN "%s\nLD_PRELOAD = '", base, open ? "\n" : "", open ? NO_END : was ? "" : NO_FILE);
		quoted(f, preload);
		fputs("'\n" END, f);
		if (fclose(f)) {
			free(text);
			text = NULL;
		}
	}
	free(base);
	free(has);
	free(preload);
	return text;
}
