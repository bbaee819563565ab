// SPDX-License-Identifier: MIT
/* Ask the daemon over D-Bus and turn its answers into JSON values. */
#include "bus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#include "iwctl.h"
#include "out.h"

#define BUS_NAME "org.iwsock.Daemon1"
#define BUS_PATH "/org/iwsock/Daemon1"
#define THERE_US  1000000u	/* until a daemon shows that it is at work at all */
#define ANSWER_US 10000000u
#define PROBE_US  60000000u
#define CHANGE_US 60000000u

static uint64_t answer_us(void)
{
	return iwctl.patience_ms ? (uint64_t)iwctl.patience_ms * 1000 : ANSWER_US;
}

/* ---- finding the daemon ---- */

static int connect_dir(const char *dir, char path[108])
{
	const struct timeval limit = { .tv_sec = THERE_US / 1000000 };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd, r;

	if (snprintf(a.sun_path, sizeof(a.sun_path), "%s/bus.sock", dir) >= (int)sizeof(a.sun_path))
		return -ENAMETOOLONG;
	memcpy(path, a.sun_path, sizeof(a.sun_path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* one that accepts nobody any more keeps others waiting here, too */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

static void explain(const char *path, int err)
{
	switch (-err) {
	case ENOENT:
		iwctl_error("no iwarpd here: %s does not exist.\n"
			    "Start it (systemctl start iwarpd), or say where it runs with --run-dir or IWSOCK_RUNDIR.", path);
		break;
	case ECONNREFUSED:
		iwctl_error("iwarpd has ended: nobody answers on %s.\nSee journalctl -u iwarpd; start it: systemctl start iwarpd.", path);
		break;
	case EACCES: case EPERM:
		iwctl_error("%s: permission denied. Ask as root or as the user that runs the daemon.", path);
		break;
	case EAGAIN:
		iwctl_error("iwarpd does not answer: it accepts nobody on %s. See journalctl -u iwarpd.", path);
		break;
	default:
		iwctl_error("%s: %s", path, strerror(-err));
	}
}

/* The first of the usual places that answers; otherwise the error of the first that is there at all. */
static int find_daemon(void)
{
	const char *env = getenv("IWSOCK_RUNDIR"), *xdg = getenv("XDG_RUNTIME_DIR");
	char user[108], path[108], first[108];
	const char *dirs[3] = { 0 };
	int n = 0, err = -ENOENT, fd;

	if (iwctl.run_dir) {
		dirs[n++] = iwctl.run_dir;
	} else if (env && *env) {
		dirs[n++] = env;
	} else {
		dirs[n++] = "/run/iwarpd";
		if (xdg && *xdg && snprintf(user, sizeof(user), "%s/iwarpd", xdg) < (int)sizeof(user))
			dirs[n++] = user;
	}
	snprintf(first, sizeof(first), "%s/bus.sock", dirs[0]);
	for (int i = 0; i < n; i++) {
		fd = connect_dir(dirs[i], path);
		if (fd >= 0)
			return fd;
		if (fd != -ENOENT && err == -ENOENT) {
			err = fd;
			memcpy(first, path, sizeof(first));
		}
	}
	explain(first, err);
	return err;
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* The limit of a call does not count before, and sd-bus waits a minute and a half. */
int iwctl_bus_greeting(sd_bus *bus, uint64_t limit_us)
{
	uint64_t until = now_us() + limit_us, now;
	int r;

	while ((r = sd_bus_is_ready(bus)) == 0) {
		r = sd_bus_process(bus, NULL);
		now = now_us();
		if (r == 0 && now < until)
			r = sd_bus_wait(bus, until - now);
		else if (r == 0)
			r = -ETIMEDOUT;
		if (r < 0)
			return r;
	}
	return r;
}

/* As the kernel shows it: R runs or would if there were a processor, T is stopped; 0: gone, or hidden. */
static char state_of(pid_t pid)
{
	char path[32], line[512], *end = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f))
		end = strrchr(line, ')');
	if (f)
		fclose(f);
	return end && end[1] ? end[2] : 0;
}

static int ping(sd_bus *bus, uint64_t limit_us)
{
	sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(bus, &m, BUS_NAME, BUS_PATH, "org.freedesktop.DBus.Peer", "Ping");

	if (r >= 0)
		r = sd_bus_call(bus, m, limit_us, NULL, NULL);
	sd_bus_message_unref(m);
	return r == -ETIMEDOUT ? r : 0;		/* every other answer is one, and the question itself will get it, too */
}

/*
 * Until the daemon does something for us: a greeting, or the answer to a ping. One that sleeps, or is stopped, while somebody asks it hangs, and
 * is not waited for; one that runs is busy, or the host is.
 */
static int there(sd_bus *bus, pid_t pid, int (*try)(sd_bus *bus, uint64_t limit_us))
{
	uint64_t waited = 0;
	int r;

	do
		r = try(bus, THERE_US);
	while (r == -ETIMEDOUT && (waited += THERE_US) < answer_us() && state_of(pid) == 'R');
	if (r == -ETIMEDOUT && try == iwctl_bus_greeting)
		r = try(bus, 0);	/* it may have come while we looked */
	if (r == -ETIMEDOUT)
		iwctl_error("iwarpd does not answer: %s within %u s. See journalctl -u iwarpd.",
			    state_of(pid) == 'T' ? "its process is stopped; nothing" : "nothing", (unsigned int)(waited / 1000000));
	return r;
}

static sd_bus *open_private(void)
{
	struct ucred daemon = { 0 };
	socklen_t len = sizeof(daemon);
	sd_bus *bus = NULL;
	int fd = find_daemon(), r;

	if (fd < 0)
		return NULL;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &daemon, &len);
	r = sd_bus_new(&bus);
	if (r >= 0)
		r = sd_bus_set_fd(bus, fd, fd);
	if (r < 0) {
		close(fd);
		goto fail;
	}
	r = sd_bus_start(bus);
	if (r >= 0)
		r = there(bus, daemon.pid, iwctl_bus_greeting);
	if (r >= 0)
		return bus;
fail:
	if (r != -ETIMEDOUT)
		iwctl_error("cannot talk to iwarpd: %s", strerror(-r));
	sd_bus_unref(bus);
	return NULL;
}

static pid_t pid_of_name(sd_bus *bus)
{
	sd_bus_creds *creds = NULL;
	pid_t pid = 0;

	if (sd_bus_get_name_creds(bus, BUS_NAME, SD_BUS_CREDS_PID, &creds) >= 0)
		sd_bus_creds_get_pid(creds, &pid);
	sd_bus_creds_unref(creds);
	return pid;
}

static sd_bus *open_system(void)
{
	sd_bus *bus = NULL;
	int r = sd_bus_open_system(&bus);

	if (r >= 0)
		r = iwctl_bus_greeting(bus, THERE_US);
	if (r < 0) {
		iwctl_error("no system bus: %s. Ask the daemon directly, without --system.", strerror(-r));
		goto fail;
	}
	if (there(bus, pid_of_name(bus), ping) >= 0)
		return bus;
fail:
	sd_bus_unref(bus);
	return NULL;
}

/* ---- D-Bus values as JSON ---- */

static json_t *basic(sd_bus_message *m, char type)
{
	union { const char *s; int b; uint8_t y; int16_t n; uint16_t q; int32_t i; uint32_t u; int64_t x; uint64_t t; double d; } v;

	if (sd_bus_message_read_basic(m, type, &v) <= 0)
		return NULL;
	switch (type) {
	case 's': case 'o': case 'g': return json_string(v.s);
	case 'b': return json_boolean(v.b);
	case 'y': return json_integer(v.y);
	case 'n': return json_integer(v.n);
	case 'q': return json_integer(v.q);
	case 'i': return json_integer(v.i);
	case 'u': return json_integer(v.u);
	case 'x': return json_integer(v.x);
	case 't': return json_integer((json_int_t)v.t);
	case 'd': return json_real(v.d);
	}
	return NULL;
}

static json_t *dictionary(sd_bus_message *m)
{
	json_t *o = json_object(), *v;
	const char *key;
	int r;

	while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		if (sd_bus_message_read_basic(m, 's', &key) <= 0 || !(v = iwctl_bus_value(m)) || json_object_set_new(o, key, v) < 0 ||
		    sd_bus_message_exit_container(m) < 0)
			goto bad;
	}
	if (r == 0)
		return o;
bad:
	json_decref(o);
	return NULL;
}

static json_t *array(sd_bus_message *m)
{
	json_t *a = json_array(), *v;

	while (sd_bus_message_at_end(m, 0) == 0) {
		v = iwctl_bus_value(m);
		if (!v || json_array_append_new(a, v) < 0) {
			json_decref(a);
			return NULL;
		}
	}
	return a;
}

json_t *iwctl_bus_value(sd_bus_message *m)
{
	const char *contents;
	json_t *v;
	char type;

	if (sd_bus_message_peek_type(m, &type, &contents) <= 0)
		return NULL;
	if (!strchr("vare", type))
		return basic(m, type);
	if (sd_bus_message_enter_container(m, type, contents) < 0)
		return NULL;
	if (type == 'v')
		v = iwctl_bus_value(m);
	else
		v = !strcmp(contents, "{sv}") ? dictionary(m) : array(m);
	if (v && sd_bus_message_exit_container(m) < 0) {
		json_decref(v);
		return NULL;
	}
	return v;
}

/* ---- calls ---- */

static sd_bus *open_bus(void)
{
	return iwctl.system ? open_system() : open_private();
}

/* Fills in the arguments; NULL: none. */
typedef int (*fill_fn)(sd_bus_message *m, const void *arg);

static int call_on(sd_bus *bus, sd_bus_message **reply, const char *method, fill_fn fill, const void *arg, uint64_t limit)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus_message *m = NULL;
	int r, code = IWCTL_FAILED;

	r = sd_bus_message_new_method_call(bus, &m, iwctl.system ? BUS_NAME : NULL, BUS_PATH, BUS_NAME, method);
	if (r >= 0 && fill)
		r = fill(m, arg);
	if (r >= 0)
		r = sd_bus_call(bus, m, limit, &error, reply);
	if (r >= 0) {
		code = IWCTL_OK;
	} else if (sd_bus_error_has_name(&error, SD_BUS_ERROR_SERVICE_UNKNOWN) ||
		   sd_bus_error_has_name(&error, SD_BUS_ERROR_NAME_HAS_NO_OWNER)) {
		iwctl_error("no iwarpd on the system bus. Start it: systemctl start iwarpd.");
		code = IWCTL_NO_DAEMON;
	} else if (r == -ETIMEDOUT || sd_bus_error_has_name(&error, SD_BUS_ERROR_NO_REPLY)) {
		iwctl_error("iwarpd does not answer: %s: nothing within %u s. See journalctl -u iwarpd.", method, (unsigned int)(limit / 1000000));
		code = IWCTL_NO_DAEMON;
	} else {
		iwctl_error("iwarpd: %s: %s", method, error.message ? error.message : strerror(-r));
	}
	sd_bus_error_free(&error);
	sd_bus_message_unref(m);
	return code;
}

static int call(sd_bus_message **reply, const char *method, fill_fn fill, const void *arg, uint64_t limit)
{
	sd_bus *bus = open_bus();
	int code;

	if (!bus)
		return IWCTL_NO_DAEMON;
	code = call_on(bus, reply, method, fill, arg, limit);
	sd_bus_flush_close_unref(bus);
	return code;
}

static int query(const char *method, fill_fn fill, const void *arg, uint64_t limit, json_t **out)
{
	sd_bus_message *reply = NULL;
	int code = call(&reply, method, fill, arg, limit);

	if (code != IWCTL_OK)
		return code;
	*out = iwctl_bus_value(reply);
	sd_bus_message_unref(reply);
	if (*out)
		return IWCTL_OK;
	iwctl_error("iwarpd: %s: an answer that this iwctl does not understand; are both of the same release?", method);
	return IWCTL_FAILED;
}

int iwctl_query(const char *method, json_t **out)
{
	return query(method, NULL, NULL, answer_us(), out);
}

static int fill_ids(sd_bus_message *m, const void *arg)
{
	return sd_bus_message_append_strv(m, (char **)(uintptr_t)arg);
}

int iwctl_by_ids(const char *method, char **ids, json_t **out)
{
	for (char **id = ids; *id; id++) {
		size_t len = strlen(*id);

		if (!len || len > 16 || strspn(*id, "0123456789abcdefABCDEF") != len) {
			iwctl_error("\"%s\" is not the id of a connection; iwctl streams shows them", *id);
			return IWCTL_USAGE;
		}
	}
	return query(method, fill_ids, ids, CHANGE_US, out);
}

struct idle { uint64_t ms; int64_t uid; };

static int fill_idle(sd_bus_message *m, const void *arg)
{
	const struct idle *i = arg;

	return sd_bus_message_append(m, "tx", i->ms, i->uid);
}

int iwctl_close_idle(uint64_t idle_ms, int64_t uid, json_t **out)
{
	return query("CloseIdle", fill_idle, &(struct idle){ idle_ms, uid }, CHANGE_US, out);
}

int iwctl_connections(json_t **out)
{
	json_t *plain = NULL;
	int code = iwctl_query("Streams", out);

	if (code != IWCTL_OK)
		return code;
	code = iwctl_query("Plain", &plain);
	if (code == IWCTL_OK)
		json_array_extend(*out, plain);
	else
		json_decref(*out);
	json_decref(plain);
	return code;
}

struct target { const char *host; uint16_t port; };

static int fill_target(sd_bus_message *m, const void *arg)
{
	const struct target *t = arg;

	return sd_bus_message_append(m, "sq", t->host, t->port);
}

int iwctl_probe(const char *host, uint16_t port, bool *ok, char **text)
{
	sd_bus_message *reply = NULL;
	const char *s;
	int b, code = call(&reply, "Check", fill_target, &(struct target){ host, port }, PROBE_US);

	if (code != IWCTL_OK)
		return code;
	if (sd_bus_message_read(reply, "bs", &b, &s) <= 0 || !(*text = strdup(s))) {
		iwctl_error("iwarpd: Check: an answer that this iwctl does not understand");
		code = IWCTL_FAILED;
	} else {
		*ok = b;
	}
	sd_bus_message_unref(reply);
	return code;
}

/* ---- signals ---- */

struct listener {
	sd_bus *bus;
	char *from;		/* the daemon's name on the system bus */
	bool gone;
	int (*fn)(const char *signal, json_t *what, void *arg);
	void *arg;
};

static int daemon_gone(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct listener *l = userdata;

	l->gone = true;
	return 0;
}

static int subscribe(struct listener *l)
{
	sd_bus_message *reply = NULL;
	int r = 0, code;

	if (iwctl.system)
		r = sd_bus_add_match(l->bus, NULL, "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='" BUS_NAME "'",
				     daemon_gone, l);
	code = r < 0 ? IWCTL_FAILED : call_on(l->bus, &reply, "Subscribe", NULL, NULL, answer_us());
	if (code == IWCTL_OK && iwctl.system && !(l->from = strdup(sd_bus_message_get_sender(reply))))
		code = IWCTL_FAILED;
	sd_bus_message_unref(reply);
	return code;
}

/* On the system bus others can send to us, too. */
static bool from_daemon(const struct listener *l, sd_bus_message *m)
{
	const char *sender = sd_bus_message_get_sender(m);

	return sd_bus_message_is_signal(m, BUS_NAME, NULL) > 0 && (!iwctl.system || (sender && !strcmp(sender, l->from)));
}

static int signal_came(const struct listener *l, sd_bus_message *m)
{
	json_t *what = iwctl_bus_value(m);

	if (what)
		return l->fn(sd_bus_message_get_member(m), what, l->arg);
	iwctl_error("iwarpd: %s: a signal that this iwctl does not understand; are both of the same release?", sd_bus_message_get_member(m));
	return IWCTL_FAILED;
}

static int listen_on(struct listener *l)
{
	int code = subscribe(l), r = 0;

	while (code == IWCTL_OK && r >= 0 && !l->gone) {
		sd_bus_message *m = NULL;

		r = sd_bus_process(l->bus, &m);
		if (m && from_daemon(l, m))
			code = signal_came(l, m);
		sd_bus_message_unref(m);
		if (r == 0 && !l->gone)
			r = sd_bus_wait(l->bus, UINT64_MAX);
		if (r == -EINTR)
			r = 0;
	}
	if (code != IWCTL_OK)
		return code;
	iwctl_error("iwarpd has ended. See journalctl -u iwarpd.");
	return IWCTL_NO_DAEMON;
}

int iwctl_listen(int (*fn)(const char *signal, json_t *what, void *arg), void *arg)
{
	struct listener l = { .bus = open_bus(), .fn = fn, .arg = arg };
	int code;

	if (!l.bus)
		return IWCTL_NO_DAEMON;
	code = listen_on(&l);
	free(l.from);
	sd_bus_flush_close_unref(l.bus);
	return code == IWCTL_LISTENED ? IWCTL_OK : code;
}
