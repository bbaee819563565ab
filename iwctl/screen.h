/* SPDX-License-Identifier: MIT */
/* The terminal that standard output is, if it is one, and what is shown there again and again. */
#ifndef IWCTL_SCREEN_H
#define IWCTL_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

/* Columns and lines; 0 where it is no terminal, or does not say. */
int screen_width(void);
int screen_height(void);

#define SCREEN_SECONDS	86400u
/* "2", "0.5": 0.1 s to a day, as milliseconds. False: it is something else. */
bool screen_seconds(const char *s, uint64_t *ms);
void screen_wait(uint64_t ms);
/*
 * Calls show() every so often, count times, or with 0 until somebody interrupts: on a terminal each takes the place of the one before, elsewhere an
 * empty line is between them. Ends with what show() returns when that is not IWCTL_OK, or when nothing can be written.
 */
int screen_loop(uint64_t every_ms, uint64_t count, int (*show)(void *arg), void *arg);

#endif
