// SPDX-License-Identifier: MIT
/*
 * Streams between hosts outlive the daemon: their descriptors lie in the service manager's store, and the next daemon makes the streams of them again.
 * What it has to believe stands in the area, which no application ever had: of a stream that the daemon pumped until it ended in order (leave.c) that
 * is all; of a mapped one the map is imported into it as always. The name that the manager keeps with them says by its inode numbers which of the memfds
 * is which.
 */
#include "keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "proto/map.h"
#include "proto/remote.h"
#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/rnic/area.h"
#include "daemon/rnic/rnic.h"
#include "agent.h"
#include "count.h"
#include "keep_pair.h"
#include "leave.h"
#include "life.h"
#include "relay.h"
#include "remote.h"
#include "remote_mem.h"
#include "stream_priv.h"
#include "table.h"
#include "upgrade.h"

#define MAGIC	0x49574b50u	/* "IWKP" */
#define VERSION	5u
#define PREFIX	"iwsock-"

struct kept {			/* the rest of a stream, where its area begins */
	uint32_t magic, version;
	uint64_t cookie, since_ms, active_ms, tx_bytes, rx_bytes;
	uint64_t map;		/* inode of the map that may be offered; 0: none. One before it may be in the store still */
	struct iw_tuple tuple;
	struct tcp_kept tcp;
	pid_t pid;
	uint32_t uid;
	int fd;
	bool client;
	bool pumped;		/* the area is the state: nobody has gone on with it yet */
	uint64_t exposed[IW_RS_SA];	/* Tagged Offsets, see remote_exposed() */
	char program[STREAM_PROGRAM];
};
static_assert(sizeof(struct kept) <= REMOTE_KEPT, "kept");

#define RELAYED	0x49574b52u	/* "IWKR" */
struct kept_relay {		/* of one that is relayed, in the place of an area */
	struct kept kept;
	uint64_t id, size;	/* of the segment */
	struct relay_kept relay;
};

static unsigned long long ino(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

static void name_of(const struct stream *st, int area, const struct area *map, char name[NOTIFY_NAME])
{
	snprintf(name, NOTIFY_NAME, PREFIX "%016llx-%llx-%llx-%llx", (unsigned long long)st->id, ino(st->segment), ino(area), map ? ino(map->fd) : 0);
}

static struct kept *kept_of(const struct stream *st)
{
	return (struct kept *)st->remote->area->mem;
}

static void note(const struct stream *st, struct kept *k)
{
	const struct stream_end *e = &st->end[0];

	*k = (struct kept){
		.magic = MAGIC, .version = VERSION, .cookie = e->cookie, .since_ms = st->since_ms, .active_ms = st->active_ms, .tx_bytes = st->tx_bytes,
		.rx_bytes = st->rx_bytes, .tuple = e->tuple, .tcp = st->kept, .pid = e->pid, .uid = e->uid, .fd = e->fd, .client = st->client,
	};
	memcpy(k->program, e->program, sizeof(k->program));
}

int keep(struct stream *st, const struct area *map, int owner)
{
	const int fds[] = { st->end[0].tcp, st->d, st->segment, st->remote->area->fd, map->fd, owner };
	char name[NOTIFY_NAME];
	int ret;

	note(st, kept_of(st));
	name_of(st, st->remote->area->fd, map, name);
	ret = notify_keep(name, fds, sizeof(fds) / sizeof(fds[0]));
	if (ret < 0)
		return ret;
	kept_of(st)->map = ino(map->fd);
	return 0;
}

void keep_options(const struct stream *st)
{
	if (st->remote && kept_of(st)->magic == MAGIC)
		kept_of(st)->tcp = st->kept;
}

int keep_pumped(struct stream *st)
{
	const int fds[] = { st->end[0].tcp, st->d, st->segment, st->remote->area->fd };
	char name[NOTIFY_NAME];
	int ret;

	note(st, kept_of(st));
	remote_exposed(st, kept_of(st)->exposed);
	name_of(st, st->remote->area->fd, NULL, name);
	ret = notify_keep(name, fds, sizeof(fds) / sizeof(fds[0]));
	kept_of(st)->pumped = !ret;
	return ret;
}

int keep_relayed(struct stream *st)
{
	int fds[] = { st->end[0].tcp, st->d, st->segment, memfd_create("iwsock-relay", MFD_CLOEXEC) }, ret = -ENOMEM;
	struct kept_relay *k = malloc(sizeof(*k));
	char name[NOTIFY_NAME];

	if (k && fds[3] >= 0) {
		note(st, &k->kept);
		k->kept.magic = RELAYED;
		k->id = st->id;
		k->size = st->size;
		relay_note(st, &k->relay);
		name_of(st, fds[3], NULL, name);
		if (pwrite(fds[3], k, sizeof(*k), 0) == sizeof(*k))
			ret = notify_keep(name, fds, sizeof(fds) / sizeof(fds[0]));
	}
	free(k);
	if (fds[3] >= 0)
		close(fds[3]);
	return ret;
}

void keep_not(struct stream *st, const struct area *map)
{
	char name[NOTIFY_NAME];

	kept_of(st)->map = 0;
	name_of(st, st->remote->area->fd, map, name);
	notify_forget(name);
}

/* ---- the next daemon ---- */

struct found {
	char name[NOTIFY_NAME];
	int tcp, d, segment, area, map, owner;	/* -1: it is not there, or used */
};

static bool is_pidfd(int fd)
{
	char at[32], to[32] = "";

	snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	return readlink(at, to, sizeof(to) - 1) > 0 && !strcmp(to, "anon_inode:[pidfd]");
}

static int *place_of(struct found *x, int fd)
{
	unsigned long long id, segment, area, map, i;
	socklen_t len = sizeof(int);
	struct stat st;
	int domain;

	if (fstat(fd, &st) || sscanf(x->name, PREFIX "%llx-%llx-%llx-%llx", &id, &segment, &area, &map) != 4)
		return NULL;
	if (S_ISSOCK(st.st_mode))
		return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) ? NULL : domain == AF_UNIX ? &x->d : &x->tcp;
	if (is_pidfd(fd))
		return &x->owner;
	i = st.st_ino;
	return !S_ISREG(st.st_mode) ? NULL : i == segment ? &x->segment : i == area ? &x->area : i == map ? &x->map : NULL;
}

/* Of the same version, and as long as it says. */
static bool read_area(int fd, struct iw_remote *f, struct kept *k)
{
	return fd >= 0 && pread(fd, k, sizeof(*k), 0) == sizeof(*k) && k->magic == MAGIC && k->version == VERSION &&
	       pread(fd, f, sizeof(*f), REMOTE_KEPT) == sizeof(*f) && f->magic == IW_REMOTE_MAGIC && f->version == IW_REMOTE_VERSION &&
	       f->size > REMOTE_KEPT + sizeof(*f) && f->rd_off + f->p.rd_len == f->size;
}

static bool same_layout(const struct area *a, const struct iw_remote *f)
{
	const struct iw_soft *s = (const struct iw_soft *)(a->mem + f->ep_off);

	return f->ep_off + sizeof(*s) <= f->rd_off && s->magic == IW_SOFT_MAGIC && s->version == IW_SOFT_VERSION && s->size == sizeof(*s) &&
	       s->qp.version == IW_QP_VERSION;
}

static int revive(struct found *x, struct stream *st, const struct iw_remote *f)
{
	struct area *a;
	int ret = area_adopt(rnic_pd_user(st->pd), f->size, x->area, &a);

	if (ret)
		return ret;
	x->area = -1;
	if (!same_layout(a, f)) {
		area_put(a);
		return -EPROTO;
	}
	ret = remote_revive(st, a);
	if (ret || kept_of(st)->pumped)
		return ret ? ret : leave_revive(st, kept_of(st)->exposed);
	ret = agent_revive(st, x->map, iw_map_size(&f->p), x->owner);
	if (!ret)
		x->map = x->owner = -1;
	return ret;
}

/* Before an octet moves: the area is the state of nobody else from here on. */
static void revived(struct found *x, struct stream *st)
{
	if (!kept_of(st)->pumped) {
		agent_revived(st);
		return;
	}
	kept_of(st)->pumped = false;
	notify_forget(x->name);
	leave_revived(st);
}

/* With T, carrier and segment in their places; in the table. */
static struct stream *made_again(struct found *x, uint64_t id, struct kept *k, size_t size, bool relayed)
{
	struct stream_owner o = { .pid = k->pid, .uid = k->uid, .fd = k->fd, .program = k->program };
	struct stream *st;

	k->program[sizeof(k->program) - 1] = 0;
	st = stream_revive(id, &k->tuple, &o, x->segment, size, relayed);
	if (!st)
		return NULL;
	st->client = k->client;
	st->since_ms = k->since_ms;
	st->active_ms = k->active_ms;
	st->tx_bytes = st->before.tx_bytes = k->tx_bytes;
	st->rx_bytes = st->before.rx_bytes = k->rx_bytes;
	st->kept = k->tcp;
	tcp_unpaced_before(&st->kept);
	st->end[0].cookie = k->cookie;
	st->end[0].tcp = x->tcp;
	st->d = x->d;
	x->segment = x->tcp = x->d = -1;
	table_add(st);
	return st;
}

static int dropped(struct stream *st, int ret)
{
	st->tcp_reset = true;	/* the library may go on */
	stream_kill(st);
	return ret;
}

static int again(struct found *x)
{
	struct iw_remote f;
	struct stream *st;
	struct kept k;
	int ret;

	if (x->tcp < 0 || x->d < 0 || x->segment < 0 || !read_area(x->area, &f, &k))
		return -ENOENT;
	if (!k.pumped && (x->map < 0 || x->owner < 0))
		return -ENOENT;
	if (!k.pumped && k.map && k.map != ino(x->map))
		return -ESTALE;
	st = made_again(x, f.stream_id, &k, IW_PAGE_RINGS + (size_t)f.p.tx_len + f.p.rx_len, false);
	if (!st)
		return -EINVAL;
	ret = revive(x, st, &f);
	if (ret)
		return dropped(st, ret);
	count_begins(st);
	revived(x, st);
	return 0;
}

/* The proposals went with that daemon: its program gets it back, and begins anew. */
static int relayed_again(struct found *x)
{
	struct kept_relay *k = malloc(sizeof(*k));
	struct stream *st = NULL;
	int ret;

	if (!k)
		return -ENOMEM;
	if (x->tcp < 0 || x->d < 0 || x->segment < 0 || pread(x->area, k, sizeof(*k), 0) != sizeof(*k) || k->kept.version != VERSION)
		ret = -ENOENT;
	else if (!(st = made_again(x, k->id, &k->kept, k->size, true)))
		ret = -EINVAL;
	else if (!(ret = upgrade_new(st)))
		ret = relay_revive(st, &k->relay);
	free(k);
	if (ret)
		return st ? dropped(st, ret) : ret;
	st->state = STREAM_RELAY;
	upgrade_over(st);
	count_begins(st);
	notify_forget(x->name);
	stream_want_back(st, true);
	relay_go(st);
	return 0;
}

static bool is_relayed(int area)
{
	uint32_t magic;

	return area >= 0 && pread(area, &magic, sizeof(magic), 0) == sizeof(magic) && magic == RELAYED;
}

static void mapped(const char *name, const int *fds, unsigned int n)
{
	struct found x = { .tcp = -1, .d = -1, .segment = -1, .area = -1, .map = -1, .owner = -1 };
	int *fd[] = { &x.tcp, &x.d, &x.segment, &x.area, &x.map, &x.owner }, *at, ret;

	strcpy(x.name, name);
	for (unsigned int i = 0; i < n; i++) {
		at = place_of(&x, fds[i]);
		if (at && *at < 0)
			*at = fds[i];
		else
			close(fds[i]);
	}
	ret = is_relayed(x.area) ? relayed_again(&x) : again(&x);
	if (ret == -ESTALE) {
		notify_forget(x.name);
	} else if (ret) {
		log_warn("%s, which a daemon before this one had, is not taken on: %s", x.name, strerror(-ret));
		notify_forget(x.name);
	}
	for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
		if (*fd[i] >= 0)
			close(*fd[i]);
}

static void one(const char *name, const int *fds, unsigned int n)
{
	if (!strncmp(name, KEEP_PAIR, sizeof(KEEP_PAIR) - 1))
		keep_pair_revive(name, fds, n);
	else
		mapped(name, fds, n);
}

/* Those of one name come one after the other; the table of pairs anywhere. */
void streams_revive(void)
{
	int n, fds[NOTIFY_FDS];
	unsigned int nfds = 0;
	char **names = NULL;

	n = sd_listen_fds_with_names(0, &names);
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], KEEP_PAIRS)) {
			if (keep_pairs_table(SD_LISTEN_FDS_START + i))
				notify_forget(KEEP_PAIRS);
			close(SD_LISTEN_FDS_START + i);
		}
	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i;

		if (strncmp(names[i], PREFIX, sizeof(PREFIX) - 1) || !strcmp(names[i], KEEP_PAIRS))
			continue;
		if (nfds == NOTIFY_FDS || strlen(names[i]) >= NOTIFY_NAME)
			close(fd);
		else
			fds[nfds++] = fd;
		if (i + 1 == n || strcmp(names[i], names[i + 1])) {
			if (nfds)
				one(names[i], fds, nfds);
			nfds = 0;
		}
	}
	keep_pairs_done();
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
}
