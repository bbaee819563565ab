/* SPDX-License-Identifier: MIT */
/* Log lines to the journal (its native protocol) or, on a terminal or without a journal, to standard error. Rate-limited per call site. */
#ifndef IWARPD_LOG_H
#define IWARPD_LOG_H

#include <stdint.h>
#include <sys/types.h>
#include <syslog.h>

/* MESSAGE_ID= of the main events (iwarpd(8), conf/iwarpd.catalog): they never change. */
#define LOG_ID_STARTED	"944cfdec283e4bb78a9b939106ef263b"	/* the daemon has started */
#define LOG_ID_STOPPING	"30a20c5d59c245b4a11ad90fcf915cb5"	/* it was told to stop */
#define LOG_ID_PEER	"9db1ec085b6346d697fcee799b379bf5"	/* what is known of another host has changed */
#define LOG_ID_SESSION	"6287e5945d994b1da85b54070697f902"	/* a session with another daemon ended, or could not start */
#define LOG_ID_STREAM	"324debcac9d845258468093421630dab"	/* a stream ended other than in order, or could not be made */
#define LOG_ID_QUOTA	"8452296f603248778d12799c5437bd61"	/* a user's quota, or what is kept for others, said no */
#define LOG_ID_CLIENT	"afff644130924e9e880069ccc3d48c4d"	/* a program was refused, or misbehaved and was closed */
#define LOG_ID_CLOSED	"b64f43cab328448eb6b2b2d526de84e1"	/* streams were closed by iwctl close */

/* What a line is about: fields of its own in the journal. What is zero is not told. */
struct log_about {
	const char *id;		/* one of the above */
	const char *program;	/* PROGRAM= */
	pid_t pid;		/* PID=, with it: */
	uint32_t uid;		/* UID=, and UNIT=, the unit of systemd's that it belongs to as the line is written */
	const char *peer;	/* PEER=, an address or one with a port */
	uint64_t stream;	/* STREAM=, as iwctl streams shows it */
	const char *reason;	/* REASON=, the name of one */
};

/* First of all: standard input, output and error that are closed lead to /dev/null, else a socket would get their number and the lines. */
void log_std_fds(void);
void log_init(int max_level, int force_stderr);
void log_name(const char *name);	/* what lines begin with; "iwarpd" if not called */
/* From here on a line that cannot be written at once is dropped and counted: whoever does not read them must not hold up the engine. */
void log_never_wait(void);
void log_write(int level, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

void log_write_about(int level, const char *file, int line, const struct log_about *about, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define log_about(level, about, ...)	log_write_about(level, __FILE__, __LINE__, about, __VA_ARGS__)
#define log_err(...)	log_write(LOG_ERR, __FILE__, __LINE__, __VA_ARGS__)
#define log_warn(...)	log_write(LOG_WARNING, __FILE__, __LINE__, __VA_ARGS__)
#define log_info(...)	log_write(LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define log_debug(...)	log_write(LOG_DEBUG, __FILE__, __LINE__, __VA_ARGS__)

#endif
