/* SPDX-License-Identifier: MIT */
/* A listening socket of the daemon, passed by systemd or not, whose connections io_uring accepts. */
#ifndef IWARPD_ACCEPTOR_H
#define IWARPD_ACCEPTOR_H

#include "engine.h"

struct acceptor {
	const char *what;		/* for the log: what is accepted */
	void (*fn)(int fd);		/* takes the descriptor */
	int fd;				/* -1: not started */
	struct op op;
	struct timer retry;
};

/* The socket that systemd passed under this name, if it is of that family (AF_UNSPEC: any) and type and listens; -1: none. */
int acceptor_passed(const char *name, int family, int type);
/* Takes fd. What may pass, such as no file left, is tried again. */
void acceptor_start(struct acceptor *a, int fd);
/* Closes it, and leaves others who have the same socket what they had. Does nothing to one that was not started. */
void acceptor_stop(struct acceptor *a);

#endif
