// SPDX-License-Identifier: MIT
/* RDMA devices of this host: what the kernel says of them (/sys/class/infiniband), what the daemon has carried by them, and why it would not. */
#include "devices.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus.h"
#include "iwctl.h"
#include "judge.h"
#include "out.h"
#include "proc.h"
#include "verdict.h"

#define CLASS	"/sys/class/infiniband"
#define RDMA_CM	"/dev/infiniband/rdma_cm"
#define SMALL	(200u << 10)	/* what a stream locks beside its two rings */

/* The first line of CLASS/DEVICE/what. false: there is none. */
static bool read_line(const char *device, const char *what, char *out, size_t size)
{
	char path[512];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), CLASS "/%s/%s", device, what);
	f = fopen(path, "re");
	ok = f && fgets(out, (int)size, f);
	if (f)
		fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = 0;
	return ok && *out;
}

/* "4: ACTIVE" is active. */
static void meant(char *s)
{
	char *colon = strchr(s, ':');

	if (colon)
		memmove(s, colon + 1 + (colon[1] == ' '), strlen(colon + 1 + (colon[1] == ' ')) + 1);
	for (; *s; s++)
		*s = (char)tolower(*s);
}

static const char *kind_of(const char *device, const char *port)
{
	char type[64] = "", link[64] = "", what[300];

	read_line(device, "node_type", type, sizeof(type));
	snprintf(what, sizeof(what), "ports/%s/link_layer", port);
	read_line(device, what, link, sizeof(link));
	if (atoi(type) == 4)
		return "iwarp";
	return atoi(type) != 1 ? "unknown" : strcmp(link, "Ethernet") ? "infiniband" : "roce";
}

static bool numbered(const struct dirent *e)
{
	return isdigit((unsigned char)*e->d_name);
}

static bool interface_of(const char *device, const char *port, char out[64])
{
	char path[600], what[600];
	bool found = false;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), CLASS "/%s/ports/%s/gid_attrs/ndevs", device, port);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		if (!numbered(e))
			continue;
		snprintf(what, sizeof(what), "ports/%s/gid_attrs/ndevs/%.32s", port, e->d_name);
		found = read_line(device, what, out, 64);
	}
	if (d)
		closedir(d);
	snprintf(path, sizeof(path), CLASS "/%s/device/net", device);
	d = found ? NULL : opendir(path);
	while (d && !found && (e = readdir(d))) {
		found = *e->d_name != '.';
		snprintf(out, 64, "%.63s", e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

/* Its best port, which is active where any is. */
static json_t *seen(const char *device)
{
	char path[512], port[32] = "1", state[64] = "unknown", s[64], what[64], interface[64];
	struct dirent *e;
	json_t *row;
	DIR *d;

	snprintf(path, sizeof(path), CLASS "/%s/ports", device);
	d = opendir(path);
	while (d && strcmp(state, "active") && (e = readdir(d))) {
		if (!numbered(e))
			continue;
		snprintf(what, sizeof(what), "ports/%.24s/state", e->d_name);
		if (!read_line(device, what, s, sizeof(s)))
			continue;
		meant(s);
		memcpy(state, s, sizeof(state));
		snprintf(port, sizeof(port), "%.24s", e->d_name);
	}
	if (d)
		closedir(d);
	row = json_pack("{s:s, s:s, s:s}", "device", device, "kind", kind_of(device, port), "state", state);
	if (row && interface_of(device, port, interface))
		json_object_set_new(row, "interface", json_string(interface));
	return row;
}

static json_t *named(json_t *rows, const char *device)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
		if (!strcmp(iwctl_str(row, "device", ""), device))
			return row;
	return NULL;
}

static json_t *all_seen(void)
{
	json_t *rows = json_array();
	struct dirent **e = NULL;
	int n = scandir(CLASS, &e, NULL, versionsort);

	for (int i = 0; i < n; i++) {
		if (*e[i]->d_name != '.' && strlen(e[i]->d_name) < 64)
			json_array_append_new(rows, seen(e[i]->d_name));
		free(e[i]);
	}
	free(e);
	return rows;
}

/* Why the daemon carries nothing by it; NULL: it does where it can. */
static const char *why_not(const json_t *row, const json_t *status, char s[128])
{
	const char *state = iwctl_str(row, "state", "");

	if (!iwctl_true(status, "verbs"))
		return "this iwarpd was built without libibverbs and librdmacm";
	if (strcmp(iwctl_str(status, "provider", "auto"), "auto"))
		return "provider = soft";
	if (fnmatch(iwctl_str(status, "device", "*"), iwctl_str(row, "device", ""), 0)) {
		snprintf(s, 128, "device = %.64s", iwctl_str(status, "device", ""));
		return s;
	}
	if (!*state)
		return "it is gone";
	if (!strcmp(state, "active"))
		return NULL;
	snprintf(s, 128, "its port is %.32s", state);
	return s;
}

static json_t *merged(json_t *used, const json_t *status)
{
	json_t *rows = all_seen(), *row, *u;
	const char *why;
	char s[128];
	size_t i;

	json_array_foreach(used, i, u) {
		row = named(rows, iwctl_str(u, "device", ""));
		if (row)
			json_object_update_missing(row, u);
		else
			json_array_append(rows, u);
	}
	json_array_foreach(rows, i, row) {
		why = why_not(row, status, s);
		json_object_set_new(row, "usable", json_boolean(!why));
		if (why)
			json_object_set_new(row, "why_not", json_string(why));
	}
	return rows;
}

int iwctl_devices(json_t **out)
{
	json_t *status = NULL, *used = NULL;
	int code = iwctl_query("Status", &status);

	if (code == IWCTL_OK)
		code = iwctl_query("Devices", &used);
	if (code == IWCTL_OK)
		*out = merged(used, status);
	json_decref(status);
	json_decref(used);
	return code;
}

/* ---- doctor ---- */

#define DROP_IN "iwarpd.conf(5), provider, has the drop-in that iwarpd.service needs."

/* What units forbid by default. */
static void judge_unit_of(json_t *list, const json_t *status)
{
	unsigned long need = 2 * iwctl_num(status, "ring_size") + SMALL, locked;
	unsigned int pid = (unsigned int)iwctl_num(status, "pid");
	char path[96];

	snprintf(path, sizeof(path), "/proc/%u/root" RDMA_CM, pid);
	if (!access(RDMA_CM, F_OK) && access(path, F_OK) && errno == ENOENT)
		verdict(list, VERDICT_BAD, "devices", DROP_IN, "the daemon has no " RDMA_CM ": PrivateDevices=?");
	if (iwctl_proc_limit(pid, "Max locked memory", &locked) && locked < need)
		verdict(list, VERDICT_BAD, "devices", DROP_IN, "the daemon may lock %lu octets of memory: not one stream's %lu (LimitMEMLOCK=)", locked, need);
}

void judge_devices(json_t *list, const json_t *status)
{
	bool automatic = !strcmp(iwctl_str(status, "provider", ""), "auto");
	json_t *used = json_array(), *rows = merged(used, status), *row;
	unsigned int usable = 0;
	size_t i;

	json_array_foreach(rows, i, row) {
		const char *name = iwctl_str(row, "device", "?"), *why = iwctl_str(row, "why_not", NULL);

		usable += !why;
		if (!why)
			verdict(list, VERDICT_OK, "devices", NULL, "%s (%s) is used where it reaches the other host", name, iwctl_str(row, "kind", "?"));
		else
			verdict(list, automatic ? VERDICT_WARN : VERDICT_OK, "devices", automatic ? "'iwctl devices' shows all." : NULL, "%s (%s) is not used: %s", name,
				iwctl_str(row, "kind", "?"), why);
	}
	if (automatic && usable)
		judge_unit_of(list, status);
	else if (automatic && !i)
		verdict(list, VERDICT_WARN, "devices", "'rdma link' shows what the kernel has; provider = soft needs none.", "provider = auto, and this host has no RDMA device");
	json_decref(rows);
	json_decref(used);
}
