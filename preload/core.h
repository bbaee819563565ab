/* SPDX-License-Identifier: MIT */
/* What only the core files (fdtab, ctl, connect, accept, epoll, fd, proc, init) share with each other. */
#ifndef IW_PRELOAD_CORE_H
#define IW_PRELOAD_CORE_H

#include <netinet/in.h>
#include <stddef.h>

#include "../proto/ctlmsg.h"
#include "priv.h"

#pragma GCC visibility push(hidden)

#define iw_likely(x)	__builtin_expect(!!(x), 1)
#define iw_unlikely(x)	__builtin_expect(!!(x), 0)

/* ---- locks: a futex, held with all signals blocked, so that a handler may call anything of ours ---- */
struct iw_lock {
	_Atomic uint32_t v;	/* 0 free, 1 held, 2 held and waited for */
};
extern struct iw_lock iw_tab_lock;	/* slots, epoll registry, CONNECTING entries, listeners; never held over a wait */
uint64_t iw_sig_block(void);
void iw_sig_restore(uint64_t old);
uint64_t iw_lock(struct iw_lock *l);	/* returns the signal mask for iw_unlock() */
void iw_unlock(struct iw_lock *l, uint64_t sigs);
void iw_futex_wait(_Atomic uint32_t *v, uint32_t old, unsigned int ms);
void iw_futex_wake(_Atomic uint32_t *v, int n);

/* ---- words of the fd table ---- */
#define IW_OTHER_ADOPTED (1u << 4)	/* word of an OTHER fd that is no carrier: iw_adopt need not look again */
#define IW_OTHER_SEEN	(3u << 4)	/* nor a listener: accept need not look either */
static inline uint32_t iw_word(int fd)
{
	return (unsigned int)fd < IW_FD_MAX ? atomic_load_explicit(&iw_fdtab[fd], memory_order_acquire) : 0;
}
static inline enum iw_fd_kind iw_word_kind(uint32_t w)
{
	return (enum iw_fd_kind)(w & 15);
}
static inline uint32_t iw_word_val(uint32_t w)
{
	return w >> 4;
}
static inline uint32_t iw_word_make(enum iw_fd_kind kind, uint32_t val)
{
	return (uint32_t)kind | val << 4;
}
/* Returns the word that was there; iw_streams is kept right. */
uint32_t iw_word_set(int fd, uint32_t w);
bool iw_word_cas(int fd, uint32_t old, uint32_t w);
extern _Atomic int iw_fd_high;	/* no word above this fd was ever set */

/* TCP: 5 bits of reason (0: may be accelerated), 23 bits serial number of the socket */
#define IW_TCP_SERIALS	(1u << 23)
static inline uint32_t iw_tcp_word(uint32_t serial, enum iw_reason why)
{
	return iw_word_make(IW_FD_TCP, (serial & (IW_TCP_SERIALS - 1)) << 5 | ((uint32_t)why & 31));
}
static inline enum iw_reason iw_tcp_reason(uint32_t w)
{
	return (enum iw_reason)(iw_word_val(w) & 31);
}
static inline uint32_t iw_tcp_serial(uint32_t w)
{
	return iw_word_val(w) >> 5;
}
uint32_t iw_tcp_new_serial(void);
bool iw_tcp_forked(uint32_t w);	/* a fork happened since this socket was made */
void iw_tcp_note_fork(void);
/* AF_INET or AF_INET6, SOCK_STREAM, IPPROTO_TCP? Asks the kernel. */
bool iw_is_tcp(int fd);
bool iw_is_nonblock(int fd);
/* The socket stays plain for good: PLAIN when the daemon heard of it (conn_id != 0), else OTHER. */
void iw_set_plain(int fd, uint32_t conn_id);
/* A new fd: its meaning is known for certain, whatever the table said about its number is old. */
void iw_fd_born(int fd, uint32_t w);
/* An internal fd: moved high, CLOEXEC, marked. Closes the old number. -errno (then the old one is closed as well). */
int iw_fd_hide(int fd);
/* Is there room for the two fds of an answer? One that finds none is lost, and with it what it stands for. */
bool iw_fd_room(int fd);
void iw_fd_unhide_close(int fd);
uint64_t iw_fd_ino(int fd);	/* st_ino, 0 on error */

/* Standard input and output may be carriers that exec left us; read() and write() alone would never look. */
void iw_adopt_inherited(void);

/* ---- streams ---- */
/* Takes over segment (closes it). NULL when the answer makes no sense or memory is short. refs = 1. */
struct iw_stream *iw_stream_new(const struct iw_ctl_stream *m, int segment, int carrier, uint64_t conn_id);
void iw_stream_get(struct iw_stream *s);
void iw_stream_put(struct iw_stream *s, bool closing);	/* closing: the last one tells the daemon and marks a reset */
void iw_stream_put_locked(struct iw_stream *s);	/* never used: nothing is told */
uint32_t iw_stream_word(const struct iw_stream *s);
struct iw_stream *iw_stream_at(uint32_t idx);

/* ---- the daemon (ctl.c) ---- */
enum {
	IW_TELL_MUST = 1,	/* worth a bounded wait when the daemon's queue is full */
};
bool iw_ctl_ready(void);	/* a daemon answers (connects when it is time to try); costs one system call */
void iw_ctl_retry(void);	/* it is time to try, unless the last one refused or hung */
bool iw_ctl_up(void);		/* as far as known, without asking */
uint64_t iw_ctl_gen(void);	/* of the connection; changes with every new one; 0: none yet */
uint32_t iw_conn_id_new(void);
int iw_rpc_fds_close(int fds[2]);
void iw_tell_flags(void *msg, int fd_in, int flags);
void iw_tell_id(enum iw_ctl_type type, uint64_t id, enum iw_reason reason, int fd);
void iw_ctl_closing_internal(int fd);	/* dup2 is about to fall on this internal fd: move it */
bool iw_ctl_owns(int fd);
void iw_ctl_forked_child(void);
extern const struct iw_peers *_Atomic iw_peers;
enum iw_peer_state iw_peer_lookup(const struct iw_addr *a, enum iw_reason *why);
_Atomic uint32_t *iw_intent_raise(const struct iw_addr *dst);
void iw_intent_lower(_Atomic uint32_t *p);
/* Tell the daemon about a connection that stays plain; rate-limited. Returns the conn_id it now knows, or 0. */
uint32_t iw_tell_plain(int fd, bool client, const struct iw_addr *peer, enum iw_reason why);
bool iw_addr_from(struct iw_addr *a, const struct sockaddr *sa, socklen_t len);
uint64_t iw_now_ms(void);
void iw_listeners_register(int (*rpc)(void *msg, int fd, void *reply, size_t size));

/* ---- connect.c ---- */
/* Put the carrier in the place of fd, epoll registrations included. 0, or -errno with nothing changed. */
int iw_swap(int fd, int carrier);
struct iw_flags {
	long fl, sig;		/* O_NONBLOCK, O_ASYNC; F_GETSIG */
	struct f_owner_ex own;
	struct timeval rcv, snd;	/* SO_RCVTIMEO, SO_SNDTIMEO */
};
void iw_flags_read(int fd, struct iw_flags *f);
void iw_flags_write(int fd, const struct iw_flags *f);
void iw_connect_forget(int fd, uint32_t w, enum iw_reason why);	/* fd is being closed, or shared (FD_SHARED) */
bool iw_connecting_owns(int fd);	/* fd is the hidden carrier of a connect under way */
void iw_connecting_closing_internal(int fd);
void iw_connect_fork(void);
void iw_connect_forked_child(void);

/* ---- accept.c ---- */
void iw_listener_get(uint32_t idx);
void iw_listener_put(uint32_t idx);
void iw_listeners_activated(int n);
void iw_listeners_forked_child(void);

/* ---- epoll.c: which epoll sets hold which of our fds; callers hold iw_tab_lock ---- */
int iw_reg_detach(int fd);		/* DEL everywhere before a swap; -errno: one of them could not (all are back in place) */
void iw_reg_attach(int fd);		/* ADD everywhere after it */
bool iw_reg_any(int fd);			/* some set holds fd */
bool iw_reg_lost(int fd);		/* registrations of fd are known to be incomplete */
void iw_reg_drop_fd(int fd);
void iw_reg_forget(int fd);		/* the same; takes the lock, and only when there is something */
void iw_reg_drop_epfd(int epfd, bool aliased);

/* ---- proc.c, init.c ---- */
extern _Atomic uint32_t iw_forks;	/* forks of this process and its ancestors since the library was loaded */
/* true: nothing of ours must be touched (vfork child). Notices forks that ran no handlers. One getpid. */
bool iw_in_vfork(void);
void iw_proc_init(void);
void iw_init(void);
/* Switched off for this process: IWSOCK_DISABLE, secure execution, or not initialised yet. */
extern _Atomic uint32_t iw_on;
const char *iw_program(void);		/* short name */
const char *iw_conf(void);		/* IWSOCK_CONF, or "" */
const char *iw_rundir(int i);		/* candidates for the run directory, NULL at the end */

/* ---- policy.c ---- */
enum iw_verb { IW_VERB_CONNECT, IW_VERB_LISTEN };
void iw_policy_forked_child(void);
bool iw_policy_allows(enum iw_verb verb, const struct iw_addr *a);
bool iw_policy_listen_by_address(void);	/* listen rules name addresses: accepted connections are checked too */

#pragma GCC visibility pop
#endif
