/* SPDX-License-Identifier: MIT */
/* The page of peers. */
#ifndef IWARPD_PEERS_PAGE_H
#define IWARPD_PEERS_PAGE_H

#include "proto/page.h"
#include "proto/reason.h"

int peers_page_start(void);		/* 0 or -errno */
void peers_page_stop(void);		/* says dead to the libraries */
int peers_fd(void);			/* of the page, read-only, for the libraries; stays ours */
/* ttl_ms: of what is said, 0: for good. */
void peers_publish(const uint8_t ip[16], enum iw_peer_state state, enum iw_reason reason, unsigned int ttl_ms);

#endif
