/* SPDX-License-Identifier: MIT */
/* The dialler's side of a session; what others ask it is in session.h. */
#ifndef IWARPD_SESS_ASK_H
#define IWARPD_SESS_ASK_H

#include "sess.h"

void ask_up(struct sess *s);			/* MPA is up: say HELLO */
void ask_received(struct sess *s, const struct iw_sm *m);
void ask_down(struct sess *s, enum iw_reason why);
int ask_ping(struct sess *s);

#endif
