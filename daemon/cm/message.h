/* SPDX-License-Identifier: MIT */
/* Messages of the library. */
#ifndef IWARPD_MESSAGE_H
#define IWARPD_MESSAGE_H

#include "ctl.h"

/* One checked message; fd (or -1) is the handler's to close. -EPROTO: close this client (why has been logged). */
int cm_message(struct client *c, const void *msg, int fd);
void cm_client_gone(struct client *c);

#endif
