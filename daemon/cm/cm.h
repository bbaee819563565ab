/* SPDX-License-Identifier: MIT */
/* Connection management: what the programs of this host propose, and what becomes of it. */
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
	struct iw_proc *proc;		/* shared with it: GO */
	struct client_priv *priv;
};

/* What is asked of it by other daemons, from now on. */
void match_start(void);
/*
 * Control socket RUNDIR/ctl.sock (or the one systemd passed): 0 or -errno (logged); then whoever came is served. Between the two the maps of a daemon
 * before us are looked at (streams_revive()): who gives one back later finds somebody who listens, and who found nobody had given it back before.
 */
int ctl_listen(void);
void ctl_start(void);
void ctl_stop(void);

/* ---- for iwctl ---- */

struct plain_info {
	uint64_t id;			/* of its proposal; 0: it was not proposed */
	uint64_t stream_id;		/* 0: it has none */
	struct client *client;		/* NULL: gone, its stream lives on */
	uint32_t uid;
	struct iw_tuple tuple;
	bool is_client;
	int fd;
	enum iw_reason reason;
	enum iw_reason theirs;		/* with OTHER_END: the reason there, as far as it is known */
	uint64_t proposed_ms;		/* when it was */
	uint64_t octets;		/* as it was then */
	uint32_t calls;
	unsigned int backs;		/* times that it was switched, and went back */
};
/* What becomes of connections, for who wants to know at that moment; NULL: nobody does. */
struct cm_watch {
	void (*upgraded)(uint64_t stream_id, unsigned int end);	/* that end of a stream is joined, or upgraded */
	void (*fallback)(const struct plain_info *info);	/* it stays plain, for good or until it is tried again; each reason in a row once */
};
extern const struct cm_watch *cm_watch;
void plain_foreach(void (*fn)(void *arg, const struct plain_info *info), void *arg);
/* By the id of a proposal, or of the stream that came of it. False: there is none. */
bool plain_look(uint64_t id, struct plain_info *info);
/* What a stream's end was before, and what it waits for. False: it is not known. */
bool plain_before(uint64_t stream_id, const struct iw_tuple *end, struct plain_info *info);
/* Ids as above. 0, -ENOENT, or what match.h says. */
int cm_upgrade(uint64_t id);
int cm_downgrade(uint64_t id);
uint64_t reason_count(enum iw_reason r, bool client);	/* connections that ended with this reason since start */
unsigned int client_count(void);
/* Ends of connections, since start: what became of them. One may go back and forth. */
struct switch_totals { uint64_t switched, joined, upgraded, back; };
extern struct switch_totals switch_totals;
/* From the proposal until it was joined or upgraded: n[b] took up to 2^b ms and more than n[b - 1] did; the last: whatever is more. */
#define UPGRADE_TIMES 22u
struct upgrade_times { uint64_t n[UPGRADE_TIMES], sum_ms; };
const struct upgrade_times *upgrade_times(void);

/* End-to-end probe for `iwctl check` of a user: fills text with numbered steps in plain sentences; done(arg, ok, text). Asynchronous. */
void cm_check(const struct iw_addr *dst, uint32_t uid, void (*done)(void *arg, bool ok, const char *text), void *arg);

#endif
