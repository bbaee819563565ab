/* SPDX-License-Identifier: MIT */
/* Connection management: who offered, who listens, who claims; answers to the library and to other daemons. */
#ifndef IWARPD_CM_H
#define IWARPD_CM_H

#include "stream.h"

/* A process that talks to us (ctl.c): one per control socket connection. The rest is connection management's own. */
struct client {
	pid_t pid;
	uint32_t uid;
	char program[64];
	struct iw_proc *proc;		/* shared page with its intents */
	struct client_priv *priv;
};

/* Start: control socket RUNDIR/ctl.sock (or the one systemd passed), control port, peers page. 0 or -errno (logged). */
int ctl_start(void);
void ctl_stop(void);
int session_start(void);	/* listening on the control port, dialling on demand */
void session_stop(void);

/* The peers page, read-only fd for the libraries (owned by peers.c). */
int peers_start(void);
int peers_fd(void);
void peers_publish(const uint8_t ip[16], enum iw_peer_state state, enum iw_reason reason, unsigned int ttl_ms);

/* For iwctl. */

struct peer_info {
	uint8_t ip[16];
	enum iw_peer_state state;
	enum iw_reason reason;
	bool in, out;			/* sessions: dialled by them, by us */
	uint64_t expires_ms;
	unsigned int streams;
};
void peers_foreach(void (*fn)(void *arg, const struct peer_info *info), void *arg);
struct plain_info {
	struct client *client;
	struct tuple tuple;
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
