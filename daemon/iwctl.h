/* SPDX-License-Identifier: MIT */
/* What the sub-commands of iwctl share: the daemon's answers as JSON values, tables, exit codes. */
#ifndef IWCTL_H
#define IWCTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {				/* exit codes, see iwctl(8) */
	IWCTL_OK = 0,
	IWCTL_NO = 1,		/* the answer is no: check failed, nothing matched, the policy file has an error */
	IWCTL_USAGE = 2,
	IWCTL_NO_DAEMON = 3,
	IWCTL_FAILED = 4,	/* the daemon answered with an error, or with something we do not understand */
};

struct iwctl {
	bool json, system, colour;
	const char *run_dir;	/* NULL: look for it */
};
extern struct iwctl iwctl;

/* A sub-command; argv[0] is its name. Returns an exit code. */
int status_main(int argc, char **argv);
int streams_main(int argc, char **argv);
int why_main(int argc, char **argv);
int check_main(int argc, char **argv);
int peers_main(int argc, char **argv);
int stags_main(int argc, char **argv);
int listeners_main(int argc, char **argv);
int reasons_main(int argc, char **argv);
int check_policy_main(int argc, char **argv);
int close_main(int argc, char **argv);
int rping_main(int argc, char **argv);

/* ---- iwctl_bus.c: ask the daemon. Errors are printed; the result is an exit code. ---- */
int iwctl_query(const char *method, json_t **out);
int iwctl_close_ids(char **ids, json_t **out);		/* ids end with NULL */
int iwctl_close_idle(uint64_t idle_ms, int64_t uid, json_t **out);	/* uid -1: everybody's */
int iwctl_connections(json_t **out);	/* streams and plain connections in one array */
int iwctl_probe(const char *host, uint16_t port, bool *ok, char **text);

/* ---- iwctl_out.c ---- */
void iwctl_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int iwctl_print_json(json_t *v);	/* returns IWCTL_OK, or IWCTL_FAILED when it could not be written */
const char *iwctl_str(const json_t *o, const char *key, const char *otherwise);
uint64_t iwctl_num(const json_t *o, const char *key);
bool iwctl_true(const json_t *o, const char *key);

enum colour { PLAIN, GOOD, WARN, BAD, DIM, BOLD };
const char *iwctl_colour(enum colour c);	/* escape sequence, "" unless on a terminal */

struct table;
/* Column names; one that starts with '>' is aligned to the right. Ends with NULL. */
struct table *table_new(const char *const *head);
void table_cell(struct table *t, enum colour c, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void table_print(struct table *t);	/* and free it */
unsigned int table_rows(const struct table *t);

char *iwctl_bytes(uint64_t n, char buf[16]);	/* 987, 12.3K, 4.5M, ... powers of 1024 */
char *iwctl_duration(uint64_t ms, char buf[32]);

/* ---- iwctl_addr.c ---- */
#define IWCTL_HOST_MAX 256
/* "host:port", "[v6]:port", "host"; port 0 when there is none. false: not of that form. */
bool iwctl_split_addr(const char *s, char host[IWCTL_HOST_MAX], uint16_t *port);

/* ---- iwctl_proc.c: what /proc says of a process that has no connection of ours ---- */
/* Sentences why pid (fd >= 0: and that fd) cannot be accelerated or has nothing to show; an array of strings. */
json_t *iwctl_proc_why(unsigned int pid, int fd);

#endif
