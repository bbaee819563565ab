/* SPDX-License-Identifier: MIT */
/* What is remembered of connections: plain ones and their reasons, who may address which stream. */
#ifndef IWARPD_BOOK_H
#define IWARPD_BOOK_H

#include "ctl.h"

struct proposal;

void plain_record(struct client *c, uint64_t conn_id, const struct iw_tuple *t, bool is_client, int fd, enum iw_reason reason);
/* Why it is plain, as somebody says; ACCELERATED: nobody does. */
enum iw_reason plain_why(const struct iw_tuple *t);
/* It stays plain, at least for now: whoever watches is told why, if it is something else than before. */
void plain_tell(struct proposal *p);
/* The same of one that there was no room for. */
void plain_tell_quota(struct client *c, const struct iw_tuple *t, bool is_client, int fd);
void plain_closed(struct client *c, uint64_t conn_id);
void plain_client_gone(struct client *c);
void reason_add(enum iw_reason reason, bool is_client);
void grant_add(struct client *c, uint64_t stream_id, unsigned int end);
bool grant_has(struct client *c, uint64_t stream_id, unsigned int end);
void grants_stream_gone(uint64_t stream_id);
void grants_client_gone(struct client *c);

#endif
