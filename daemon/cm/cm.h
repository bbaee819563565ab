/* SPDX-License-Identifier: MIT */
/* Connection management: who offered, who listens, who claims; answers to the library and to other daemons. */
#ifndef IWARPD_CM_H
#define IWARPD_CM_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/addr.h"
#include "proto/page.h"
#include "proto/reason.h"

/* A process that talks to us (ctl.c): one per control socket connection. The rest is connection management's own. */
struct client {
	pid_t pid;
	uint32_t uid;
	char program[64];
	struct iw_proc *proc;		/* shared page with its intents */
	struct client_priv *priv;
};

/* Start: control socket RUNDIR/ctl.sock (or the one systemd passed), answers to other daemons. 0 or -errno (logged). */
int ctl_start(void);
void ctl_stop(void);

/* ---- for iwctl ---- */

struct plain_info {
	struct client *client;
	struct iw_tuple tuple;
	bool is_client;
	int fd;
	enum iw_reason reason;
};
void plain_foreach(void (*fn)(void *arg, const struct plain_info *info), void *arg);
struct listener_info { struct iw_addr addr; pid_t pid; uint32_t uid; const char *program; };
void listener_foreach(void (*fn)(void *arg, const struct listener_info *info), void *arg);
uint64_t reason_count(enum iw_reason r, bool client);	/* connections that ended with this reason since start */
unsigned int client_count(void);

/* End-to-end probe for `iwctl check`: fills text with numbered steps in plain sentences; done(arg, ok, text). Asynchronous. */
void cm_check(const struct iw_addr *dst, void (*done)(void *arg, bool ok, const char *text), void *arg);

#endif
