/* SPDX-License-Identifier: MIT */
/* What was looked at, whether it is well, and what to do where it is not: the lines of doctor and of service check. */
#ifndef IWCTL_VERDICT_H
#define IWCTL_VERDICT_H

#include <jansson.h>

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_BAD };

/* A line more. what: one word or two, and stable; advice: NULL with VERDICT_OK. */
void verdict(json_t *list, enum verdict v, const char *what, const char *advice, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Prints it all, as JSON {subject, ok, checks}, and takes the list over. IWCTL_OK, IWCTL_NO when something is bad, IWCTL_FAILED. */
int verdicts_end(json_t *list, const char *subject);

#endif
