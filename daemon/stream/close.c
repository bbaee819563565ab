/* SPDX-License-Identifier: MIT */
/*
 * Streams that are ended from outside. By the administrator (SEC-U07): what `ss -K` does to a TCP connection, ECONNABORTED here, a reset at the
 * other end. By the end of the daemon: a reset for both, but of those that are mapped, or handed on (leave.c).
 */
#include <errno.h>
#include <sys/socket.h>

#include "back.h"
#include "carrier.h"
#include "join.h"
#include "leave.h"
#include "life.h"
#include "map.h"
#include "remote.h"
#include "stream_priv.h"
#include "table.h"

static void remote_closed(struct stream *st)
{
	struct stream_remote *r = st->remote;

	carrier_record_reset(st, ECONNABORTED);
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

/* A relay: there is only TCP. */
static void tcp_closed(struct stream *st)
{
	carrier_reset(st, ECONNABORTED);
	st->tcp_reset = true;
	stream_kill(st);
}

int stream_close(uint64_t id)
{
	struct stream *st = stream_find(id);

	if (!st || st->given_back)
		return -ENOENT;
	if (st->state == STREAM_GRANTED || join_offered(st) || back_offered(st) || map_offered(st))
		return -EBUSY;
	if (st->state == STREAM_LOCAL)
		return -EOPNOTSUPP;
	st->administrator = true;
	if (map_taken(st))
		remote_cut(st, ECONNABORTED);
	else if (st->remote && st->remote->on)
		remote_closed(st);
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

unsigned int streams_leave(void)
{
	unsigned int n = 0;

	for (struct stream *st = table_next(NULL), *next; st; st = next) {
		next = table_next(st);
		if (st->keep_slot || map_taken(st) || leave_left(st) || !stream_map_cancel(st))
			continue;	/* T is the library's, or the daemon's after us */
		n++;
		if (st->state == STREAM_GRANTED ? stream_abandon(st) : !stream_back_cancel(st))
			continue;	/* T is the application's */
		leave_not(st);
		disconnect(st->end[0].tcp);
		disconnect(st->end[1].tcp);
	}
	return n;
}
