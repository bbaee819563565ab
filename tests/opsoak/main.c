// SPDX-License-Identifier: MIT
/*
 * A soak of random operations on TCP connections over many processes, replayable by its seed: an ordinary program, which knows of no library.
 *
 *	opsoak [-s SECONDS] [-w WORKERS] [-S SEED] [-a ADDRESS[,NETNS[,RUNDIR]]]... [-l LIBRARY] [-c CONF] [-x OPERATION,...] [-r] [-T] [-K] [-v]
 *
 * Two -a: workers in turn here and there, and streams between the two. -l: workers have LD_PRELOAD, IWSOCK_CONF and IWSOCK_RUNDIR. -r: streams end
 * with a daemon that does. -x: without these (taken: nothing is handed on whose other end has ended), -T no threads, -K nobody is killed. What
 * standard input says: down, before a daemon is ended; up, when there is one again. Each is answered.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "opsoak.h"

#define YOUNG_MS	3000

static int seconds = 10;
static bool verbose;

static void die(const char *what)
{
	fprintf(stderr, "opsoak: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void *mapped(int fd, size_t n, int prot)
{
	void *p = mmap(NULL, n, prot, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void make(int fd, const char *name, size_t n)
{
	int f = memfd_create(name, 0);

	if (f < 0 || ftruncate(f, (off_t)n) || (f != fd && (dup2(f, fd) < 0 || close(f))))
		die("memfd");
}

static void make_memory(void)
{
	struct rng r;
	uint8_t *t;

	make(SHM_FD, "opsoak", sizeof(*shm));
	make(TABLE_FD, "opsoak-octets", TABLE);
	shm = mapped(SHM_FD, sizeof(*shm), PROT_READ | PROT_WRITE);
	t = mapped(TABLE_FD, TABLE, PROT_READ | PROT_WRITE);
	r.s = 1;
	for (size_t i = 0; i < PERIOD; i++)
		t[i] = (uint8_t)rnd(&r);
	memcpy(t + PERIOD, t, TABLE - PERIOD);
	table = t;
}

static void handler(int sig)
{
	self->handled++;
}

static void set_signals(void)
{
	struct sigaction a = { .sa_handler = handler, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &a, NULL);
	a.sa_flags = 0;
	sigaction(SIGUSR2, &a, NULL);
	signal(SIGPIPE, SIG_IGN);
	block_children();
}

/* A process of ours, after exec */
static int inside(int argc, char **argv)
{
	shm = mapped(SHM_FD, sizeof(*shm), PROT_READ | PROT_WRITE);
	table = mapped(TABLE_FD, TABLE, PROT_READ);
	self = &shm->procs[PROCS - 1];
	set_signals();
	if (!strcmp(argv[1], "-E"))
		return proc_exec_end(argc, argv);
	return worker_main(atoi(argv[2]), atoi(argv[3]));
}

static void start_worker(int w)
{
	const struct place *at = &shm->place[w % shm->sides];
	char a[2][16], *argv[] = { "opsoak", "-W", a[0], a[1], NULL };
	int n = proc_new(w, w % shm->sides), ns;
	pid_t p;

	shm->worker_proc[w] = n;
	p = fork();
	if (p < 0)
		die("fork");
	if (p) {
		shm->procs[n].pid = p;
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (at->netns[0] && ((ns = open(at->netns, O_RDONLY | O_CLOEXEC)) < 0 || setns(ns, CLONE_NEWNET)))
		die(at->netns);
	if (at->rundir[0])
		setenv("IWSOCK_RUNDIR", at->rundir, 1);
	if (shm->conf[0])
		setenv("IWSOCK_CONF", shm->conf, 1);
	if (shm->preload[0])
		setenv("LD_PRELOAD", shm->preload, 1);
	snprintf(a[0], 16, "%d", w);
	snprintf(a[1], 16, "%d", n);
	fcntl(0, F_SETFD, FD_CLOEXEC);
	ns = open("/dev/null", O_RDONLY);
	dup2(ns, 0);
	close(ns);
	execv("/proc/self/exe", argv);
	die("exec");
}

/* A worker was killed, perhaps after it had waited for a child and before it could say so. The others are ours by now. */
static void waited_for(int parent)
{
	siginfo_t si;

	for (int i = 0; i < PROCS; i++) {
		struct proc *p = &shm->procs[i];

		if (p->parent == parent && p->worker < 0 && p->state > PROC_NEW && p->pid > 0 && waitid(P_PID, (id_t)p->pid, &si, WEXITED | WNOHANG | WNOWAIT) && errno == ECHILD)
			proc_reaped(p->pid, 0);
	}
}

static void reap(void)
{
	int st, w;
	pid_t p;

	while ((p = waitpid(-1, &st, WNOHANG)) > 0) {
		for (w = 0; w < shm->workers && shm->procs[shm->worker_proc[w]].pid != p; w++)
			;
		if (w < shm->workers)
			waited_for(shm->worker_proc[w]);
		proc_reaped(p, st);
		if (w < shm->workers && !shm->quit && !shm->failed)
			start_worker(w);
	}
}

/* "down": nothing is handed on, and what is handed on just now is through. Then every stream of a daemon that takes it with it may be reset. */
static void down(void)
{
	shm->epoch++;
	while (shm->handing && !shm->failed)
		usleep(1000);
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &shm->streams[i];

		/* a pair needs no daemon, unless one relays it: before it is one, or where it was given up with octets unread (docs/rings.md, 5) */
		if (s->used && (shm->resets || s->handed || now_ms() - s->begun_ms < YOUNG_MS))
			s->may |= MAY_DAEMON;
	}
}

static void order(void)
{
	static char line[64];
	static size_t n;

	while (poll(&(struct pollfd){ .fd = 0, .events = POLLIN }, 1, 0) > 0 && n < sizeof(line) - 1 && read(0, line + n, 1) == 1) {
		if (line[n++] != '\n')
			continue;
		line[n - 1] = '\0';
		n = 0;
		if (!strcmp(line, "down"))
			down();
		else if (!strcmp(line, "up"))
			shm->epoch++;
		printf("%s: %" PRIu64 " streams, %" PRIu64 " octets\n", line, (uint64_t)shm->finished, (uint64_t)shm->octets);
		fflush(stdout);
	}
}

static bool used(void)
{
	for (int i = 0; i < STREAMS; i++)
		if (shm->streams[i].used)
			return true;
	return false;
}

static bool still(void)
{
	for (int w = 0; w < shm->workers; w++)
		if (shm->procs[shm->worker_proc[w]].still != shm->pause)
			return false;
	return true;
}

static bool rest(struct rng *r)
{
	poll(NULL, 0, 2);
	order();
	reap();
	if (r)
		chaos(r);
	return !shm->failed && !hangs();
}

/* Until everything is over, and nobody has anything. */
static bool pause_all(void)
{
	uint64_t t = now_ms();

	shm->pause++;
	while (used() || !still()) {
		if (!rest(NULL))
			return false;
		if (!used() && now_ms() - t > 120000) {
			snprintf(shm->why, sizeof(shm->why), "streams are over, but somebody does not come to rest");
			shm->fail_stream = -1;
			shm->failed = 2;
			return false;
		}
		if (used())
			t = now_ms();
	}
	return true;
}

static bool soak(void)
{
	struct rng r = { mix(shm->seed, 4711) };
	uint64_t t0 = now_ms(), next = t0 + 2000, end = t0 + (uint64_t)seconds * 1000;

	while (now_ms() < end) {
		if (!rest(&r))
			return false;
		if (now_ms() < next)
			continue;
		if (!pause_all())
			return false;
		shm->pause++;
		next = now_ms() + 12000;
	}
	return pause_all();
}

static void place(char *arg)
{
	struct place *p = &shm->place[shm->sides++];
	char *s = strtok(arg, ",");

	snprintf(p->addr, sizeof(p->addr), "%s", s ? s : "");
	s = strtok(NULL, ",");
	snprintf(p->netns, sizeof(p->netns), "%s", s ? s : "");
	s = strtok(NULL, ",");
	snprintf(p->rundir, sizeof(p->rundir), "%s", s ? s : "");
}

static void options(int argc, char **argv)
{
	int o;

	shm->seed = now_us() % 1000000;
	shm->workers = 6;
	shm->threads = shm->kills = true;
	while ((o = getopt(argc, argv, "s:w:S:a:l:c:x:rTKv")) != -1) {
		switch (o) {
		case 's': seconds = atoi(optarg); break;
		case 'w': shm->workers = atoi(optarg); break;
		case 'S': shm->seed = strtoull(optarg, NULL, 0); break;
		case 'a': place(optarg); break;
		case 'l': snprintf(shm->preload, sizeof(shm->preload), "%s", optarg); break;
		case 'c': snprintf(shm->conf, sizeof(shm->conf), "%s", optarg); break;
		case 'x':
			if (!without(optarg))
				die(optarg);
			break;
		case 'r': shm->resets = true; break;
		case 'T': shm->threads = false; break;
		case 'K': shm->kills = false; break;
		case 'v': verbose = true; break;
		default: exit(2);
		}
	}
	if (!shm->sides)
		place((char[]){ "127.0.0.1" });
	if (shm->workers < 2 || shm->workers > WORKERS || shm->workers % shm->sides)
		die("workers");
}

int main(int argc, char **argv)
{
	bool good;

	if (argc > 3 && (!strcmp(argv[1], "-E") || !strcmp(argv[1], "-W")))
		return inside(argc, argv);
	make_memory();
	options(argc, argv);
	shm->main = getpid();
	self = &shm->procs[PROCS - 1];	/* nobody's */
	self_n = PROCS - 1;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	printf("# seed %" PRIu64 "\n", shm->seed);
	fflush(stdout);
	for (int w = 0; w < shm->workers; w++)
		start_worker(w);
	good = soak();
	if (!good)
		report();
	if (!good && getenv("OPSOAK_KEEP"))
		pause();
	shm->quit = 1;
	if (!good)
		stop_all();
	while (waitpid(-1, NULL, good ? 0 : WNOHANG) > 0 || (errno == EINTR && good))
		;
	if (verbose || !good)
		tell_counts();
	printf("# %" PRIu64 " streams, %" PRIu64 " octets, %" PRIu64 " resets\n", (uint64_t)shm->finished, (uint64_t)shm->octets, (uint64_t)shm->resets_seen);
	printf("%s\n", good ? "good" : "bad");
	return !good;
}
