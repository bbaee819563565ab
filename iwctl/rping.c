// SPDX-License-Identifier: MIT
/* iwctl rping: rdma-core's rping on a soft RNIC of its own, without daemon or RDMA device. Options, sockets, and the summary. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "daemon/rnic/endpoint.h"
#include "daemon/rnic/prm_mem.h"
#include "iwctl.h"
#include "out.h"
#include "rping_peer.h"

static struct rping_opts opts;
static int listener = -1, code;
static unsigned int open_peers;
static struct op accept_op, signal_op;
static bool stopping;

static void help(FILE *f)
{
	fprintf(f, "usage: iwctl rping -c -a HOST [OPTIONS] | -s [-a ADDRESS] [OPTIONS]\n\n"
		"Speaks rdma-core's rping protocol over iWARP on a soft RNIC of its own: no iwarpd and no RDMA device needed.\n\n"
		"  -c, --client           ping; -s, --server  answer\n"
		"  -a, --address HOST     connect to it, or listen on it (default: all addresses)\n"
		"  -p, --port PORT        default %u; a server takes a free one with 0\n"
		"  -C, --count N          pings; 0 (default): until the other side closes\n"
		"  -S, --size OCTETS      of a ping, %u to %u, default %u; server: the most it accepts, default 65536\n"
		"  -v, --verbose          print the text of each ping\n"
		"  -V, --validate         check the text of each ping\n"
		"  -P, --persistent       server: one client after another, or several at once\n"
		"      --crc on|off       ask for MPA CRCs; default on. Off only when neither side asks\n"
		"      --p2p              client: peer-to-peer startup with RTR (RFC 6581)\n"
		"      --markers          ask for MPA Markers\n"
		"      --mpa-revision N   client: 1 or 2, default 2\n"
		"  -t, --timeout SECONDS  client: of the connection and of each answer, default 30\n"
		"\n^C ends it after the ping it is at, with the summary; a second one at once.\n"
		"Exit code: 0 all pings answered, 1 not, 2 usage. See iwctl(8).\n",
		RPING_PORT, RPING_SIZE_MIN, RPING_SIZE_MAX, RPING_SIZE);
}

/* ---- results ---- */

static int summary(const struct rping_result *res)
{
	const char *who = opts.server ? "answered" : "of";

	if (iwctl.json)
		return iwctl_print_json(json_pack("{s:s, s:b, s:I, s:I, s:I, s:b, s:b, s:b}", "role", opts.server ? "server" : "client",
						  "ok", res->ok, "pings", (json_int_t)res->pings, "octets", (json_int_t)res->octets,
						  "us", (json_int_t)res->us, "crc", res->crc, "p2p", res->p2p,
						  "validated", opts.validate));
	if (opts.server)
		printf("%" PRIu64 " pings %s, %" PRIu64 " octets", res->pings, who, res->octets);
	else
		printf("%" PRIu64 " pings %s %u octets, %.1f us each", res->pings, who, opts.size,
		       res->pings ? (double)res->us / (double)res->pings : 0);
	if (res->up)
		printf(", CRC %s%s%s", res->crc ? "on" : "off", res->p2p ? ", peer-to-peer" : "",
		       res->ok && opts.validate ? ", data verified" : "");
	putchar('\n');
	fflush(stdout);
	return IWCTL_OK;
}

static void peer_done(const struct rping_result *res)
{
	int ret = summary(res);

	open_peers--;
	if (!res->ok)
		code = IWCTL_NO;
	else if (ret)
		code = ret;
	if (!opts.persistent || (stopping && !open_peers))
		engine_stop();
}

/* ---- sockets ---- */

static struct addrinfo *resolve(void)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = opts.server ? AI_PASSIVE : AI_ADDRCONFIG }, *ai = NULL;
	char port[8];
	int r;

	snprintf(port, sizeof(port), "%u", opts.port);
	r = getaddrinfo(opts.address, port, &hints, &ai);
	if (r)
		iwctl_error("rping: %s: %s", opts.address ? opts.address : "any address", gai_strerror(r));
	return r ? NULL : ai;
}

#define ADDR_TEXT	(NI_MAXHOST + NI_MAXSERV + 8)

static const char *addr_text(const struct sockaddr *sa, socklen_t len, char out[ADDR_TEXT])
{
	char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";

	getnameinfo(sa, len, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(out, ADDR_TEXT, "%s port %s", host, port);
	return out;
}

/* A peer that vanishes is noticed; whoever waits without end waits for TCP. */
static void keepalive(int fd)
{
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

static int connect_to(const struct addrinfo *ai)
{
	struct timeval limit = { .tv_sec = opts.timeout }, none = { 0 };
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return -errno;
	keepalive(fd);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, ai->ai_addr, ai->ai_addrlen)) {
		ret = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
		close(fd);
		return ret;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	return fd;
}

/* The first address of the name that answers. */
static int client_start(const struct addrinfo *ai)
{
	char text[ADDR_TEXT];
	int fd = -ENOENT, ret;

	for (; ai; ai = ai->ai_next) {
		fd = connect_to(ai);
		if (fd >= 0)
			break;
		iwctl_error("rping: cannot connect to %s: %s", addr_text(ai->ai_addr, ai->ai_addrlen, text), strerror(-fd));
	}
	if (fd < 0)
		return fd;
	ret = rping_peer_start(fd, &opts, peer_done);
	if (ret)
		iwctl_error("rping: cannot start: %s", strerror(-ret));
	else
		open_peers++;
	return ret;
}

static void accept_next(void);

static void accepted(struct op *op, int res, bool more)
{
	int ret = res;

	if (stopping) {
		if (res >= 0)
			close(res);
		return;
	}
	if (res == -ECONNABORTED || res == -EINTR) {
		accept_next();
		return;
	}
	if (res >= 0) {
		keepalive(res);
		ret = rping_peer_start(res, &opts, peer_done);
	}
	if (ret < 0) {
		iwctl_error("rping: accept: %s", strerror(-ret));
		code = IWCTL_FAILED;
		engine_stop();
		return;
	}
	open_peers++;
	if (opts.persistent)
		accept_next();
}

static void accept_next(void)
{
	struct io_uring_sqe *sqe = engine_sqe();

	accept_op.fn = accepted;
	io_uring_prep_accept(sqe, listener, NULL, NULL, SOCK_CLOEXEC);
	engine_submit(sqe, &accept_op);
}

/* Without an address a server is there for IPv6 and IPv4, as far as the host has them. */
static int listen_on(const struct addrinfo *ai)
{
	int one = 1, zero = 0, err, fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (ai->ai_family == AF_INET6 && !opts.address)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) && !bind(fd, ai->ai_addr, ai->ai_addrlen) && !listen(fd, 64))
		return fd;
	err = errno;
	close(fd);
	return -err;
}

static int server_start(const struct addrinfo *list)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char text[ADDR_TEXT];
	const struct addrinfo *ai = list;

	while (!opts.address && ai && ai->ai_family != AF_INET6)
		ai = ai->ai_next;
	listener = ai ? listen_on(ai) : -EAFNOSUPPORT;
	if (listener == -EAFNOSUPPORT || (listener == -EADDRNOTAVAIL && !opts.address)) {
		ai = list;
		listener = listen_on(ai);
	}
	if (listener < 0) {
		iwctl_error("rping: cannot listen on %s: %s", addr_text(ai->ai_addr, ai->ai_addrlen, text), strerror(-listener));
		return listener;
	}
	if (getsockname(listener, (struct sockaddr *)&sa, &len))
		return -errno;
	fprintf(iwctl.json ? stderr : stdout, "listening on %s\n", addr_text((struct sockaddr *)&sa, len, text));
	fflush(stdout);
	accept_next();
	return 0;
}

/* ---- ^C ---- */

static int signal_fd = -1;
static sigset_t signals_were;

static void signalled(struct op *op, int res, bool more)
{
	stopping = true;
	sigprocmask(SIG_SETMASK, &signals_were, NULL);	/* the second time it is at once */
	if (!open_peers)
		engine_stop();
	rping_stop();
}

static bool ignored(int sig)
{
	struct sigaction a;

	return !sigaction(sig, NULL, &a) && a.sa_handler == SIG_IGN;
}

static void signals_start(void)
{
	static struct signalfd_siginfo info;
	struct io_uring_sqe *sqe;
	sigset_t s;

	sigemptyset(&s);
	if (!ignored(SIGINT))
		sigaddset(&s, SIGINT);
	if (!ignored(SIGTERM))
		sigaddset(&s, SIGTERM);
	signal_fd = signalfd(-1, &s, SFD_CLOEXEC);
	if (signal_fd < 0 || sigprocmask(SIG_BLOCK, &s, &signals_were))
		return;
	sqe = engine_sqe();
	signal_op.fn = signalled;
	io_uring_prep_read(sqe, signal_fd, &info, sizeof(info), 0);
	engine_submit(sqe, &signal_op);
}

static void drain_tick(struct timer *t)
{
	engine_stop();
}

/* What was said last, a Terminate perhaps, reaches the peer before the process ends; endpoints bound it by close_timeout. */
static void drain(void)
{
	struct timer t = { 0 };

	while (endpoint_count()) {
		timer_start(&t, 2, drain_tick);
		engine_run();
	}
	timer_stop(&t);
}

static int run(void)
{
	struct addrinfo *ai;
	int ret = engine_init();

	if (ret) {
		iwctl_error("rping: io_uring: %s%s", strerror(-ret),
			    ret == -EPERM ? "; see the sysctl kernel.io_uring_disabled" : "");
		return IWCTL_FAILED;
	}
	ai = resolve();
	ret = !ai ? -ENOENT : opts.server ? server_start(ai) : client_start(ai);
	if (ai)
		freeaddrinfo(ai);
	if (ret) {
		code = IWCTL_NO;
	} else {
		signals_start();
		engine_run();
	}
	drain();
	if (listener >= 0)
		close(listener);
	if (signal_fd >= 0)
		close(signal_fd);
	engine_fini();
	return code;
}

/* ---- options ---- */

static bool number(const char *s, unsigned long min, unsigned long max, uint32_t *out)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || !isdigit((unsigned char)*s) || *end || v < min || v > max)
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool need(const char *what, const char *arg, unsigned long min, unsigned long max, uint32_t *out)
{
	if (number(arg, min, max, out))
		return true;
	iwctl_error("rping: %s is a number from %lu to %lu, not \"%s\"", what, min, max, arg);
	return false;
}

enum { OPT_CRC = 256, OPT_P2P, OPT_MARKERS, OPT_REV };

/* One option. false: wrong, and said so. */
static bool option(int c, const char *arg, bool *client, bool *sized)
{
	uint32_t v;

	switch (c) {
	case 'c': *client = true; return true;
	case 's': opts.server = true; return true;
	case 'a': opts.address = arg; return true;
	case 'v': opts.verbose = true; return true;
	case 'V': opts.validate = true; return true;
	case 'P': opts.persistent = true; return true;
	case 'C': return need("the count", arg, 0, INT32_MAX, &opts.count);
	case 'p':
		if (!need("the port", arg, 0, 65535, &v))
			return false;
		opts.port = (uint16_t)v;
		return true;
	case 'S':
		*sized = true;
		return need("the size", arg, RPING_SIZE_MIN, RPING_SIZE_MAX, &opts.size);
	case 't': return need("the timeout", arg, 1, 86400, &opts.timeout);
	case OPT_CRC:
		opts.crc = !strcmp(arg, "on");
		if (opts.crc || !strcmp(arg, "off"))
			return true;
		iwctl_error("rping: --crc is on or off, not \"%s\"", arg);
		return false;
	case OPT_P2P: opts.p2p = true; return true;
	case OPT_MARKERS: opts.markers = true; return true;
	case OPT_REV: return need("the MPA revision", arg, 1, 2, &opts.rev);
	default: return false;		/* getopt has said what */
	}
}

static bool consistent(bool client, bool sized)
{
	const char *wrong = NULL;

	if (client == opts.server)
		wrong = "either -c (client) or -s (server)";
	else if (opts.address ? !*opts.address : client)
		wrong = client ? "a client needs -a HOST" : "-a needs an ADDRESS; without it a server listens on all";
	else if (client && !opts.port)
		wrong = "a client needs the server's port";
	else if (client && opts.persistent)
		wrong = "-P is for servers";
	else if (opts.server && (opts.p2p || opts.rev != 2))
		wrong = "--p2p and --mpa-revision are the client's to ask; a server follows";
	else if (opts.p2p && opts.rev != 2)
		wrong = "peer-to-peer needs MPA revision 2";
	if (wrong)
		iwctl_error("rping: %s", wrong);
	else if (opts.server && !sized)
		opts.size = 65536;
	return !wrong;
}

int rping_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "client", no_argument, NULL, 'c' }, { "server", no_argument, NULL, 's' }, { "address", required_argument, NULL, 'a' },
		{ "port", required_argument, NULL, 'p' }, { "count", required_argument, NULL, 'C' },
		{ "size", required_argument, NULL, 'S' }, { "verbose", no_argument, NULL, 'v' }, { "validate", no_argument, NULL, 'V' },
		{ "persistent", no_argument, NULL, 'P' }, { "timeout", required_argument, NULL, 't' },
		{ "crc", required_argument, NULL, OPT_CRC }, { "p2p", no_argument, NULL, OPT_P2P },
		{ "markers", no_argument, NULL, OPT_MARKERS }, { "mpa-revision", required_argument, NULL, OPT_REV },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	static char name[] = "iwctl: rping";	/* getopt's messages begin with it */
	bool client = false, sized = false;
	int c;

	opts = (struct rping_opts){ .crc = true, .rev = 2, .port = RPING_PORT, .size = RPING_SIZE, .timeout = 30 };
	argv[0] = name;
	optind = 0;
	while ((c = getopt_long(argc, argv, "csa:p:C:S:vVPt:h", options, NULL)) != -1) {
		if (c == 'h') {
			help(stdout);
			return IWCTL_OK;
		}
		if (!option(c, optarg, &client, &sized))
			goto usage;
	}
	if (optind != argc) {
		iwctl_error("rping: what is \"%s\"?", argv[optind]);
		goto usage;
	}
	if (!consistent(client, sized))
		goto usage;
	conf_default(&conf);
	prm_strict = false;	/* all of it is this user's own */
	if (client)
		conf.startup_timeout = opts.timeout * 1000;
	if (client && conf.close_timeout > opts.timeout * 1000)
		conf.close_timeout = opts.timeout * 1000;
	log_init(LOG_WARNING, 1);
	log_name("iwctl");
	return run();
usage:
	fputs("usage: iwctl rping -c -a HOST [OPTIONS] | -s [-a ADDRESS] [OPTIONS]; see iwctl rping --help\n", stderr);
	return IWCTL_USAGE;
}
