// SPDX-License-Identifier: MIT
/* Asks systemd over the system bus. */
#include "systemd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-login.h>

#include "bus.h"
#include "iwctl.h"
#include "out.h"

#define NAME	  "org.freedesktop.systemd1"
#define PATH	  "/org/freedesktop/systemd1"
#define MANAGER	  NAME ".Manager"
#define ANSWER_US 30000000u	/* it may be busy with packages, on a busy machine */
#define BUS_US	  10000000u	/* for the bus to let us in */
#define HASTE_US  2000000u	/* for one finding among others */
#define CHANGE_US 90000000u	/* reading all units again; stopping and starting one */

static uint64_t answer_us(void)
{
	return iwctl.patience_ms ? HASTE_US : ANSWER_US;
}

static int fail(const char *what, int r, const sd_bus_error *e)
{
	if (r == -ETIMEDOUT || sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY))
		iwctl_error("systemd does not answer: %s: nothing in time. Try again, or see 'systemctl status'.", what);
	else if (sd_bus_error_has_name(e, SD_BUS_ERROR_SERVICE_UNKNOWN) || sd_bus_error_has_name(e, SD_BUS_ERROR_NAME_HAS_NO_OWNER))
		iwctl_error("systemd is not on the system bus: this host, or container, is not run by it.");
	else if (sd_bus_error_has_name(e, SD_BUS_ERROR_ACCESS_DENIED) || sd_bus_error_has_name(e, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED))
		iwctl_error("systemd: %s: permission denied. Ask as root.", what);
	else
		iwctl_error("systemd: %s: %s", what, e && e->message ? e->message : strerror(-r));
	return IWCTL_FAILED;
}

/* One connection is enough for all questions. */
static sd_bus *bus_open(void)
{
	static sd_bus *bus;
	int r;

	if (bus)
		return bus;
	r = sd_bus_open_system(&bus);
	if (r >= 0)
		r = iwctl_bus_greeting(bus, iwctl.patience_ms ? HASTE_US : BUS_US);
	if (r >= 0)
		return bus;
	if (r == -ETIMEDOUT)
		iwctl_error("systemd cannot be asked: the system bus does not answer. See 'systemctl status dbus'.");
	else
		iwctl_error("systemd cannot be asked: no system bus: %s. Is this host, or container, run by systemd, and is dbus installed?", strerror(-r));
	bus = sd_bus_unref(bus);
	return NULL;
}

static sd_bus_message *method(const char *path, const char *interface, const char *member)
{
	sd_bus *bus = bus_open();
	sd_bus_message *m = NULL;

	if (bus && sd_bus_message_new_method_call(bus, &m, NAME, path, interface, member) < 0)
		iwctl_error("out of memory");
	return m;
}

/* Takes m, of method(), over. *reply: unref, with IWCTL_OK only. */
static int call(sd_bus_message *m, const char *what, uint64_t limit, sd_bus_message **reply)
{
	sd_bus_error e = SD_BUS_ERROR_NULL;
	int r, code = IWCTL_FAILED;

	if (!m)
		return IWCTL_FAILED;
	r = sd_bus_call(sd_bus_message_get_bus(m), m, limit, &e, reply);
	code = r < 0 ? fail(what, r, &e) : IWCTL_OK;
	sd_bus_error_free(&e);
	sd_bus_message_unref(m);
	return code;
}

/* A call of the manager with one string. */
static int manager(const char *member, const char *arg, sd_bus_message **reply)
{
	sd_bus_message *m = method(PATH, MANAGER, member);

	if (m)
		sd_bus_message_append(m, "s", arg);
	return call(m, arg, answer_us(), reply);
}

static int not_understood(const char *what)
{
	iwctl_error("systemd: %s: an answer that this iwctl does not understand", what);
	return IWCTL_FAILED;
}

static int properties(const char *path, const char *interface, json_t *into)
{
	sd_bus_message *m = method(path, "org.freedesktop.DBus.Properties", "GetAll"), *reply;
	json_t *o;
	int code;

	if (m)
		sd_bus_message_append(m, "s", interface);
	code = call(m, path, answer_us(), &reply);
	if (code != IWCTL_OK)
		return code;
	o = iwctl_bus_value(reply);
	sd_bus_message_unref(reply);
	if (!o)
		return not_understood(interface);
	json_object_update(into, o);
	json_decref(o);
	return IWCTL_OK;
}

int systemd_service(const char *name, json_t **out)
{
	sd_bus_message *reply;
	const char *path;
	int code = manager("LoadUnit", name, &reply);

	if (code != IWCTL_OK)
		return code;
	*out = json_object();
	if (sd_bus_message_read(reply, "o", &path) < 0)
		code = not_understood("LoadUnit");
	if (code == IWCTL_OK)
		code = properties(path, NAME ".Unit", *out);
	if (code == IWCTL_OK)
		code = properties(path, NAME ".Service", *out);
	sd_bus_message_unref(reply);
	if (code != IWCTL_OK)
		json_decref(*out);
	return code;
}

/* The field number n of each structure in the array that is the answer. */
static int column(sd_bus_message *reply, size_t n, json_t **out)
{
	json_t *rows = iwctl_bus_value(reply), *row;
	size_t i;

	sd_bus_message_unref(reply);
	if (!rows)
		return not_understood("a list");
	*out = json_array();
	json_array_foreach(rows, i, row)
		json_array_append(*out, json_array_get(row, n));
	json_decref(rows);
	return IWCTL_OK;
}

int systemd_matching(const char *pattern, json_t **out)
{
	sd_bus_message *m = method(PATH, MANAGER, "ListUnitsByPatterns"), *reply;
	int code;

	if (m)
		sd_bus_message_append(m, "asas", 0, 1, pattern);
	code = call(m, pattern, answer_us(), &reply);
	return code == IWCTL_OK ? column(reply, 0, out) : code;
}

int systemd_processes(const char *unit, json_t **out)
{
	sd_bus_message *reply;
	int code = manager("GetUnitProcesses", unit, &reply);

	return code == IWCTL_OK ? column(reply, 1, out) : code;
}

int systemd_reload(void)
{
	sd_bus_message *reply;
	int code = call(method(PATH, MANAGER, "Reload"), "daemon-reload", CHANGE_US, &reply);

	if (code == IWCTL_OK)
		sd_bus_message_unref(reply);
	return code;
}

struct job { const char *path; char result[32]; };

static int removed(sd_bus_message *m, void *arg, sd_bus_error *e)
{
	struct job *job = arg;
	const char *path, *unit, *result;
	uint32_t id;

	(void)e;
	if (job->path && sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) >= 0 && !strcmp(path, job->path))
		strncpy(job->result, result, sizeof(job->result) - 1);
	return 0;
}

/* Signals that came before the path was known are still in the queue: nothing was processed since. */
static int job_wait(sd_bus *bus, struct job *job, const char *unit)
{
	int r = 0;

	while (r >= 0 && !job->result[0]) {
		r = sd_bus_process(bus, NULL);
		if (r == 0 && (r = sd_bus_wait(bus, CHANGE_US)) == 0)
			r = -ETIMEDOUT;
	}
	if (r < 0)
		return fail(unit, r, NULL);
	if (!strcmp(job->result, "done"))
		return IWCTL_OK;
	iwctl_error("%s: the restart ended with \"%s\". See 'systemctl status %s'.", unit, job->result, unit);
	return IWCTL_FAILED;
}

/* Signals go to those who have subscribed: once for all restarts. */
static int subscribe(void)
{
	static bool done;
	sd_bus_message *reply;
	int code;

	if (done)
		return IWCTL_OK;
	code = call(method(PATH, MANAGER, "Subscribe"), "Subscribe", answer_us(), &reply);
	if (code == IWCTL_OK)
		sd_bus_message_unref(reply);
	done = code == IWCTL_OK;
	return code;
}

int systemd_restart(const char *unit)
{
	struct job job = { 0 };
	sd_bus *bus = bus_open();
	sd_bus_slot *slot = NULL;
	sd_bus_message *m, *reply;
	int code = bus ? IWCTL_OK : IWCTL_FAILED;

	if (code == IWCTL_OK && sd_bus_match_signal(bus, &slot, NAME, PATH, MANAGER, "JobRemoved", removed, &job) < 0)
		code = not_understood("JobRemoved");
	if (code == IWCTL_OK)
		code = subscribe();
	if (code == IWCTL_OK) {
		m = method(PATH, MANAGER, "RestartUnit");
		if (m)
			sd_bus_message_append(m, "ss", unit, "replace");
		code = call(m, unit, CHANGE_US, &reply);
	}
	if (code == IWCTL_OK) {
		if (sd_bus_message_read(reply, "o", &job.path) < 0)
			code = not_understood("RestartUnit");
		else
			code = job_wait(bus, &job, unit);
		sd_bus_message_unref(reply);
	}
	sd_bus_slot_unref(slot);
	return code;
}

char *systemd_unit_of(unsigned int pid)
{
	char *unit = NULL;

	return sd_pid_get_unit((pid_t)pid, &unit) >= 0 ? unit : NULL;
}
