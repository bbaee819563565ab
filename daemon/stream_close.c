/* SPDX-License-Identifier: MIT */
/* Streams that the administrator ends (SEC-U07): what `ss -K` does to a TCP connection. ECONNABORTED here, a reset at the other end. */
#include <errno.h>

#include "stream_remote.h"

static void remote_closed(struct stream *st)
{
	struct stream_remote *r = st->remote;

	carrier_record_reset(st, ECONNABORTED);
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
		remote_closed(st);
	else
		plain_closed(st);
	return 0;
}
