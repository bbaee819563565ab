/* SPDX-License-Identifier: MIT */
/* Output of iwctl: messages, JSON, columns; and the values of JSON objects that are shown. */
#ifndef IWCTL_OUT_H
#define IWCTL_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

void iwctl_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From here on errors go into buf, the last one stays, and nothing is printed; NULL: as before. */
void iwctl_error_keep(char *buf, size_t size);
/* Takes v over. Returns IWCTL_OK, or IWCTL_FAILED when it could not be written. */
int iwctl_print_json(json_t *v);
/* First and last of all: standard output that was closed is not taken by another file; code, or IWCTL_FAILED when not all was written. */
void iwctl_out_begin(void);
int iwctl_out_end(int code);
const char *iwctl_str(const json_t *o, const char *key, const char *otherwise);
uint64_t iwctl_num(const json_t *o, const char *key);
bool iwctl_true(const json_t *o, const char *key);
/*
 * What was done with each of a list: JSON, or show(o, arg). Takes the list over. IWCTL_OK when key is true in all, IWCTL_NO when it is
 * not or there is none, IWCTL_FAILED when it could not be written.
 */
int iwctl_result(json_t *list, const char *key, void (*show)(const json_t *o, const char *arg), const char *arg);

enum colour { PLAIN, GOOD, WARN, BAD, DIM, BOLD };
const char *iwctl_colour(enum colour c);	/* escape sequence, "" unless on a terminal */

struct table;
/* Column names; one that starts with '>' is aligned to the right. Ends with NULL. */
struct table *table_new(const char *const *head);
void table_cell(struct table *t, enum colour c, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/*
 * Columns with the highest fade fall away until a line fits into width; 0 never falls. After so many rows the others are only counted. 0: no limit.
 */
void table_fit(struct table *t, int width, int rows, const unsigned char *fade);
void table_print(struct table *t);	/* and free it */

char *iwctl_bytes(uint64_t n, char buf[16]);	/* 987, 12.3K, 4.5M, ... powers of 1024 */
char *iwctl_duration(uint64_t ms, char buf[32]);

#endif
