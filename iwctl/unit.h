/* SPDX-License-Identifier: MIT */
/* A service, and what it has of ours: the drop-in, and the block in the environment file of a PostgreSQL cluster. */
#ifndef IWCTL_UNIT_H
#define IWCTL_UNIT_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#define UNIT_WHY 1024

struct unit {
	char name[NAME_MAX + 1];	/* its own, not an alias; of a template without an instance */
	char by[NAME_MAX + 1];		/* whose drop-in it has or would have: name, or its template */
	bool template;
	json_t *p;			/* properties; of a template those that an instance would have */
	char library[PATH_MAX];		/* "": not found */
	char path[PATH_MAX];		/* of the drop-in */
	char *own, *wanted;		/* what it says (NULL: not there) and has to say (NULL: not needed) */
	char env[PATH_MAX];		/* of the environment file of a PostgreSQL cluster; "": it is none */
	char *env_own, *env_wanted;
	int env_err;			/* why it cannot be read */
	struct stat env_stat;
};

/* name as people write it. Errors are printed; an exit code. With IWCTL_OK: unit_free(). Whether it is there is unit_loaded(). */
int unit_find(struct unit *u, const char *name);
bool unit_loaded(const struct unit *u);
void unit_free(struct unit *u);
/* Why what it has cannot be changed so that it loads the library: a sentence in why. */
bool unit_refused(const struct unit *u, char why[UNIT_WHY]);
/* Its drop-in and block are what they have to be. */
bool unit_is_on(const struct unit *u);
/* Names of what runs: itself, or the instances of a template; an array of strings, to be freed. NULL: printed. */
json_t *unit_running(const struct unit *u);
/* The program of its ExecStart=, "" if it has none. */
const char *unit_program(const json_t *properties);
/* LD_PRELOAD in one of the files of EnvironmentFile=: file and value; false: in none. */
bool unit_env_file(const json_t *properties, char file[PATH_MAX], char value[PATH_MAX]);

#endif
