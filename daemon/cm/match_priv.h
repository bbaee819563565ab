/* SPDX-License-Identifier: MIT */
/* What match.c and match_peer.c share between them. */
#ifndef IWARPD_MATCH_PRIV_H
#define IWARPD_MATCH_PRIV_H

#include "match.h"

/* Its pause is over; and it may be told GO. */
bool match_rested(const struct proposal *p);
bool match_ready(const struct proposal *p);
/* Tells its program GO, if it may be and there is a place, now or when it is; and takes it back. */
void match_go(struct proposal *p);
void match_stop(struct proposal *p);
/* It may go on; or others have to lose their pacing before, and it says so (pace.h). */
bool match_may(struct proposal *p);
/* Why it is not accelerated, for now. */
void match_waits(struct proposal *p, enum iw_reason reason);
/* It is relayed, and the other end is not yet; will not come, and why it would not; has been proposed. */
void match_wait_other(struct proposal *p);
void match_give_up(struct proposal *p, enum iw_reason reason, enum iw_reason theirs);
void match_is_there(struct proposal *p);
/* Of that connection the one that has its socket, or NULL. */
struct proposal *match_relayed(const struct iw_tuple *t);

/* The other host's daemon is asked about the other end. */
void match_ask(struct proposal *p);
/* It is told why a connection stays plain, if it is known. */
void match_note(const struct iw_tuple *t, bool is_client, enum iw_reason reason);
/* Nothing is asked of it, and nothing answered, about this one any more. */
void match_peer_forget(struct proposal *p);

#endif
