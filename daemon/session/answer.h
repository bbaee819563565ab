/* SPDX-License-Identifier: MIT */
/* The acceptor's side of a session; how others answer is in session.h. */
#ifndef IWARPD_SESS_ANSWER_H
#define IWARPD_SESS_ANSWER_H

#include "sess.h"

void answer_received(struct sess *s, const struct iw_sm *m);
void answer_down(struct sess *s);
/* It is known now whose session it is: what waited for that is answered. */
void answer_run(struct sess *s);
/* This daemon stops. */
void answer_stopping(struct sess *s);
/* Our own session to p (from local) came up, or is over. */
void answer_dialled(struct peer *p, const uint8_t local[16], bool up);

#endif
