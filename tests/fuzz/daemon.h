/* SPDX-License-Identifier: MIT */
/* A whole iwarpd inside the fuzz target: control socket, control port, peers, streams. In a network namespace of its own if it may. */
#ifndef TESTS_FUZZ_DAEMON_H
#define TESTS_FUZZ_DAEMON_H

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <time.h>

#include "daemon/cm/cm.h"
#include "daemon/net/peers.h"
#include "daemon/rnic/rnic.h"
#include "daemon/session/session.h"
#include "daemon/stream/stream.h"
#include "proto/ctlmsg.h"
#include "engine.h"

void __sanitizer_set_death_callback(void (*fn)(void));

static void own_net(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd;

	if (unshare(CLONE_NEWNET))
		return;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
}

static struct sockaddr_in loopback_port(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
}

static int tcp_listen(uint16_t *port)
{
	struct sockaddr_in a = loopback_port(0);
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && !bind(fd, (void *)&a, sizeof(a)) && !listen(fd, 16) && !getsockname(fd, (void *)&a, &len));
	*port = ntohs(a.sin_port);
	return fd;
}

/* libFuzzer's alarm may interrupt it: the connection is set up all the same. */
static bool tcp_connects(int fd, const struct sockaddr_in *a)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int err = connect(fd, (const void *)a, sizeof(*a)) ? errno : 0;

	if (err != EINTR)
		return !err;
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	return !getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) && !err;
}

static int tcp_connect(uint16_t port)
{
	/* ends by RST: no port is left in TIME-WAIT */
	struct linger l = { .l_onoff = 1 };
	struct sockaddr_in a = loopback_port(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && tcp_connects(fd, &a));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	return fd;
}

static void daemon_clean(void)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", conf.rundir, IW_CTL_SOCK);
	unlink(path);
	rmdir(conf.rundir);
}

static inline void daemon_once(void)
{
	static bool up;

	if (up)
		return;
	up = true;
	own_net();
	signal(SIGPIPE, SIG_IGN);
	engine_once();
	conf_default(&conf);
	conf.answer_timeout = 2;
	conf.startup_timeout = conf.close_timeout = 100;
	conf.accept_high_port = true;
	conf.max_streams = 64;
	close(tcp_listen(&conf.control_port));
	snprintf(conf.rundir, sizeof(conf.rundir), "/tmp/iwfz.XXXXXX");
	must(mkdtemp(conf.rundir));
	atexit(daemon_clean);
	__sanitizer_set_death_callback(daemon_clean);
	match_start();
	must(!peers_start() && !session_start() && !ctl_listen());
	ctl_start();
	rounds(3);
}

/* Wait, with the loop running, until nothing of the last input is left. */
static inline void until_quiet(bool (*quiet)(void))
{
	for (int i = 0; i < 4000 && !quiet(); i++) {
		rounds(2);
		if (i > 20)
			nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	}
	if (!quiet())
		sockets_left();
}

static inline int ctl_connect(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", conf.rundir, IW_CTL_SOCK);
	must(s >= 0);
	if (connect(s, (void *)&sa, sizeof(sa))) {
		close(s);
		return -1;
	}
	return s;
}

static inline void ctl_tell(int s, const void *msg, size_t len, const int *fds, unsigned int n)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(4 * sizeof(int))]; } c = { 0 };
	struct iovec v = { (void *)msg, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (n) {
		m.msg_control = &c;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c.h = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(n * sizeof(int)) };
		memcpy(CMSG_DATA(&c.h), fds, n * sizeof(int));
	}
	sendmsg(s, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* One reply; -1: none. It must pass the library's own check. */
static inline ssize_t ctl_hear(int s, uint8_t buf[IW_CTL_MAX], int fds[2])
{
	union { struct cmsghdr h; char b[CMSG_SPACE(2 * sizeof(int))]; } c;
	struct iovec v = { buf, IW_CTL_MAX };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };
	ssize_t n = recvmsg(s, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

	fds[0] = fds[1] = -1;
	if (h)
		memcpy(fds, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
	if (n <= 0)
		return -1;
	must(!iw_ctl_check(buf, (size_t)n, (unsigned int)(fds[0] >= 0) + (fds[1] >= 0), 0));
	return n;
}

#endif
