/* SPDX-License-Identifier: MIT */
/* The golden vectors, read once from tests/vectors.txt (or IW_VECTORS). */
#ifndef TESTS_VEC_UTIL_H
#define TESTS_VEC_UTIL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vec {
	char name[40];
	uint8_t *p;
	size_t n;
	int used;		/* a test looked at it */
};

static struct vec vecs[400];
static unsigned int nvecs;

static inline int vec_hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline void vec_parse(char *line)
{
	struct vec *v = &vecs[nvecs];
	char *tab = strchr(line, '\t'), *hex = strrchr(line, '\t') + 1;

	if (nvecs == sizeof(vecs) / sizeof(vecs[0]) || tab - line >= (long)sizeof(v->name)) {
		fprintf(stderr, "vectors: %s: too many, or a name too long\n", line);
		exit(99);
	}
	memcpy(v->name, line, tab - line);
	v->p = malloc(strlen(hex) / 2 + 1);
	for (; vec_hex(hex[0]) >= 0 && vec_hex(hex[1]) >= 0; hex += 2)
		v->p[v->n++] = (uint8_t)(vec_hex(hex[0]) << 4 | vec_hex(hex[1]));
	nvecs++;
}

static inline void vec_load(void)
{
	const char *path = getenv("IW_VECTORS") ? getenv("IW_VECTORS") : "tests/vectors.txt";
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t cap = 0;

	if (!f) {
		fprintf(stderr, "vectors: %s: %m (set IW_VECTORS)\n", path);
		exit(99);
	}
	while (getline(&line, &cap, f) > 0)
		if (line[0] != '#' && strchr(line, '\t'))
			vec_parse(line);
	free(line);
	fclose(f);
}

static inline void vec_unload(void)
{
	for (unsigned int i = 0; i < nvecs; i++)
		free(vecs[i].p);
	nvecs = 0;
}

/* NULL when there is none of that name. */
static inline struct vec *vec_find(const char *name)
{
	for (unsigned int i = 0; i < nvecs; i++)
		if (!strcmp(vecs[i].name, name)) {
			vecs[i].used = 1;
			return &vecs[i];
		}
	return NULL;
}

static inline struct vec *vec_get(const char *name)
{
	struct vec *v = vec_find(name);

	if (!v) {
		fprintf(stderr, "vectors: no vector %s\n", name);
		exit(99);
	}
	return v;
}

#endif
