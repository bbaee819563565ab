// SPDX-License-Identifier: MIT
/* Finds a service by what people call it, and what it has of ours. */
#include "unit.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dropin.h"
#include "file.h"
#include "iwctl.h"
#include "library.h"
#include "out.h"
#include "pgenv.h"
#include "proc.h"
#include "systemd.h"

#define DIR	"/etc/systemd/system/"
#define PG_DIR	"/etc/postgresql/"
#define FILE_OF ".d/iwsock.conf"

static bool ends(const char *s, const char *with)
{
	size_t n = strlen(s), m = strlen(with);

	return n >= m && !strcmp(s + n - m, with);
}

/* As people write it, to what systemd calls it. */
static int full_name(const char *name, char full[NAME_MAX + 1])
{
	static const char *const others[] = { ".socket", ".target", ".timer", ".mount", ".automount", ".swap", ".path", ".slice", ".scope", ".device" };
	bool service = ends(name, ".service");

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (ends(name, others[i])) {
			iwctl_error("%s is no service: give the name of one, as redis-server or postgresql@15-main", name);
			return IWCTL_USAGE;
		}
	if (!*name || *name == '.' || *name == '-' || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@") != strlen(name) ||
	    snprintf(full, NAME_MAX + 1, service ? "%s" : "%s.service", name) > NAME_MAX - (int)strlen(FILE_OF)) {
		iwctl_error("\"%s\" is not the name of a service: give one as redis-server or postgresql@15-main", name);
		return IWCTL_USAGE;
	}
	return IWCTL_OK;
}

bool unit_loaded(const struct unit *u)
{
	return !strcmp(iwctl_str(u->p, "LoadState", ""), "loaded");
}

const char *unit_program(const json_t *properties)
{
	const char *s = json_string_value(json_array_get(json_array_get(json_object_get(properties, "ExecStart"), 0), 0));

	return s ? s : "";
}

/* "foo@.service" of "foo@bar.service"; "": it is no instance. */
static void template_of(const char *name, char template[NAME_MAX + 1])
{
	const char *at = strchr(name, '@');

	*template = 0;
	if (at && at[1] != '.')
		snprintf(template, NAME_MAX + 1, "%.*s@.service", (int)(at - name), name);
}

static char *own_of(struct unit *u, const char *name)
{
	char path[PATH_MAX];
	char *text;

	snprintf(path, sizeof(path), DIR "%s" FILE_OF, name);
	text = file_text(path, NULL);
	if (text) {
		strcpy(u->path, path);
		snprintf(u->by, sizeof(u->by), "%s", name);
	}
	return text;
}

static void find_own(struct unit *u)
{
	char template[NAME_MAX + 1];

	snprintf(u->by, sizeof(u->by), "%s", u->name);
	snprintf(u->path, sizeof(u->path), DIR "%s" FILE_OF, u->name);
	u->own = own_of(u, u->name);
	template_of(u->name, template);
	if (u->own || !*template)
		return;
	u->own = own_of(u, template);
	if (!u->own || dropin_ours(u->own))
		return;
	free(u->own);	/* of somebody else: not for us */
	u->own = NULL;
	snprintf(u->by, sizeof(u->by), "%s", u->name);
	snprintf(u->path, sizeof(u->path), DIR "%s" FILE_OF, u->name);
}

/* Debian's pg_ctlcluster gives its server nothing but what this file says. */
static void find_pg(struct unit *u)
{
	const char *program = unit_program(u->p), *at = strchr(u->name, '@'), *dash = at ? strchr(at, '-') : NULL;

	if (u->template || !dash || !ends(program, "/pg_ctlcluster"))
		return;
	snprintf(u->env, sizeof(u->env), PG_DIR "%.*s/%.*s/environment", (int)(dash - at - 1), at + 1, (int)(strlen(dash) - 1 - strlen(".service")), dash + 1);
	u->env_own = file_text(u->env, &u->env_stat);
	u->env_err = u->env_own || errno == ENOENT ? 0 : errno;
	if (u->library[0] && !u->env_err)
		u->env_wanted = pgenv_add(u->env_own, u->library);
}

static bool dir_is_there(const char *path)
{
	struct stat st;
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	return lstat(dir, &st) == 0;
}

int unit_find(struct unit *u, const char *name)
{
	char full[NAME_MAX + 1], probe[NAME_MAX + 32];
	const char *file;
	int code;

	memset(u, 0, sizeof(*u));
	code = full_name(name, full);
	if (code != IWCTL_OK)
		return code;
	u->template = ends(full, "@.service");
	if (u->template)
		snprintf(probe, sizeof(probe), "%.*siwctl-asks.service", (int)(strlen(full) - strlen(".service")), full);
	code = systemd_service(u->template ? probe : full, &u->p);
	if (code != IWCTL_OK)
		return code;
	file = strrchr(iwctl_str(u->p, "FragmentPath", ""), '/');
	if (u->template)
		snprintf(u->name, sizeof(u->name), "%s", file && ends(file, "@.service") ? file + 1 : full);
	else
		snprintf(u->name, sizeof(u->name), "%s", iwctl_str(u->p, "Id", full));
	if (iwctl_library(u->library) < 0)
		u->library[0] = 0;
	find_own(u);
	find_pg(u);
	if (unit_loaded(u) && u->library[0])
		u->wanted = dropin_text(u->p, u->by, u->library, dropin_ours(u->own) ? u->own : NULL, !u->env[0],
					u->own ? !!strstr(u->own, DROPIN_DIR) : !dir_is_there(u->path));
	return IWCTL_OK;
}

void unit_free(struct unit *u)
{
	json_decref(u->p);
	free(u->own);
	free(u->wanted);
	free(u->env_own);
	free(u->env_wanted);
}

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

bool unit_is_on(const struct unit *u)
{
	return same(u->own, u->wanted) && same(u->env_own, u->env_wanted);
}

/* The last LD_PRELOAD= of a file as systemd reads it. */
static bool in_file(const char *path, char value[PATH_MAX])
{
	char *text = file_text(path, NULL), *save = NULL;
	bool found = false;

	for (char *s = text ? strtok_r(text, "\n", &save) : NULL; s; s = strtok_r(NULL, "\n", &save)) {
		s += strspn(s, " \t");
		if (strncmp(s, "LD_PRELOAD=", 11))
			continue;
		s += 11 + strspn(s + 11, "\"' ");
		snprintf(value, PATH_MAX, "%.*s", (int)strcspn(s, "\"'"), s);
		found = true;
	}
	free(text);
	return found;
}

bool unit_env_file(const json_t *properties, char file[PATH_MAX], char value[PATH_MAX])
{
	const json_t *list = json_object_get(properties, "EnvironmentFiles"), *v;
	bool found = false;
	size_t i;

	json_array_foreach(list, i, v) {
		const char *pattern = json_string_value(json_array_get(v, 0));
		glob_t g;

		if (!pattern || glob(pattern, 0, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++)
			if (in_file(g.gl_pathv[k], value)) {
				snprintf(file, PATH_MAX, "%s", g.gl_pathv[k]);
				found = true;
			}
		globfree(&g);
	}
	return found;
}

/* A unit that starts nothing itself, as Debian's postgresql.service: its instances do. */
static bool wrapper(const struct unit *u, char why[UNIT_WHY])
{
	json_t *list, *v;
	char pattern[NAME_MAX + 8];
	size_t i, n = 0;

	if (!ends(unit_program(u->p), "/true"))
		return false;
	snprintf(pattern, sizeof(pattern), "%.*s@*.service", (int)(strlen(u->name) - strlen(".service")), u->name);
	if (systemd_matching(pattern, &list) != IWCTL_OK)
		return false;
	n = (size_t)snprintf(why, UNIT_WHY, "%s starts no server itself:", u->name);
	json_array_foreach(list, i, v)
		if (n < UNIT_WHY)
			n += (size_t)snprintf(why + n, UNIT_WHY - n, " %.*s", (int)(strlen(json_string_value(v)) - strlen(".service")), json_string_value(v));
	if (n < UNIT_WHY)
		snprintf(why + n, UNIT_WHY - n, json_array_size(list) ? " do; give these" : " nothing of it is running");
	json_decref(list);
	return true;
}

bool unit_refused(const struct unit *u, char why[UNIT_WHY])
{
	const char *state = iwctl_str(u->p, "LoadState", "?");
	const json_t *unset = json_object_get(u->p, "UnsetEnvironment"), *v;
	char file[PATH_MAX], value[PATH_MAX];
	size_t i;

	if (!strcmp(state, "not-found")) {
		snprintf(why, UNIT_WHY, "there is no service %s; see 'systemctl list-units --type=service'", u->name);
		return true;
	}
	if (!unit_loaded(u)) {
		snprintf(why, UNIT_WHY, "%s: systemd does not have it: %s; see 'systemctl status %s'", u->name, state, u->name);
		return true;
	}
	if (wrapper(u, why))
		return true;
	if (!u->library[0]) {
		snprintf(why, UNIT_WHY, IWCTL_LIBRARY " is not installed: neither beside iwctl nor where the loader looks. 'make install', or ldconfig");
		return true;
	}
	if (strpbrk(u->library, ": \t\n")) {
		snprintf(why, UNIT_WHY, "%.400s: LD_PRELOAD can name no file with blanks or colons; install it elsewhere", u->library);
		return true;
	}
	if (u->env_err) {
		snprintf(why, UNIT_WHY, "%.400s: %s", u->env, u->env_err == ELOOP ? "it is a link, and only a file is changed" : strerror(u->env_err));
		return true;
	}
	if (u->env[0])
		return false;
	json_array_foreach(unset, i, v)
		if (json_string_value(v) && !strncmp(json_string_value(v), "LD_PRELOAD", 10)) {
			snprintf(why, UNIT_WHY, "%s takes LD_PRELOAD away: UnsetEnvironment=; change that by 'systemctl edit %s'", u->name, u->name);
			return true;
		}
	if (unit_env_file(u->p, file, value) && !strstr(value, IWCTL_LIBRARY)) {
		snprintf(why, UNIT_WHY, "%.200s sets LD_PRELOAD, which would win over a drop-in; add %.200s to it there", file, u->library);
		return true;
	}
	return false;
}

json_t *unit_running(const struct unit *u)
{
	char pattern[NAME_MAX + 8];
	json_t *list, *names = json_array(), *v, *p;
	size_t i;

	if (!u->template) {
		if (iwctl_num(u->p, "MainPID") || !strcmp(iwctl_str(u->p, "ActiveState", ""), "active"))
			json_array_append_new(names, json_string(u->name));
		return names;
	}
	snprintf(pattern, sizeof(pattern), "%.*s*.service", (int)(strlen(u->name) - strlen(".service")), u->name);
	if (systemd_matching(pattern, &list) != IWCTL_OK) {
		json_decref(names);
		return NULL;
	}
	json_array_foreach(list, i, v) {
		if (systemd_service(json_string_value(v), &p) != IWCTL_OK)
			continue;
		if (!strcmp(iwctl_str(p, "ActiveState", ""), "active"))
			json_array_append(names, v);
		json_decref(p);
	}
	json_decref(list);
	return names;
}
