/* SPDX-License-Identifier: MIT */
/* What iwsock.conf allows this process. */
#ifndef IW_PRELOAD_CONF_H
#define IW_PRELOAD_CONF_H

#include <stdbool.h>

#include "proto/page.h"

#pragma GCC visibility push(hidden)

enum iw_verb { IW_VERB_CONNECT, IW_VERB_LISTEN };

bool iw_conf_allows(enum iw_verb verb, const struct iw_addr *a);
bool iw_conf_listen_by_address(void);	/* listen rules name addresses: accepted connections are checked too */
void iw_conf_forked_child(void);

#pragma GCC visibility pop
#endif
