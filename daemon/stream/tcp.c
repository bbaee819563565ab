// SPDX-License-Identifier: MIT
/* T, the application's TCP socket, while it is a stream's: options that are held otherwise meanwhile, and how far its two directions are. */
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "proto/page.h"

#define COUNT_TRIES	64	/* what arrives meanwhile spoils a look */

/* ---- options ---- */

static int get_int(int fd, int level, int name)
{
	int v = 0;
	socklen_t len = sizeof(v);

	return getsockopt(fd, level, name, &v, &len) ? 0 : v;
}

static void set_int(int fd, int level, int name, int v)
{
	setsockopt(fd, level, name, &v, sizeof(v));
}

void tcp_push(int tcp)
{
	set_int(tcp, IPPROTO_TCP, TCP_NODELAY, 1);
}

void tcp_on_close(int tcp, bool reset)
{
	struct linger l = { .l_onoff = reset };

	setsockopt(tcp, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

void tcp_cut(int tcp)
{
	static const struct sockaddr none = { .sa_family = AF_UNSPEC };

	connect(tcp, &none, sizeof(none));
}

static void ours(int tcp)
{
	set_int(tcp, SOL_SOCKET, SO_RCVLOWAT, 1);
	set_int(tcp, IPPROTO_TCP, TCP_CORK, 0);
	set_int(tcp, IPPROTO_TCP, TCP_NODELAY, 1);
	tcp_on_close(tcp, true);
}

void tcp_look(int tcp, struct tcp_kept *k)
{
	socklen_t len = sizeof(k->linger);

	*k = (struct tcp_kept){
		.nonblock = fcntl(tcp, F_GETFL) & O_NONBLOCK, .lowat = get_int(tcp, SOL_SOCKET, SO_RCVLOWAT),
		.cork = get_int(tcp, IPPROTO_TCP, TCP_CORK), .nodelay = get_int(tcp, IPPROTO_TCP, TCP_NODELAY),
	};
	getsockopt(tcp, SOL_SOCKET, SO_LINGER, &k->linger, &len);
}

void tcp_keep(int tcp, struct tcp_kept *k)
{
	k->kept = true;
	ours(tcp);
}

void tcp_offer(int tcp, const struct tcp_kept *k)
{
	set_int(tcp, SOL_SOCKET, SO_RCVLOWAT, k->lowat);
	set_int(tcp, IPPROTO_TCP, TCP_NODELAY, k->nodelay);
	set_int(tcp, IPPROTO_TCP, TCP_CORK, k->cork);
	if (k->nonblock)
		fcntl(tcp, F_SETFL, fcntl(tcp, F_GETFL) | O_NONBLOCK);
}

void tcp_restore(int tcp, struct tcp_kept *k)
{
	tcp_offer(tcp, k);
	setsockopt(tcp, SOL_SOCKET, SO_LINGER, &k->linger, sizeof(k->linger));
	k->kept = false;
}

void tcp_alive(int tcp, struct tcp_kept *k, bool on)
{
	if (on && !k->alive)
		k->keepalive = get_int(tcp, SOL_SOCKET, SO_KEEPALIVE);
	if (on || k->alive)
		set_int(tcp, SOL_SOCKET, SO_KEEPALIVE, on ? 1 : k->keepalive);
	k->alive = on;
}

static void algorithm(int tcp, char name[16])
{
	socklen_t len = 16;

	memset(name, 0, 16);
	getsockopt(tcp, IPPROTO_TCP, TCP_CONGESTION, name, &len);
}

/* What a socket has for which nobody has chosen another one. */
static void algorithm_of_system(char name[16])
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);

	memset(name, 0, 16);
	if (fd < 0)
		return;
	algorithm(fd, name);
	close(fd);
}

static bool set_algorithm(int tcp, const char *name)
{
	return !setsockopt(tcp, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

/* By way of BBR again, which makes it begin anew: what BBR took for the path's limit would be reno's threshold. Reno anybody may set. */
static bool begins_with_reno(int tcp, const char *system)
{
	return set_algorithm(tcp, "reno") && (!set_algorithm(tcp, system) || set_algorithm(tcp, "reno"));
}

static unsigned int unpaced, promised;	/* how many have it, and will */

static bool takes_reno(int tcp, struct tcp_kept *k)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);
	char now[16], system[16];

	algorithm(tcp, now);
	if (strncmp(now, "bbr", 3) || getsockopt(tcp, IPPROTO_TCP, TCP_INFO, &i, &len) || !i.tcpi_min_rtt || i.tcpi_min_rtt > IW_SHORT_US)
		return false;
	algorithm_of_system(system);
	if (memcmp(now, system, sizeof(now)) || !begins_with_reno(tcp, now))
		return false;
	memcpy(k->congestion, now, sizeof(now));
	return true;
}

bool tcp_unpace_room(void)
{
	return unpaced + promised < TCP_UNPACED;
}

void tcp_unpace_promise(bool more)
{
	promised += more ? 1u : -1u;
}

void tcp_unpace(int tcp, struct tcp_kept *k, bool was_promised)
{
	if (!was_promised && !tcp_unpace_room())
		return;
	k->unpaced = takes_reno(tcp, k) || was_promised;
	unpaced += k->unpaced;
}

void tcp_unpaced_before(const struct tcp_kept *k)
{
	unpaced += k->unpaced;
}

void tcp_forget(struct tcp_kept *k)
{
	unpaced -= k->unpaced;
	k->unpaced = false;
}

void tcp_congestion(int tcp, const struct tcp_kept *k, char now[16], char told[16])
{
	algorithm(tcp, now);
	memcpy(told, k->congestion[0] ? k->congestion : now, 16);
}

bool tcp_linger0(const struct tcp_kept *k)
{
	return k->linger.l_onoff && !k->linger.l_linger;
}

/* What is kept of an option, or NULL. */
static void *kept_of(struct tcp_kept *k, int level, int name, socklen_t *size)
{
	bool congestion = level == IPPROTO_TCP && name == TCP_CONGESTION;

	*size = level == SOL_SOCKET && name == SO_LINGER ? sizeof(k->linger) : congestion ? sizeof(k->congestion) : sizeof(int);
	if (!k->kept)
		return NULL;
	if (congestion)
		return k->congestion[0] ? k->congestion : NULL;
	if (level == SOL_SOCKET)
		return name == SO_LINGER ? (void *)&k->linger : name == SO_RCVLOWAT ? &k->lowat : name == SO_KEEPALIVE && k->alive ? &k->keepalive : NULL;
	if (level == IPPROTO_TCP)
		return name == TCP_NODELAY ? &k->nodelay : name == TCP_CORK ? &k->cork : NULL;
	return NULL;
}

/* The kernel says what it makes of the value; then T has ours again. */
int tcp_set(int tcp, struct tcp_kept *k, int level, int name, const void *val, socklen_t len)
{
	socklen_t size;
	void *kept = kept_of(k, level, name, &size);

	if (setsockopt(tcp, level, name, val, len))
		return -errno;
	if (kept == k->congestion) {
		tcp_forget(k);
		k->congestion[0] = 0;
	} else if (kept) {
		getsockopt(tcp, level, name, kept, &size);
		ours(tcp);
		if (k->alive)
			set_int(tcp, SOL_SOCKET, SO_KEEPALIVE, 1);
	}
	return 0;
}

int tcp_get(int tcp, const struct tcp_kept *k, int level, int name, void *val, socklen_t *len)
{
	struct tcp_kept copy = *k;
	socklen_t size;
	const void *kept = kept_of(&copy, level, name, &size);

	if (!kept)
		return getsockopt(tcp, level, name, val, len) ? -errno : 0;
	if (*len > size)
		*len = size;
	memcpy(val, kept, *len);
	return 0;
}

/* ---- how far it is ---- */

int tcp_unread(int tcp)
{
	int n;

	return ioctl(tcp, SIOCINQ, &n) ? 0 : n;
}

int tcp_unacked(int tcp)
{
	int n;

	return ioctl(tcp, SIOCOUTQ, &n) ? 0 : n;
}

static int look(int tcp, struct tcp_info *i)
{
	socklen_t len = sizeof(*i);

	memset(i, 0, sizeof(*i));
	if (getsockopt(tcp, IPPROTO_TCP, TCP_INFO, i, &len))
		return -errno;
	return i->tcpi_state == 1 ? 0 : -ENOTCONN;	/* TCP_ESTABLISHED */
}

/* SIOCINQ passes over an urgent octet. */
static bool urgent(int tcp)
{
	struct pollfd p = { .fd = tcp, .events = POLLPRI };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLPRI);
}

/* Several calls are not one look: each direction counts when its counter is the same before and after. */
int tcp_count(int tcp, bool client, struct tcp_count *c)
{
	bool tx = false, rx = false;

	for (int i = 0; i < COUNT_TRIES && !(tx && rx); i++) {
		struct tcp_info a, b;
		int in, out, ret = look(tcp, &a);

		if (!ret && (ioctl(tcp, SIOCINQ, &in) || ioctl(tcp, SIOCOUTQ, &out)))
			ret = -errno;
		if (!ret)
			ret = look(tcp, &b);
		if (ret)
			return ret;
		if (!tx && a.tcpi_bytes_acked == b.tcpi_bytes_acked) {
			tx = true;
			c->acked = a.tcpi_bytes_acked - client;	/* its SYN */
			c->sent = c->acked + (uint64_t)out;
		}
		if (!rx && a.tcpi_bytes_received == b.tcpi_bytes_received) {
			rx = true;
			c->received = a.tcpi_bytes_received;
			c->unread = (uint32_t)in;
		}
		c->rtt_us = b.tcpi_rtt;
		c->rate = b.tcpi_delivery_rate;
	}
	return tx && rx && !urgent(tcp) ? 0 : -EAGAIN;
}
