/* SPDX-License-Identifier: MIT */
/* The daemon as this process talks to it: one control connection, requests with an answer and messages without. */
#ifndef IW_PRELOAD_DAEMON_H
#define IW_PRELOAD_DAEMON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/ctlmsg.h"
#include "proto/page.h"
#include "proto/reason.h"

#pragma GCC visibility push(hidden)

bool iw_daemon_ready(void);	/* one answers (connects when it is time to try); costs one system call */
bool iw_daemon_dialled(void);	/* the same, and it is time: what is refused now is so for good */
bool iw_daemon_up(void);	/* as far as known, without asking */
uint32_t iw_daemon_gen(void);	/* of the connection; changes with every new one; 0: none yet */
uint32_t iw_daemon_conn_id(void);	/* a new name for a connection, unique in this process */

/*
 * Ask and wait. Fill msg by iw_ctl_init(); reply is checked by iw_ctl_check(). Signals are blocked and several may wait side by side.
 * fds_out receives up to 2 fds (CLOEXEC), -1 where none came. gen: only on that connection; 0: reconnects, rate-limited.
 * 0, or -ENOTCONN (no daemon, or another one), -ETIMEDOUT, -EPROTO.
 */
int iw_daemon_ask(void *msg, int fd_in, void *reply, size_t reply_size, int fds_out[2], uint64_t gen);
/*
 * The same for who has lost something without an answer: waits ten seconds for a daemon that runs and is only kept from answering, and again_ms for the
 * next one where there is none, or it dies meanwhile. That one may be asked what the one before had begun.
 */
int iw_daemon_ask_patiently(uint32_t again_ms, void *msg, int fd_in, void *reply, size_t reply_size, int fds_out[2]);
int iw_daemon_fds_close(int fds[2]);

/* Without an answer; dropped when there is no daemon. errno is not kept. */
enum {
	IW_DAEMON_MUST = 1,	/* worth a bounded wait when the daemon's queue is full */
};
bool iw_daemon_tell(void *msg, int fd_in, int flags);	/* false: it was dropped */
/* On a connection of its own, whatever became of the process's: who listens reads it some time. Nobody listens: nothing. Not retried later. */
void iw_daemon_hint(void *msg);
bool iw_daemon_tell_id(enum iw_ctl_type type, uint64_t id, enum iw_reason reason, int fd);
/* Everything told before has been done when this returns, unless the daemon is gone. */
void iw_daemon_sync(void);

extern const struct iw_peers *_Atomic iw_peers;	/* its page of peers; NULL: none yet */
extern struct iw_proc *_Atomic iw_proc_page;	/* what the daemon says to this process alone; the last one that there was */

bool iw_daemon_owns(int fd);
void iw_daemon_closing_internal(int fd);	/* dup2 is about to fall on this internal fd: move it */
void iw_daemon_forked_child(void);

#pragma GCC visibility pop
#endif
