/* SPDX-License-Identifier: MIT */
/* The block in the environment file of a PostgreSQL cluster of Debian's, whose server gets no other environment. */
#ifndef IWCTL_PGENV_H
#define IWCTL_PGENV_H

#include <stdbool.h>

/* The file of old text (NULL: there is none) with our block, which has LD_PRELOAD go to programs; one that was there is replaced. To free(). */
char *pgenv_add(const char *old, const char *library);
/* Exactly what it was before pgenv_add(). To free(). *was: false: there was no file. */
char *pgenv_remove(const char *text, bool *was);
bool pgenv_has(const char *text);	/* NULL: no */

#endif
