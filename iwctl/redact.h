/* SPDX-License-Identifier: MIT */
/* What may be told to others of texts that people and programs wrote: each returns a text of its own, to free(); NULL: no memory. */
#ifndef IWCTL_REDACT_H
#define IWCTL_REDACT_H

/* Settings: without what comments say; lines keep their numbers. */
char *redact_comments(const char *text);
/*
 * Units as "systemctl cat" shows them: of Environment= the values of LD_PRELOAD and IWSOCK_* only, no credentials and no input, no arguments of
 * programs but iwarpd, no comments but the names of files.
 */
char *redact_unit(const char *text);
/* The rules of a firewall that name a port, alone or in a range, and the chains with their policies; without comments. */
char *redact_firewall(const char *text, unsigned int port);

#endif
