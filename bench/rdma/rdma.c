// SPDX-License-Identifier: MIT
/*
 * RDMA Write, Read and Send, measured between two processes over one provider, or the same with plain TCP sockets:
 *	rdma [OPTIONS] tcp|soft|verbs write|read|send-latency|write-latency OCTETS ADDRESS
 * Prints Gbit/s, or microseconds one way (half of there and back), then the CPU microseconds of both ends per message, or per there and
 * back. A Write alone tells nobody that it is there: write-latency is a Write and a Send of no octets behind it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rdma.h"

static const struct provider *const providers[] = {
	&tcp_provider, &soft_provider,
#if HAVE_VERBS
	&verbs_provider,
#endif
};
static const char *const names[] = { "write", "read", "send-latency", "write-latency" };

double bench_seconds = 1;
static struct {
	const struct provider *p;
	struct ask ask;
	bool server, counts, asked, over;
	unsigned int outstanding;
	double start, end;
	uint64_t n, messages;
	double result;
} b;

double bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static _Noreturn void die(const char *what, int err)
{
	fprintf(stderr, "rdma: %s: %s\n", what, strerror(err));
	_exit(1);
}

static void post(enum rdma_op op, uint32_t len)
{
	int ret = b.p->post(op, len);

	if (ret)
		die("post", -ret);
}

void bench_result(const struct ask *ask, double seconds, uint64_t messages)
{
	b.messages += messages;
	if (ask->what == WRITE_BW || ask->what == READ_BW)
		b.result = (double)messages * ask->size * 8 / seconds / 1e9;
	else
		b.result = seconds / (double)messages / 2 * 1e6;
}

void bench_warmed(uint64_t messages)
{
	b.messages = messages;
}

static double cpu(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* ---- the measurement: first for a while to warm up, then the same again and it counts ---- */

static void ping(void)
{
	post(b.ask.what == WRITE_LAT ? OP_WRITE : OP_SEND, b.ask.size);
	if (b.ask.what == WRITE_LAT)
		post(OP_SEND, 0);
}

static void fill(void)
{
	for (; b.outstanding < b.ask.depth; b.outstanding++)
		post(b.ask.what == READ_BW ? OP_READ : OP_WRITE, b.ask.size);
}

static void part_begin(void)
{
	b.asked = false;
	b.n = 0;
	b.start = bench_now();
	b.end = b.start + bench_seconds * (b.counts ? 1 : BENCH_WARM);
	if (b.ask.what == WRITE_BW || b.ask.what == READ_BW)
		fill();
	else
		ping();
}

static void part_end(void)
{
	if (b.counts) {
		bench_result(&b.ask, bench_now() - b.start, b.n);
		b.over = true;
		return;
	}
	bench_warmed(b.n);
	b.counts = true;
	part_begin();
}

void bench_asked(const struct ask *ask)
{
	b.ask = *ask;
	b.server = true;
}

void bench_established(void)
{
	if (!b.server)
		part_begin();
}

void bench_done(enum rdma_op op)
{
	bool read = b.ask.what == READ_BW;

	if (b.server || op == OP_SEND || b.ask.what == SEND_LAT || b.ask.what == WRITE_LAT)
		return;
	b.outstanding--;
	b.n++;
	if (bench_now() < b.end) {
		fill();
	} else if (read) {
		if (!b.outstanding)
			part_end();
	} else if (!b.outstanding && !b.asked) {
		/* the answer comes when all is there: a Send is delivered after the Writes before it are placed */
		b.asked = true;
		post(OP_SEND, SMALL);
	}
}

void bench_received(void)
{
	if (b.server) {
		if (b.ask.what == WRITE_BW)
			post(OP_SEND, SMALL);
		else
			ping();
	} else if (b.ask.what == WRITE_BW) {
		part_end();
	} else {
		b.n++;
		if (bench_now() < b.end)
			ping();
		else
			part_end();
	}
}

bool bench_over(void)
{
	return b.over;
}

/* ---- two processes ---- */

int bench_listen(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)a, len) || listen(fd, 1) || getsockname(fd, (struct sockaddr *)a, &len))
		return -errno;
	return fd;
}

static void enter(const char *netns)
{
	char path[256];
	int fd;

	if (!netns)
		return;
	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path, errno);
	close(fd);
}

/* Each end on a processor of its own, where there are two: on a busy machine the scheduler may put both on one for a while. */
static void pin(unsigned int end)
{
	cpu_set_t have, one;

	if (sched_getaffinity(0, sizeof(have), &have) || CPU_COUNT(&have) < 2)
		return;
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &have) || end--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static _Noreturn void server(const char *netns, struct sockaddr_in a, int port_fd)
{
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(1);
	enter(netns);
	ret = b.p->listen(&a);
	if (!ret && write(port_fd, &a.sin_port, sizeof(a.sin_port)) != sizeof(a.sin_port))
		ret = -EPIPE;
	close(port_fd);
	if (!ret)
		ret = b.p->serve();
	if (ret)
		die("server", -ret);
	_exit(0);
}

static int run(const char *from, const char *to, struct sockaddr_in *a, const struct ask *ask)
{
	int p[2], status = 0, ret;
	pid_t pid;

	if (pipe(p))
		die("pipe", errno);
	pid = fork();
	if (pid < 0)
		die("fork", errno);
	alarm((unsigned int)(bench_seconds * 5) + 60);
	if (!pid) {
		close(p[0]);
		server(to, *a, p[1]);
	}
	close(p[1]);
	pin(0);
	if (read(p[0], &a->sin_port, sizeof(a->sin_port)) != sizeof(a->sin_port))
		die("server", ECHILD);
	enter(from);
	b.ask = *ask;
	ret = b.p->client(a, ask);
	if (ret)
		die("client", -ret);
	waitpid(pid, &status, 0);
	if (status || !b.messages)
		return 1;
	printf("%.6g %.6g\n", b.result, (cpu(RUSAGE_SELF) + cpu(RUSAGE_CHILDREN)) / (double)b.messages);
	return 0;
}

/* ---- options ---- */

static int usage(FILE *f)
{
	fprintf(f, "usage: rdma [OPTIONS] PROVIDER write|read|send-latency|write-latency OCTETS ADDRESS\n"
		"  --crc on|off       of MPA, default on (verbs: as the driver is set)\n"
		"  --large            FPDUs larger than the EMSS (soft)\n"
		"  --depth N          messages outstanding, 1 to %u, default 16 (bandwidth)\n"
		"  --seconds S        that count, default 1\n"
		"  --from NETNS --to NETNS  network namespaces of client and server\n"
		"Providers:\n", DEPTH_MAX);
	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
		fprintf(f, "  %-8s %s\n", providers[i]->name, providers[i]->text);
	return f == stdout ? 0 : 2;
}

static bool parse_what(char **argv, struct ask *ask, struct sockaddr_in *a)
{
	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
		if (!strcmp(argv[0], providers[i]->name))
			b.p = providers[i];
	ask->what = UINT32_MAX;
	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(argv[1], names[i]))
			ask->what = i;
	ask->size = (uint32_t)strtoul(argv[2], NULL, 10);
	*a = (struct sockaddr_in){ .sin_family = AF_INET };
	return b.p && ask->what != UINT32_MAX && ask->size && ask->size <= SIZE_MAX_ && inet_pton(AF_INET, argv[3], &a->sin_addr) == 1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "crc", required_argument, NULL, 'c' }, { "large", no_argument, NULL, 'l' }, { "depth", required_argument, NULL, 'd' },
		{ "seconds", required_argument, NULL, 's' }, { "from", required_argument, NULL, 'f' }, { "to", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' }, { 0 },
	};
	struct ask ask = { .depth = 16, .crc = 1 };
	const char *from = NULL, *to = NULL;
	struct sockaddr_in a;
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'c': ask.crc = !strcmp(optarg, "on"); break;
		case 'l': ask.large = 1; break;
		case 'd': ask.depth = (uint16_t)atoi(optarg); break;
		case 's': bench_seconds = atof(optarg); break;
		case 'f': from = optarg; break;
		case 't': to = optarg; break;
		case 'h': return usage(stdout);
		default: return usage(stderr);
		}
	}
	if (argc - optind != 4 || !parse_what(argv + optind, &ask, &a) || !ask.depth || ask.depth > DEPTH_MAX || bench_seconds <= 0)
		return usage(stderr);
	return run(from, to, &a, &ask);
}
