/* SPDX-License-Identifier: MIT */
/*
 * Streams that are ended from outside. By the administrator (SEC-U07): what `ss -K` does to a TCP connection, ECONNABORTED here, a reset at the
 * other end. By connection management, and by the end of the daemon: a reset for both.
 */
#include <errno.h>
#include <sys/socket.h>

#include "carrier.h"
#include "life.h"
#include "remote.h"
#include "stream_priv.h"
#include "table.h"

static void remote_closed(struct stream *st, int err)
{
	struct stream_remote *r = st->remote;

	carrier_record_reset(st, err);
	if (r->f->running) {
		remote_abort(st, ECONNRESET);	/* a peer that does not answer holds it for close_timeout at most */
		return;
	}
	r->f->aborted = true;
	st->state = STREAM_CLOSING;
	carrier_drop(st);
	if (r->ep)
		endpoint_close(r->ep);		/* MPA startup: a reset */
	remote_end(st);
}

/* Octets are held, or relayed, or about to be: there is only TCP. */
static void tcp_closed(struct stream *st)
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
		tcp_closed(st);
	return 0;
}

static void disconnected(struct op *op, int res, bool more)
{
}

/* connect() to nowhere sends a RST whoever holds the socket besides; a worker makes it, so that one whose lock is held keeps no other. */
static void disconnect(int tcp)
{
	static const struct sockaddr none = { .sa_family = AF_UNSPEC };
	static struct op op = { .fn = disconnected };
	struct io_uring_sqe *sqe;

	if (tcp < 0)
		return;
	sqe = engine_sqe();
	io_uring_prep_connect(sqe, tcp, &none, sizeof(none));
	engine_submit(sqe, &op);
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

void streams_leave(void)
{
	for (struct stream *st = table_next(NULL), *next; st; st = next) {
		next = table_next(st);
		if (st->state == STREAM_OFFERED) {
			stream_abandon(st);
			continue;
		}
		disconnect(st->end[0].tcp);
		disconnect(st->end[1].tcp);
	}
}
