// SPDX-License-Identifier: MIT
/* iwctl service: has a service of systemd's load the library, or no more, or says whether it does. */
#include "iwctl.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dropin.h"
#include "file.h"
#include "judge.h"
#include "out.h"
#include "pgenv.h"
#include "systemd.h"
#include "unit.h"
#include "verdict.h"

struct opts { bool dry, restart; };

static void help(FILE *f)
{
	fputs("usage: iwctl service NAME on|off [--dry-run] [--restart]\n"
	      "       iwctl service NAME check\n\n"
	      "on: a drop-in has the service NAME of systemd's load the library: /etc/systemd/system/NAME.service.d/iwsock.conf. It is shown first.\n"
	      "off: takes away what \"on\" made, and nothing else.\n"
	      "check: is it there, is it right, does the service have the library, and which of its settings are in the way.\n"
	      "NAME is that of a service, of an instance (postgresql@15-main) or of a template (NAME@).\n\n"
	      "  -n, --dry-run  show what would be written, and change nothing\n"
	      "  -r, --restart  restart the service if it runs; otherwise the change holds from its next start\n"
	      "  -j, --json\n"
	      "  -h, --help\n"
	      "\nExit code: 0 done, or all is well; 1 it cannot be done, or something is bad.\n", f);
}

static int failed(const char *path, int err)
{
	if (err == -EACCES || err == -EPERM || err == -EROFS)
		iwctl_error("%s: %s. Ask as root.", path, strerror(-err));
	else
		iwctl_error("%s: %s", path, strerror(-err));
	return IWCTL_FAILED;
}

static void dir_of(const char *path, char dir[PATH_MAX])
{
	snprintf(dir, PATH_MAX, "%.*s", (int)(strrchr(path, '/') - path), path);
}

/* ---- writing ---- */

static int drop_take(const struct unit *u)
{
	char dir[PATH_MAX];

	if (unlink(u->path) < 0)
		return failed(u->path, -errno);
	dir_of(u->path, dir);
	if (strstr(u->own, DROPIN_DIR))
		rmdir(dir);	/* somebody else's may be in it by now */
	return IWCTL_OK;
}

static int drop_put(const struct unit *u)
{
	char dir[PATH_MAX];
	int r;

	if (u->own && !u->wanted)
		return drop_take(u);
	if (!u->wanted || (u->own && !strcmp(u->own, u->wanted)))
		return IWCTL_OK;
	dir_of(u->path, dir);
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return failed(dir, -errno);
	r = file_replace(u->path, u->wanted, NULL);
	if (r && strstr(u->wanted, DROPIN_DIR))
		rmdir(dir);
	return r ? failed(u->path, r) : IWCTL_OK;
}

static int block_put(const struct unit *u)
{
	int r;

	if (!u->env_wanted || (u->env_own && !strcmp(u->env_own, u->env_wanted)))
		return IWCTL_OK;
	r = file_replace(u->env, u->env_wanted, u->env_own ? &u->env_stat : NULL);
	return r ? failed(u->env, r) : IWCTL_OK;
}

static int block_take(const struct unit *u)
{
	bool was;
	char *text;
	int r;

	if (!pgenv_has(u->env_own))
		return IWCTL_OK;
	text = pgenv_remove(u->env_own, &was);
	if (was)
		r = text ? file_replace(u->env, text, &u->env_stat) : -ENOMEM;
	else
		r = unlink(u->env) < 0 ? -errno : 0;
	free(text);
	return r ? failed(u->env, r) : IWCTL_OK;
}

/* ---- telling ---- */

static void show(const char *what, const char *path, const char *text)
{
	if (!iwctl.json && text)
		printf("%s %s:\n%s%s", what, path, text, *text && text[strlen(text) - 1] != '\n' ? "\n" : "");
}

static int restarts(const struct unit *u, const struct opts *o, bool changed, json_t *out)
{
	json_t *names = unit_running(u), *v;
	int code = names ? IWCTL_OK : IWCTL_FAILED;
	size_t i;

	json_object_set_new(out, "restarted", json_array());
	json_object_set_new(out, "restart_needed", json_array());
	json_array_foreach(names, i, v) {
		const char *name = json_string_value(v);

		if (o->restart) {
			code = systemd_restart(name);
			if (code != IWCTL_OK)
				break;
			json_array_append(json_object_get(out, "restarted"), v);
			if (!iwctl.json)
				printf("restarted %s\n", name);
		} else if (changed) {
			json_array_append(json_object_get(out, "restart_needed"), v);
			if (!iwctl.json)
				printf("%s runs as before until it is restarted: systemctl restart %s\n", name, name);
		}
	}
	json_decref(names);
	return code;
}

static json_t *result(const struct unit *u, const struct opts *o, bool changed)
{
	json_t *out = json_pack("{s:s, s:s, s:b, s:b, s:s?}", "unit", u->name, "drop_in", u->path, "changed", changed && !o->dry, "dry_run", o->dry,
				"environment_file", u->env[0] ? u->env : NULL);

	return out ? out : json_object();
}

static int finish(const struct unit *u, const struct opts *o, bool changed, json_t *out, int code)
{
	int printed;

	if (code == IWCTL_OK && !o->dry)
		code = restarts(u, o, changed, out);
	if (!iwctl.json || code == IWCTL_FAILED) {
		json_decref(out);
		return code;
	}
	printed = iwctl_print_json(out);
	return printed == IWCTL_OK ? code : printed;
}

/* ---- the three ---- */

/* With the drop-in read: is it what counts? */
static int effective(const struct unit *u)
{
	struct unit now;
	const char *has;
	int code = unit_find(&now, u->template ? u->by : u->name);

	if (code != IWCTL_OK)
		return code;
	has = dropin_env(json_object_get(now.p, "Environment"), "LD_PRELOAD");
	if (!now.env[0] && !(has && strstr(has, u->library))) {
		iwctl_error("%s: written, but something later sets LD_PRELOAD: see 'systemctl cat %s'", u->path, u->name);
		code = IWCTL_NO;
	}
	unit_free(&now);
	return code;
}

static int turn_on(const struct unit *u, const struct opts *o)
{
	bool changed = !unit_is_on(u);
	json_t *out;
	char why[UNIT_WHY];
	int code = IWCTL_OK;

	if (unit_refused(u, why)) {
		iwctl_error("%s", why);
		return IWCTL_NO;
	}
	if (u->own && !dropin_ours(u->own)) {
		iwctl_error("%s was not written by iwctl: give it another name, or take it away", u->path);
		return IWCTL_NO;
	}
	if (strcmp(u->by, u->name)) {
		iwctl_error("%s has it by its template: 'iwctl service %s on' or off is for all of its instances", u->name, u->by);
		return IWCTL_NO;
	}
	out = result(u, o, changed);
	json_object_set_new(out, "text", u->wanted ? json_string(u->wanted) : json_null());
	if (u->env_wanted)
		json_object_set_new(out, "environment_text", json_string(u->env_wanted));
	if (!changed && !iwctl.json)
		printf("%s is on already.\n", u->name);
	if (changed) {
		show(o->dry ? "would write" : "writing", u->path, u->wanted);
		show(o->dry ? "would write" : "writing", u->env, u->env_wanted);
	}
	if (changed && !o->dry) {
		/* seen before it is done */
		fflush(stdout);
		code = drop_put(u);
		if (code == IWCTL_OK)
			code = block_put(u);
		if (code == IWCTL_OK)
			code = systemd_reload();
		if (code == IWCTL_OK)
			code = effective(u);
	}
	if (code != IWCTL_OK) {
		json_decref(out);
		return code;
	}
	code = finish(u, o, changed, out, code);
	if (code == IWCTL_OK && !iwctl.json && !o->dry)
		printf("'iwctl service %s check' says whether it works.\n", u->name);
	return code;
}

static int turn_off(const struct unit *u, const struct opts *o)
{
	bool own = dropin_ours(u->own), block = pgenv_has(u->env_own), changed = own || block;
	int code = IWCTL_OK;

	if (own && strcmp(u->by, u->name)) {
		iwctl_error("%s has it by its template: 'iwctl service %s off' is for all of its instances", u->name, u->by);
		return IWCTL_NO;
	}
	if (!iwctl.json && !changed)
		printf("%s is not on: nothing to take away.\n", u->name);
	if (own && !iwctl.json)
		printf("%s %s\n", o->dry ? "would take away" : "taking away", u->path);
	if (block && !iwctl.json)
		printf("%s the block in %s\n", o->dry ? "would take away" : "taking away", u->env);
	fflush(stdout);
	if (own && !o->dry)
		code = drop_take(u);
	if (code == IWCTL_OK && block && !o->dry)
		code = block_take(u);
	if (code == IWCTL_OK && changed && !o->dry)
		code = systemd_reload();
	return finish(u, o, changed, result(u, o, changed), code);
}

static int check(const struct unit *u)
{
	json_t *list = json_array();

	judge_unit(list, u);
	return verdicts_end(list, u->name);
}

int service_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "dry-run", no_argument, NULL, 'n' }, { "restart", no_argument, NULL, 'r' }, { "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	struct opts o = { 0 };
	struct unit u;
	const char *what;
	int c, code;

	optind = 0;
	while ((c = getopt_long(argc, argv, "nrjh", options, NULL)) != -1) {
		switch (c) {
		case 'n': o.dry = true; break;
		case 'r': o.restart = true; break;
		case 'j': iwctl.json = true; break;
		default: help(c == 'h' ? stdout : stderr); return c == 'h' ? IWCTL_OK : IWCTL_USAGE;
		}
	}
	what = optind == argc - 2 ? argv[optind + 1] : "";
	if (strcmp(what, "on") && strcmp(what, "off") && strcmp(what, "check")) {
		if (optind == argc - 2)
			iwctl_error("service: \"%s\" is none of on, off, check", what);
		help(stderr);
		return IWCTL_USAGE;
	}
	if (!strcmp(what, "check") && (o.dry || o.restart)) {
		iwctl_error("service: --dry-run and --restart are for on and off");
		return IWCTL_USAGE;
	}
	code = unit_find(&u, argv[optind]);
	if (code != IWCTL_OK)
		return code;
	if (!strcmp(what, "check"))
		code = check(&u);
	else
		code = !strcmp(what, "on") ? turn_on(&u, &o) : turn_off(&u, &o);
	unit_free(&u);
	return code;
}
