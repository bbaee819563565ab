/* SPDX-License-Identifier: MIT */
/* Log lines to the journal (its native protocol) or, on a terminal or without a journal, to standard error. Rate-limited per call site. */
#ifndef IWARPD_LOG_H
#define IWARPD_LOG_H

#include <syslog.h>

/* First of all: standard input, output and error that are closed lead to /dev/null, else a socket would get their number and the lines. */
void log_std_fds(void);
void log_init(int max_level, int force_stderr);
void log_name(const char *name);	/* what lines begin with; "iwarpd" if not called */
/* From here on a line that cannot be written at once is dropped and counted: whoever does not read them must not hold up the engine. */
void log_never_wait(void);
void log_write(int level, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#define log_err(...)	log_write(LOG_ERR, __FILE__, __LINE__, __VA_ARGS__)
#define log_warn(...)	log_write(LOG_WARNING, __FILE__, __LINE__, __VA_ARGS__)
#define log_info(...)	log_write(LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define log_debug(...)	log_write(LOG_DEBUG, __FILE__, __LINE__, __VA_ARGS__)

#endif
