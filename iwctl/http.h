/* SPDX-License-Identifier: MIT */
/* One HTTP request on standard input and its answer on standard output, as a program of inetd's kind has them. */
#ifndef IWCTL_HTTP_H
#define IWCTL_HTTP_H

#include <stdbool.h>
#include <stddef.h>

/* Whether it asks for path: 200, the status of the error, or 0: nobody asks. *head: only what the answer would be. */
unsigned int http_ask(const char *path, bool *head);
/* Who does not take it in time does not get it. */
void http_answer(unsigned int status, bool head, const char *type, const char *body, size_t len);
void http_error(unsigned int status, bool head, const char *text);

#endif
