/* SPDX-License-Identifier: MIT */
/* The acceptor's side of a session; what others say by it is in session.h. */
#ifndef IWARPD_SESS_TELL_H
#define IWARPD_SESS_TELL_H

#include "sess.h"

void tell_received(struct sess *s, const struct iw_sm *m);
void tell_down(struct sess *s);
/* It is a daemon's: it hears of changes from now on. */
void tell_vouched(struct sess *s);
/* This daemon stops. */
void tell_stopping(struct sess *s);
/* Our own session to p (from local) came up, or failed. */
void tell_dialled(struct peer *p, const uint8_t local[16], bool up);

#endif
