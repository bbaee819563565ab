/* SPDX-License-Identifier: MIT */
/* The control port. */
#ifndef IWARPD_SESS_PORT_H
#define IWARPD_SESS_PORT_H

#include "sess.h"

int port_start(void);		/* 0 or -errno (logged) */
void port_stop(void);
/* What settings have against a connection to the port, or NULL. */
const char *port_refuses(const struct iw_addr *me, const struct iw_addr *them);
/* Is this session, dialled from an address that we have a session to, its daemon's own? Asks. */
void port_prove(struct sess *s);
void port_down(struct sess *s);
/* May the endpoint of a session that is over linger? Each address has room for so many only. */
bool port_lingers(const struct peer *p);

#endif
