// SPDX-License-Identifier: MIT
/* Where the D-Bus interface is reached: RUNDIR/bus.sock and the system bus. */
#include "bus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/acceptor.h"
#include "daemon/base/conf.h"
#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "conn.h"
#include "iface.h"

#define REDIAL_MS	500u	/* to the system bus, doubled up to */
#define REDIAL_MAX_MS	64000u

/* sd_bus_request_name(): what the bus answers */
#define NAME_PRIMARY_OWNER	1u
#define NAME_ALREADY_OWNER	4u

static struct {
	bool named;		/* we own the name on the system bus */
	bool warned;		/* that we do not */
	bool taken;		/* somebody had it when we asked: the daemon before us, of which the bus has not heard yet that it is gone, has it once only */
	bool stopping;
	struct timer redial;	/* the system bus, when it is gone or not there yet */
	unsigned int redial_ms;
} bus = { .redial_ms = REDIAL_MS };

uint64_t bus_started;

bool bus_on_system(void)
{
	return bus.named;
}

/* ---- RUNDIR/bus.sock ---- */

static int peer_server(int fd, sd_bus **out)
{
	sd_bus *b = NULL;
	sd_id128_t id;
	int r = sd_id128_randomize(&id);

	if (r < 0)
		return r;
	r = sd_bus_new(&b);
	if (r < 0)
		return r;
	r = sd_bus_set_fd(b, fd, fd);
	if (r < 0)
		goto fail;
	/* the bus has the fd from here on */
	*out = b;
	if ((r = sd_bus_set_server(b, 1, id)) < 0 || (r = sd_bus_set_anonymous(b, 1)) < 0 ||
	    (r = sd_bus_negotiate_fds(b, 0)) < 0 || (r = sd_bus_start(b)) < 0)
		return r;
	return 0;
fail:
	sd_bus_unref(b);
	return r;
}

static void client_came(int fd)
{
	struct bus_caller who;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	sd_bus *b = NULL;
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
		close(fd);
		return;
	}
	who.uid = cred.uid;
	who.privileged = bus_privileged(cred.uid);
	if (!bus_conn_room(&who)) {
		log_warn("bus: too many connections, refusing pid %d of user %u", cred.pid, cred.uid);
		close(fd);
		return;
	}
	r = peer_server(fd, &b);
	if (!b)
		close(fd);
	if (r >= 0)
		r = bus_conn_add(b, &who, NULL);
	if (r < 0) {
		log_info("bus: pid %d of user %u does not speak D-Bus: %s", cred.pid, cred.uid, strerror(-r));
		sd_bus_close(b);
		sd_bus_unref(b);
	}
}

/* A fresh socket takes the place of a stale one in one step. */
static int listen_on(const char *rundir)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char path[sizeof(a.sun_path)];
	int fd, r;

	if (snprintf(path, sizeof(path), "%s/bus.sock", rundir) >= (int)sizeof(path) ||
	    snprintf(a.sun_path, sizeof(a.sun_path), "%s/bus.sock.new", rundir) >= (int)sizeof(a.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	unlink(a.sun_path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		goto fail;
	/* everybody may ask; what he is told depends on who he is */
	if (chmod(a.sun_path, 0666) < 0 || listen(fd, 64) < 0 || rename(a.sun_path, path) < 0) {
		r = -errno;
		unlink(a.sun_path);
		close(fd);
		return r;
	}
	return fd;
fail:
	r = -errno;
	close(fd);
	return r;
}

/* ---- the system bus, when there is one ---- */

static void system_later(void);

/* Said once. A daemon of an ordinary user has no right to the name, and his programs find it without. */
static void not_named(const char *why)
{
	bool ours = !geteuid() || getenv("RUNTIME_DIRECTORY");

	log_write(ours && !bus.warned ? LOG_WARNING : LOG_DEBUG, __FILE__, __LINE__,
		  "bus: the system bus does not give us the name " BUS_NAME " (%s), so 'iwctl --system' finds nobody; if its policy was installed "
		  "before the user of iwarpd was made: systemctl reload dbus", why);
	bus.warned |= ours;
}

/* Without the name: the connection ends, and is tried again. */
static int named(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	uint32_t how = 0;

	if (!e && sd_bus_message_read(m, "u", &how) > 0)
		bus.named = how == NAME_PRIMARY_OWNER || how == NAME_ALREADY_OWNER;
	if (bus.named) {
		bus.redial_ms = REDIAL_MS;
		bus.warned = bus.taken = false;
	} else {
		if (e || bus.taken)
			not_named(e ? e->message : "another program has it");
		bus.taken |= !e;
		sd_bus_close(sd_bus_message_get_bus(m));
	}
	return 1;
}

static void system_gone(void)
{
	bus.named = false;
	log_debug("bus: the system bus is gone");
	system_later();
}

static void system_bus(void)
{
	sd_bus *b = NULL;
	int r = sd_bus_open_system(&b);

	if (r < 0) {
		log_debug("bus: no system bus: %s", strerror(-r));
		system_later();
		return;
	}
	sd_bus_negotiate_fds(b, 0);
	r = sd_bus_request_name_async(b, NULL, BUS_NAME, 0, named, NULL);
	if (r >= 0)
		r = bus_conn_add(b, NULL, system_gone);
	if (r < 0) {
		log_debug("bus: system bus: %s", strerror(-r));
		sd_bus_unref(b);
		system_later();
	}
}

static void system_again(struct timer *t)
{
	system_bus();
}

static void system_later(void)
{
	if (bus.stopping)
		return;
	timer_start(&bus.redial, bus.redial_ms, system_again);
	bus.redial_ms = bus.redial_ms * 2 < REDIAL_MAX_MS ? bus.redial_ms * 2 : REDIAL_MAX_MS;
}

/* ---- start and stop ---- */

static struct acceptor acceptor = { .what = "a D-Bus client", .fn = client_came, .fd = -1 };

int bus_start(void)
{
	int fd = listen_on(conf.rundir);

	if (fd < 0) {
		log_err("bus: %s/bus.sock: %s", conf.rundir, strerror(-fd));
		return fd;
	}
	bus_started = engine_now_ms();
	acceptor_start(&acceptor, fd);
	system_bus();
	return 0;
}

void bus_stop(void)
{
	char path[sizeof(conf.rundir) + 16];

	bus.stopping = true;
	timer_stop(&bus.redial);
	bus_conns_drop();
	if (acceptor.fd < 0)
		return;
	snprintf(path, sizeof(path), "%s/bus.sock", conf.rundir);
	unlink(path);
	acceptor_stop(&acceptor);
}
