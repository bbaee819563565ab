/* SPDX-License-Identifier: MIT */
/*
 * Streams that are ended from outside. By the administrator (SEC-U07): what `ss -K` does to a TCP connection, ECONNABORTED here, a reset at the
 * other end. By connection management: a reset for both.
 */
#include <errno.h>

#include "stream_remote.h"

static void remote_closed(struct stream *st, int err)
{
	struct stream_remote *r = st->remote;

	carrier_record_reset(st, err);
	if (r->running) {
		remote_abort(st, ECONNRESET);	/* a peer that does not answer holds it for close_timeout at most */
		return;
	}
	r->aborted = true;
	st->state = STREAM_CLOSING;
	carrier_drop(st);
	if (r->conn)
		conn_close(r->conn);		/* MPA startup: a reset */
	remote_end(st);
}

/* Octets are held, or relayed, or about to be: there is only TCP. */
static void plain_closed(struct stream *st)
{
	carrier_reset(st, ECONNABORTED);
	tcp_reset_on_close(st->end[0].tcp);
	stream_kill(st);
}

void stream_unconfirmed(struct stream *st)
{
	if (st->remote)
		remote_closed(st, ECONNRESET);
}

int stream_close(uint64_t id)
{
	struct stream *st = stream_find(id);

	if (!st)
		return -ENOENT;
	if (st->state == STREAM_OFFERED)
		return -EBUSY;
	if (st->state == STREAM_LOCAL)
		return -EOPNOTSUPP;
	if (st->remote)
		remote_closed(st, ECONNABORTED);
	else
		plain_closed(st);
	return 0;
}
