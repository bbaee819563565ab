/* SPDX-License-Identifier: MIT */
/* All streams: by number, and by carrier. */
#ifndef IWARPD_STREAM_TABLE_H
#define IWARPD_STREAM_TABLE_H

#include <stdint.h>

struct stream;
struct stream_info;

uint64_t table_id(void);		/* random, of no stream */
void table_add(struct stream *st);	/* by id and the carrier of end 0 */
void table_add_end(struct stream *st, unsigned int end);	/* by that of the other, too */
void table_del(struct stream *st);
struct stream *table_next(const struct stream *st);	/* NULL starts */
void table_del_end(struct stream *st, unsigned int end);
struct stream *table_find(uint64_t id);	/* perhaps a dead one */
/* Perhaps a dead one, and which of its ends has the carrier with this SO_COOKIE. */
struct stream *table_find_carrier(uint64_t cookie, unsigned int *end);
void table_info(const struct stream *st, unsigned int end, struct stream_info *i);	/* as stream_foreach() tells it */

#endif
