// SPDX-License-Identifier: MIT
/* iwarpd: options, run directory, start and orderly stop. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/bus/bus.h"
#include "daemon/cm/cm.h"
#include "daemon/net/ipsec.h"
#include "daemon/net/peers.h"
#include "daemon/rnic/endpoint.h"
#include "daemon/rnic/prm.h"
#include "daemon/session/session.h"
#include "daemon/stream/stream.h"

#ifndef IW_SYSCONFDIR
#define IW_SYSCONFDIR "/etc"
#endif
#define EXIT_SETTINGS	2	/* wrong settings or options: iwarpd.service does not try again */
#define HAND_ON_MS	1000u
#define DEFAULT_CONF IW_SYSCONFDIR "/iwsock/iwarpd.conf"

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' }, { "option", required_argument, NULL, 'o' },
	{ "run-dir", required_argument, NULL, 'r' }, { "log-level", required_argument, NULL, 'l' },
	{ "check", no_argument, NULL, 'C' }, { "foreground", no_argument, NULL, 'f' }, { "version", no_argument, NULL, 'V' }, { "help", no_argument, NULL, 'h' }, { 0 },
};

static const char usage_text[] =
	"Usage: iwarpd [options]\n"
	"\n"
	"  -c, --config FILE     read FILE instead of " DEFAULT_CONF "\n"
	"  -o, --option KEY=VAL  set one key of iwarpd.conf(5); after the file, may be repeated\n"
	"  -r, --run-dir DIR     where ctl.sock and bus.sock are\n"
	"  -l, --log-level LEVEL err, warning, info or debug\n"
	"      --check           read the settings, say what is wrong with them, and exit: 0 nothing, 2 something\n"
	"  -f, --foreground      stay in the foreground (always so; for scripts that say it)\n"
	"  -V, --version         print the version and exit\n"
	"  -h, --help            print this and exit\n";

static struct { int fd; struct op op; struct signalfd_siginfo info; } sig = { .fd = -1 };
static struct timer watchdog, status, farewell;
static unsigned int watchdog_ms;

/* ---- configuration ---- */

static struct { const char *path; int argc; char **argv; } given;	/* where settings come from */

static int conf_option(struct conf *c, const char *arg)
{
	char key[64], err[512];
	const char *eq = strchr(arg, '=');
	size_t n = eq ? (size_t)(eq - arg) : 0;

	if (!n || n >= sizeof(key)) {
		log_err("-o %s: give KEY=VALUE", arg);
		return -EINVAL;
	}
	memcpy(key, arg, n);
	key[n] = 0;
	if (!conf_set(c, key, eq + 1, err, sizeof(err)))
		return 0;
	log_err("-o %s", err);
	return -EINVAL;
}

/* -o and the like come after the file, in the order given. */
static int conf_options(struct conf *to)
{
	int c, ret = 0;

	optind = 1;
	while (!ret && (c = getopt_long(given.argc, given.argv, "c:o:r:l:fVh", options, NULL)) != -1) {
		char buf[300];

		if (c == 'o')
			ret = conf_option(to, optarg);
		if (c != 'r' && c != 'l')
			continue;
		snprintf(buf, sizeof(buf), "%s=%s", c == 'r' ? "run_dir" : "log_level", optarg);
		ret = conf_option(to, buf);
	}
	return ret;
}

static int conf_check(const struct conf *c)
{
	if (c->control_port < 1024 || c->accept_high_port)
		return 0;
	log_err("control_port = %u: any user of a host may own a port from 1024 up and speak for the host; "
		"say trust_high_port = yes if that is acceptable here", c->control_port);
	return -EINVAL;
}

static int conf_load(struct conf *c)
{
	const char *path = given.path ? given.path : DEFAULT_CONF;
	char err[3000];
	int ret;

	conf_default(c);
	if (given.path || !access(path, F_OK) || errno != ENOENT) {
		ret = conf_read(c, path, err, sizeof(err));
		if (ret) {
			log_err("%s", err);
			return ret;
		}
	}
	ret = conf_options(c);
	return ret ? ret : conf_check(c);
}

/* ---- run directory ---- */

/* A daemon of the system is for everybody, one that an ordinary user started is for that user. */
static bool system_wide(void)
{
	return !geteuid() || getenv("RUNTIME_DIRECTORY");
}

static int rundir_name(struct conf *c)
{
	const char *s = getenv("RUNTIME_DIRECTORY"), *x = getenv("XDG_RUNTIME_DIR"), *e = getenv("IWSOCK_RUNDIR");
	int n = 0;

	if (c->rundir[0])
		return 0;
	if (e && *e == '/')
		n = snprintf(c->rundir, sizeof(c->rundir), "%s", e);
	else if (s && *s == '/')
		n = snprintf(c->rundir, sizeof(c->rundir), "%.*s", (int)strcspn(s, ":"), s);
	else if (!geteuid())
		n = snprintf(c->rundir, sizeof(c->rundir), "/run/iwarpd");
	else if (x && *x == '/')
		n = snprintf(c->rundir, sizeof(c->rundir), "%s/iwarpd", x);
	if (n > 0 && (size_t)n < 91)
		return 0;
	log_err("no run directory: XDG_RUNTIME_DIR is %s; give --run-dir", x && *x ? "unusable" : "not set");
	return -ENOENT;
}

/* Who may write there puts his socket in the place of ours. */
static int rundir_safe(void)
{
	struct stat st;

	if (lstat(conf.rundir, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if ((st.st_uid && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH)) {
		log_err("%s belongs to user %u, mode %03o: others may write there", conf.rundir, (unsigned int)st.st_uid, st.st_mode & 0777);
		return -EPERM;
	}
	return 0;
}

static int lock = -1;

static int rundir_make(void)
{
	char path[128];
	int fd, ret = rundir_name(&conf);

	if (ret)
		return ret;
	ret = mkdir(conf.rundir, 0700) ? -errno : 0;
	if (!ret && system_wide() && chmod(conf.rundir, 0755))	/* whatever the umask is */
		ret = -errno;
	if (!ret || ret == -EEXIST)
		ret = rundir_safe();
	if (ret) {
		log_err("%s: %s", conf.rundir, strerror(-ret));
		return ret;
	}
	snprintf(path, sizeof(path), "%s/lock", conf.rundir);
	lock = fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		log_err("%s: %s", path, strerror(errno));
		return -errno;
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {	/* kept until we end */
		log_err("%s: another iwarpd runs with this run directory; stop it, or give --run-dir", conf.rundir);
		close(fd);
		return -EBUSY;
	}
	return 0;
}

/* ---- while running ---- */

static void notify_status(struct timer *t)
{
	static char last[128];
	char line[sizeof(last)];
	struct stream_tally s;

	stream_tally(&s);
	snprintf(line, sizeof(line), "%u streams iwarp, %u local, %u pending, %u closing; %u programs", s.iwarp, s.local, s.pending, s.closing,
		 client_count());
	notify("READY=1\nSTATUS=%s", line);	/* which was said of a reload, too, and may not have gone */
	timer_start(t, strcmp(line, last) ? 5000 : 60000, notify_status);
	strcpy(last, line);
}

static void notify_watchdog(struct timer *t)
{
	notify("WATCHDOG=1");
	timer_start(t, watchdog_ms, notify_watchdog);
}

static void notify_start(void)
{
	uint64_t usec = 0;

	sd_notify(0, "READY=1");
	notify_status(&status);
	if (sd_watchdog_enabled(0, &usec) > 0 && usec >= 2000) {
		watchdog_ms = (unsigned int)(usec / 2000);
		notify_watchdog(&watchdog);
	}
}

static void leave(struct timer *t)
{
	engine_stop();
}

/* What the next daemon is to have comes to rest. A peer that does not answer keeps nobody from ending. */
static void leave_streams(struct timer *t)
{
	static uint64_t until;

	if (!until)
		until = engine_now_ms() + HAND_ON_MS;
	if (!stream_count()) {
		leave(t);
	} else if (streams_hand_on() && engine_now_ms() < until) {
		timer_start(t, 2, leave_streams);
	} else {
		timer_start(t, streams_leave() ? 50 : 0, leave);
	}
}

/* MPA-4.4-03 */
static void warn_crc(void)
{
	if (!conf.crc)
		log_warn("crc = off: where the peer says so too, nothing notices damaged data; only for networks on which something "
			 "else protects end to end, such as IPsec");
}

/* Nobody waits here for what comes through a pipe. */
static int plain_file(const char *path)
{
	struct stat st;

	if (!path || stat(path, &st) || S_ISREG(st.st_mode))
		return 0;
	log_err("%s is not a regular file: it is read at start only", path);
	return -EINVAL;
}

static void renew(const struct conf *to)
{
	char changed[CONF_NAMES], stays[CONF_NAMES];
	bool crc = conf.crc;

	conf_renew(&conf, to, changed, stays);
	log_init(conf.log_level, 0);
	log_info("settings were read again; changed: %s", *changed ? changed : "nothing");
	if (*stays)
		log_warn("as before until iwarpd is restarted: %s", stays);
	if (crc)
		warn_crc();
	ipsec_renew();
	session_renew();
}

static void reload(void)
{
	struct conf c;

	notify("RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)engine_clock_us());
	if (plain_file(given.path) || conf_load(&c) || rundir_name(&c))
		log_err("all settings are as before");
	else
		renew(&c);
	notify("READY=1");
}

static void signal_next(void);

/* A terminal that went away sends SIGHUP as the kernel; anybody else means by it that settings be read again. */
static void signalled(struct op *op, int res, bool more)
{
	if (op_again(res)) {	/* stopped and continued, or traced */
		signal_next();
		return;
	}
	if (sig.info.ssi_signo == SIGHUP && sig.info.ssi_code != SI_KERNEL) {
		reload();
		signal_next();
		return;
	}
	log_about(LOG_INFO, &(struct log_about){ .id = LOG_ID_STOPPING }, "stopping on signal %u", sig.info.ssi_signo);
	notify("STOPPING=1");
	peers_stop();		/* says dead to the libraries: nothing new comes */
	ctl_stop();
	session_stop();
	timer_stop(&status);
	timer_start(&farewell, 50, leave_streams);	/* what was closed goes out */
}

static void signal_next(void)
{
	struct io_uring_sqe *sqe = engine_sqe();

	sig.op.fn = signalled;
	io_uring_prep_read(sqe, sig.fd, &sig.info, sizeof(sig.info), 0);
	engine_submit(sqe, &sig.op);
}

/* First of all: one that comes early waits. */
static void signals_block(sigset_t *set)
{
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	sigprocmask(SIG_BLOCK, set, NULL);
}

static int signals_start(void)
{
	sigset_t set;

	signals_block(&set);
	sig.fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (sig.fd < 0)
		return -errno;
	signal_next();
	return 0;
}

/* All that may be had: setrlimit() fails where fs.nr_open came to be less. */
static void files_start(void)
{
	struct rlimit rl;
	rlim_t soft;

	if (getrlimit(RLIMIT_NOFILE, &rl))
		return;
	soft = rl.rlim_cur;
	rl.rlim_cur = rl.rlim_max;
	prm_files(setrlimit(RLIMIT_NOFILE, &rl) ? soft : rl.rlim_max);
}

static int start_engine(void)
{
	int ret;

	files_start();
	ret = engine_init();
	if (ret == -ENOSYS || ret == -EPERM || ret == -EACCES)
		log_err("io_uring is %s: iwarpd cannot run here; see sysctl kernel.io_uring_disabled and the container's seccomp profile",
			ret == -ENOSYS ? "missing in this kernel" : "forbidden");
	else if (ret == -ENOMEM)
		log_err("io_uring: no memory for the rings. A kernel before 5.12 counts them as locked memory: raise LimitMEMLOCK= (ulimit -l); else the memory "
			"of the machine or of the service (MemoryMax=) is used up");
	else if (ret)
		log_err("io_uring: %s", strerror(-ret));
	return ret;
}

static int start(void)
{
	int ret = signals_start();

	if (!ret)
		ret = peers_start();
	if (!ret) {
		ipsec_start();
		match_start();
		ret = session_start();
	}
	if (!ret)
		ret = ctl_listen();
	if (!ret) {
		streams_revive();
		ctl_start();
	}
	if (!ret)
		ret = bus_start();
	return ret;
}

static int help(int c)
{
	if (c == 'V')
		printf("iwarpd %s\n", IWSOCK_VERSION);
	else if (c == 'h')
		fputs(usage_text, stdout);
	else
		fputs(usage_text, stderr);
	return c == 'V' || c == 'h' ? 0 : EXIT_SETTINGS;
}

int main(int argc, char **argv)
{
	bool check = false;
	sigset_t set;
	int c, ret;

	log_std_fds();
	signals_block(&set);
	while ((c = getopt_long(argc, argv, "c:o:r:l:fVh", options, NULL)) != -1) {
		if (c == 'c')
			given.path = optarg;
		else if (c == 'C')
			check = true;
		else if (c == 'V' || c == 'h' || c == '?')
			return help(c);
	}
	if (optind < argc)
		return help('?');
	log_init(LOG_INFO, 0);
	given.argc = argc;
	given.argv = argv;
	if (conf_load(&conf))
		return EXIT_SETTINGS;
	if (check)
		return 0;
	log_init(conf.log_level, 0);
	if (rundir_make() || start_engine())
		return 1;
	ret = start();
	if (!ret) {
		log_about(LOG_INFO, &(struct log_about){ .id = LOG_ID_STARTED }, "iwarpd %s, control port %u, run directory %s", IWSOCK_VERSION, conf.control_port, conf.rundir);
		warn_crc();
		notify_start();
		log_never_wait();
		engine_run();
	}
	bus_stop();
	ctl_stop();
	ipsec_stop();
	flock(lock, LOCK_UN);	/* the end of the process can wait for a close, which is no matter of the next one's */
	if (stream_count() || endpoint_count())	/* the kernel takes their sockets; nothing is worth walking through in user space */
		_exit(ret ? 1 : 0);
	engine_fini();
	return ret ? 1 : 0;
}
