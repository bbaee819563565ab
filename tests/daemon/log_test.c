/* SPDX-License-Identifier: MIT */
/* Log lines never hold up the daemon: a pipe or a journal that nobody reads costs lines, and says how many; a storm costs a few. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "util.h"

#define LINES	1000

static int saved;

/* Everything that can be read from fd now. */
static size_t drain(int fd, char *buf, size_t size)
{
	size_t n = 0;
	ssize_t k;

	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	while ((k = read(fd, buf + n, size - 1 - n)) > 0)
		n += (size_t)k;
	buf[n] = 0;
	return n;
}

/* Different call sites, so that the limit per site is not what drops them. */
static void write_lines(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		log_write(LOG_WARNING, "test", (int)i, "line %u", i);
}

static void pipe_that_nobody_reads(void **state)
{
	static char buf[1 << 16];
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	fcntl(p[1], F_SETPIPE_SZ, 8192);
	dup2(p[1], 2);
	log_init(LOG_INFO, 1);
	alarm(20);		/* before the fix it waits for ever */
	write_lines(LINES);
	drain(p[0], buf, sizeof(buf));
	assert_non_null(strstr(buf, "iwarpd: warning: line 0\n"));
	assert_null(strstr(buf, "line 999\n"));
	log_warn("read again");
	drain(p[0], buf, sizeof(buf));
	alarm(0);
	dup2(saved, 2);
	assert_non_null(strstr(buf, "lines were lost"));
	assert_non_null(strstr(buf, "iwarpd: warning: read again\n"));
	close(p[0]);
	close(p[1]);
}

/* security.md R34: what a peer can have said a thousand times is said twenty times in five seconds; others are heard all the same. */
static void storm(void **state)
{
	static const char site[] = "storm";
	static char buf[1 << 16];
	time_t start = time(NULL);
	unsigned int n = 0;
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	dup2(p[1], 2);
	log_init(LOG_INFO, 1);
	for (unsigned int i = 0; i < LINES; i++)
		log_write(LOG_WARNING, site, 7, "again");
	log_write(LOG_WARNING, site, 8, "something else");
	dup2(saved, 2);
	drain(p[0], buf, sizeof(buf));
	for (const char *at = buf; (at = strstr(at, "warning: again\n")); at++)
		n++;
	assert_in_range(n, 20, 20 * (1 + (time(NULL) - start + 1) / 5));
	assert_non_null(strstr(buf, "warning: something else\n"));
	close(p[0]);
	close(p[1]);
}

/* The kernel's name of fd, as systemd tells its services (JOURNAL_STREAM). */
static void say_stream(int fd)
{
	char s[64];
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	snprintf(s, sizeof(s), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", s, 1);
}

static int journal(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket" };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", "/run", "tmpfs", 0, NULL))
		skip();
	assert_int_equal(mkdir("/run/systemd", 0755), 0);
	assert_int_equal(mkdir("/run/systemd/journal", 0755), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static void journal_that_does_not_read(void **state)
{
	static char buf[1 << 18];
	int j = journal(), p[2];

	/* standard error leads to the journal too, and is as full */
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	fcntl(p[1], F_SETPIPE_SZ, 8192);
	dup2(p[1], 2);
	say_stream(2);
	log_init(LOG_INFO, 0);
	alarm(20);
	write_lines(LINES);
	drain(j, buf, sizeof(buf));
	assert_non_null(strstr(buf, "MESSAGE=line 0\nPRIORITY=4\nSYSLOG_IDENTIFIER=iwarpd\nCODE_FILE=test\nCODE_LINE=0\n"));
	log_warn("read again");
	drain(j, buf, sizeof(buf));
	alarm(0);
	dup2(saved, 2);
	assert_non_null(strstr(buf, "lines were lost"));
	assert_non_null(strstr(buf, "MESSAGE=read again\n"));
	close(p[0]);
	close(p[1]);
	close(j);
}

/* A process that belongs to a unit, as far as one can see. */
static pid_t in_unit(const char *unit)
{
	pid_t pid = fork();
	char path[64];
	FILE *f;

	assert_int_not_equal(pid, -1);
	if (!pid)
		for (;;)
			pause();
	f = fopen("/run/systemd/cgroup", "we");
	assert_non_null(f);
	fprintf(f, "1:name=systemd:/system.slice/%s\n0::/system.slice/%s\n", unit, unit);
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	assert_int_equal(mount("/run/systemd/cgroup", path, NULL, MS_BIND, NULL), 0);
	return pid;
}

static void gone(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	umount2(path, MNT_DETACH);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* What a line is about is in fields of its own, and no text of a program's makes another. */
static void journal_fields(void **state)
{
	struct log_about about = { .id = LOG_ID_STREAM, .program = "a\nUID=0\nb", .uid = 2001, .peer = "192.0.2.1:80", .stream = 0xabc };
	static char buf[1 << 16], want[1024];
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket" };
	int j = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (access("/run/systemd/journal", F_OK) || mount("none", "/run/systemd", "tmpfs", 0, NULL))
		skip();
	assert_int_equal(mkdir("/run/systemd/journal", 0755), 0);
	assert_int_equal(bind(j, (struct sockaddr *)&a, sizeof(a)), 0);
	say_stream(2);
	log_init(LOG_INFO, 0);
	about.pid = in_unit("redis.service");
	log_write_about(LOG_INFO, "test.c", 7, &about, "it\nended");
	drain(j, buf, sizeof(buf));
	snprintf(want, sizeof(want), "MESSAGE=it?ended\nPRIORITY=6\nSYSLOG_IDENTIFIER=iwarpd\nCODE_FILE=test.c\nCODE_LINE=7\nMESSAGE_ID=%s\n"
		 "PROGRAM=a?UID=0?b\nPID=%d\nUID=2001\nUNIT=redis.service\nPEER=192.0.2.1:80\nSTREAM=abc\n", LOG_ID_STREAM, about.pid);
	assert_string_equal(strstr(buf, "MESSAGE=it?") ? strstr(buf, "MESSAGE=it?") : buf, want);
	gone(about.pid);
	about = (struct log_about){ .pid = about.pid };
	log_write_about(LOG_INFO, "test.c", 9, &about, "gone");
	drain(j, buf, sizeof(buf));
	assert_null(strstr(buf, "UNIT="));
	about = (struct log_about){ .reason = "policy" };
	log_write_about(LOG_INFO, "test.c", 8, &about, "plain");
	drain(j, buf, sizeof(buf));
	assert_string_equal(buf, "MESSAGE=plain\nPRIORITY=6\nSYSLOG_IDENTIFIER=iwarpd\nCODE_FILE=test.c\nCODE_LINE=8\nREASON=policy\n");
	close(j);
}

static int group_setup(void **state)
{
	saved = fcntl(2, F_DUPFD_CLOEXEC, 10);
	log_never_wait();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pipe_that_nobody_reads), cmocka_unit_test(storm), cmocka_unit_test(journal_that_does_not_read),
		cmocka_unit_test(journal_fields),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
