// SPDX-License-Identifier: MIT
/*
 * The switch: from the program's TCP socket to a stream, and back. This is the agent: it has the descriptors, and believes a proposal only when
 * it has the socket in hand. What a switch means for the other end is for control (match.c).
 */
#include "switch.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/closing.h"
#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/net/ipsec.h"
#include "daemon/net/sock.h"
#include "book.h"
#include "direct.h"
#include "mapping.h"
#include "match.h"
#include "pace.h"

/* ---- what control tells ---- */

void agent_go(struct proposal *p, bool may)
{
	uint32_t id = (uint32_t)p->conn_id, was = id;

	if (!p->client)
		return;
	if (may)
		atomic_store(&p->client->proc->go[p->slot], id);
	else	/* the slot may be another one's by now */
		atomic_compare_exchange_strong(&p->client->proc->go[p->slot], &was, 0);
}

uint64_t agent_relayed(const struct proposal *p)
{
	struct stream_info info;

	return p->st && stream_look(stream_id(p->st), &info) ? info.tx_bytes + info.rx_bytes : 0;
}

void agent_want_back(struct proposal *p, bool want)
{
	if (p->st)
		stream_want_back(p->st, want);
}

void agent_upgrade(struct proposal *p)
{
	if (p->st)
		stream_upgrade(p->st);
}

void agent_hold(struct proposal *p, uint64_t nonce, uint64_t pos, uint32_t crc)
{
	if (p->st)
		stream_their_hold(p->st, nonce, pos, crc);
	else
		match_held(p, nonce, false, 0, 0);
}

void agent_held(struct proposal *p, uint64_t nonce, bool yes, uint64_t pos, uint32_t crc)
{
	if (p->st)
		stream_held(p->st, nonce, yes, pos, crc);
}

/* ---- SWITCH ---- */

/* What -errno of a stream means for its connection. */
static enum iw_reason no_stream_reason(int err)
{
	switch (err) {
	case -EDQUOT:
		return IW_REASON_QUOTA;
	case -EAGAIN:
	case -EBUSY:
		return IW_REASON_BUSY;
	case -ENOTCONN:
		return IW_REASON_HALF_CLOSED;
	default:
		return IW_REASON_RESOURCES;
	}
}

static void no_stream_log(const struct stream_owner *o, const struct iw_tuple *t, int err)
{
	struct log_about about = { .id = LOG_ID_STREAM, .program = o->program, .pid = o->pid, .uid = o->uid, .peer = iw_addr_text(&t->peer) };

	log_about(LOG_WARNING, &about, "no stream for %s (pid %d), %s: %s", o->program, (int)o->pid, iw_tuple_text(t), strerror(-err));
}

/* Is this the socket of that proposal? Whatever is wrong with it will be next time. */
static enum iw_reason socket_check(const struct proposal *p, int tcp)
{
	enum iw_reason reason = sock_check(tcp, p->netns);
	struct iw_tuple t;

	if (reason)
		return reason;
	if (sock_name(tcp, &t.local, false) || sock_name(tcp, &t.peer, true))
		return IW_REASON_NOT_STREAM;
	if (!iw_tuple_same(&t, &p->t) || sock_cookie(tcp) != p->cookie)
		return IW_REASON_TUPLE_UNKNOWN;
	if (sock_state(tcp) != TCP_ESTABLISHED)
		return IW_REASON_HALF_CLOSED;
	return ipsec_check(&t);
}

static struct stream_owner owner_of(const struct proposal *p)
{
	return (struct stream_owner){ .pid = p->client->pid, .uid = p->uid, .fd = p->fd, .program = p->client->program };
}

/* A stream is p's from here on, though its program may not take it. */
static void granted(struct proposal *p, struct stream *st, unsigned int end)
{
	p->st = st;
	p->end = end;
	if (!end)
		stream_set_cm_data(st, p);
}

/* takes: see struct refusal. */
static int grant(struct cm_req *r, struct proposal *p, int tcp, uint32_t told, uint64_t *takes)
{
	struct stream_owner owner = owner_of(p);
	struct stream_grant g = { 0 };
	struct stream *st;
	int ret = stream_grant(tcp, &p->t, &owner, p->is_client, told, &g, &st);

	if (ret) {
		if (ret == -EAGAIN)
			*takes = g.size;
		else
			no_stream_log(&owner, &p->t, ret);
		return ret;
	}
	prm_passed_gone(p->uid);
	granted(p, st, 0);
	req_stream(r, &g);
	return 0;
}

/* The other end is on this host, and relayed: its carrier has a second end. */
struct joining {
	struct cm_req req;
	struct proposal *p, *with;
	uint32_t uid;
	int tcp;
	bool offered;		/* the program has its answer */
};

static struct proposal *other_end(const struct proposal *p)
{
	struct iw_tuple mirror = iw_tuple_mirror(&p->t);
	struct proposal *o = p->local ? proposal_next(&mirror, NULL) : NULL;

	while (o && (o == p || o->state != PROPOSAL_SWITCHED || !o->st || o->never || !proposals_meet(p, o)))
		o = proposal_next(&mirror, o);
	return o;
}

static void joining_free(struct joining *j)
{
	j->p->joining = NULL;
	req_end(&j->req);
	if (j->tcp >= 0)
		close_passed(j->tcp, j->uid);
	prm_passed_gone(j->uid);
	free(j);
}

static void joined(void *arg, int ret, const struct stream_grant *g)
{
	struct joining *j = arg;
	struct proposal *p = j->p;
	enum iw_reason reason = no_stream_reason(ret);

	if (!ret) {
		j->offered = true;
		granted(p, j->with->st, 1);
		req_stream(&j->req, g);
		return;
	}
	close_passed(j->tcp, j->uid);	/* before the answer, as in cm_switch() */
	j->tcp = -1;
	match_not_yet(p, reason);
	req_plain(&j->req, reason, 0);
	joining_free(j);
}

static int join(struct cm_req *r, struct proposal *p, struct proposal *with, int tcp)
{
	struct stream_owner owner = owner_of(p);
	struct joining *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->p = p;
	j->with = with;
	j->uid = p->uid;
	j->tcp = tcp;
	req_move(&j->req, r);
	p->joining = j;
	stream_join(with->st, tcp, &p->t, &owner, conf.answer_timeout, joined, j);
	return 0;
}

/*
 * One socket has one stream. And two relays would not be joined any more: while one end of a connection of this host is between grant and SWITCHED
 * the other waits.
 */
static bool not_its_turn(const struct proposal *p, const struct proposal *with)
{
	struct iw_tuple mirror = iw_tuple_mirror(&p->t);
	struct proposal *o = proposal_next(&p->t, NULL);

	while (o && (o->cookie != p->cookie || (!o->st && !o->joining)))
		o = proposal_next(&p->t, o);
	if (o)
		return true;
	o = p->local && !with ? proposal_next(&mirror, NULL) : NULL;
	while (o && (o->state != PROPOSAL_MATCHED || (!o->st && !o->joining) || !proposals_meet(p, o)))
		o = proposal_next(&mirror, o);
	return o;
}

struct refusal {
	bool never;
	uint64_t takes;		/* the carrier, and the program was told of more; 0: it is not that */
};

/* ACCELERATED: tcp is somebody's, and the answer, too. */
static enum iw_reason try(struct cm_req *r, struct proposal *p, int tcp, uint32_t told, struct refusal *no)
{
	enum iw_reason reason;
	struct proposal *with;
	int ret;

	if (!p || p->never)
		return p ? p->reason : IW_REASON_TUPLE_UNKNOWN;
	if (p->state != PROPOSAL_MATCHED || p->st || p->joining)
		return p->state == PROPOSAL_OPEN && p->reason ? p->reason : IW_REASON_BUSY;
	if (!match_may_switch(p))
		return IW_REASON_MATCHED;
	reason = socket_check(p, tcp);
	no->never = reason;
	if (reason)
		return reason;
	with = other_end(p);
	if (not_its_turn(p, with))
		return IW_REASON_BUSY;
	ret = with ? join(r, p, with, tcp) : grant(r, p, tcp, told, &no->takes);
	return ret ? no_stream_reason(ret) : IW_REASON_ACCELERATED;
}

int cm_switch(struct client *c, const struct iw_ctl_id *m, int fd)
{
	struct proposal *p = proposal_find(c, m->id);
	struct cm_req r = { 0 };
	enum iw_reason reason = IW_REASON_QUOTA;
	struct refusal no = { 0 };
	bool room;
	int ret = req_begin(&r, c, &m->h);

	if (ret) {
		close_passed(fd, c->uid);
		return ret;
	}
	room = prm_passed(c->uid);
	if (room)
		reason = try(&r, p, fd, m->told, &no);
	if (!reason)
		return 0;
	prm_passed_gone(c->uid);
	/* before the answer: a close by the application must be the last one, and what it looks at next is as the answer says */
	close_passed(fd, c->uid);
	if (p && no.never)
		match_never(p, reason);
	else if (p && !p->st)
		match_not_yet(p, reason);
	req_plain(&r, reason, no.takes);
	return 0;
}

/* ---- what was offered is taken, or not ---- */

static void join_taken(struct joining *j)
{
	struct proposal *p = j->p, *with = j->with;

	if (!stream_joined(with->st))
		j->tcp = -1;
	joining_free(j);
	match_done(with);
	match_done(p);
}

static void join_void(struct joining *j)
{
	j->p->st = NULL;
	j->p->end = 0;
	joining_free(j);
}

static void grant_taken(struct proposal *p)
{
	if (!stream_switched(p->st, p->fd))
		match_switched(p);
}

static void grant_void(struct proposal *p)
{
	stream_set_cm_data(p->st, NULL);
	p->st = NULL;
}

struct backing {
	struct cm_req req;
	struct proposal *p;
	uint64_t id;
	bool offered;
};

static void backing_free(struct backing *b)
{
	b->p->backing = NULL;
	req_end(&b->req);
	free(b);
}

/* Whoever has it now, if not who asked, proposes it by a name of his own. */
static void back_taken(struct backing *b)
{
	struct proposal *p = b->p;
	bool same = p->client && p->client == b->req.client;

	stream_backed(p->st);
	stream_set_cm_data(p->st, NULL);
	p->st = NULL;
	backing_free(b);
	if (same)
		match_back(p, 0);
	else
		proposal_free(p);
}

void switch_settle(struct proposal *p)
{
	struct joining *j = p->joining;

	if (j && j->offered) {
		if (stream_join_cancel(j->with->st))
			join_void(j);
		else
			join_taken(j);
	} else if (p->st && !p->end && p->state == PROPOSAL_MATCHED) {
		if (stream_abandon(p->st))
			grant_void(p);
		else
			grant_taken(p);
	}
}

/* ---- SWITCHED, ABANDON, BACK ---- */

/* Of a pair, the end that came second. */
static struct proposal *second(const struct stream *st, const struct proposal *first)
{
	struct iw_tuple mirror = iw_tuple_mirror(&first->t);
	struct proposal *o = proposal_next(&mirror, NULL);

	while (o && !(o->st == st && o->end))
		o = proposal_next(&mirror, o);
	return o;
}

/* A full book (grant_add()) must not stop who switches. */
bool switch_has(struct client *c, const struct proposal *p, uint64_t id)
{
	return p->client == c || grant_has(c, id, p->end);
}

/* The proposal whose program, this client, was offered something of that stream and has not said what became of it. */
static struct proposal *offered(struct client *c, uint64_t id)
{
	struct stream *st = stream_find(id);
	struct proposal *p = st ? stream_cm_data(st) : NULL, *o = p ? second(st, p) : NULL;

	if (o && o->joining && switch_has(c, o, id))
		return o;
	if (!p || !switch_has(c, p, id))
		return NULL;
	return p->state == PROPOSAL_MATCHED || (p->backing && p->backing->offered) || mapping_offered(p) ? p : NULL;
}

void switch_joins(struct stream *st)
{
	struct proposal *p = stream_cm_data(st), *o = p ? second(st, p) : NULL;

	if (o && o->joining)
		switch_settle(o);
}

int cm_switched(struct client *c, const struct iw_ctl_id *m)
{
	struct proposal *p = offered(c, m->id);
	struct cm_req r = { 0 };
	int ret = m->h.seq ? req_begin(&r, c, &m->h) : 0;

	if (ret)
		return ret;
	if (p)
		p->fd = m->fd;
	if (p && p->joining)
		join_taken(p->joining);
	else if (p && p->backing)
		back_taken(p->backing);
	else if (p && p->mapping)
		mapping_taken(p);
	else if (p)
		grant_taken(p);
	else
		direct_said(c, m->id);
	if (m->h.seq)
		req_ack(&r, IW_REASON_ACCELERATED, m->id);	/* a stream that died meanwhile says so by its carrier */
	return 0;
}

void cm_abandon(struct client *c, const struct iw_ctl_id *m)
{
	struct proposal *p = offered(c, m->id);

	if (!p) {
		direct_said(c, m->id);
		return;
	}
	stream_not_taken(p->st, p->end);
	if (p->backing) {
		if (stream_back_cancel(p->st))
			backing_free(p->backing);
		return;
	}
	if (p->mapping) {
		mapping_not_taken(p);
		return;
	}
	switch_settle(p);
	if (p->state == PROPOSAL_MATCHED)
		match_back(p, m->reason);
}

/* The client is gone. */
static void back_cancel(struct cm_req *r)
{
	struct backing *b = container_of(r, struct backing, req);

	if (stream_back_cancel(b->p->st))
		backing_free(b);
	else
		back_taken(b);
}

static void back_answer(struct cm_req *r, uint64_t id, int tcp)
{
	struct linger l = { 0 };
	socklen_t len = sizeof(l);
	struct iw_ctl_tcp m;

	iw_ctl_init(&m, IW_CTL_TCP, r->seq);
	m.stream_id = id;
	m.result = tcp < 0;
	m.reason = tcp < 0 ? IW_REASON_BUSY : 0;
	if (tcp >= 0)
		stream_getsockopt(id, 0, SOL_SOCKET, SO_LINGER, &l, &len);
	m.linger_on = l.l_onoff;
	m.linger_s = l.l_linger;
	ctl_reply(r->client, &m, &tcp, tcp >= 0);
}

static void backed(void *arg, int ret, int tcp)
{
	struct backing *b = arg;

	back_answer(&b->req, b->id, ret ? -1 : tcp);
	b->offered = !ret;
	if (ret)
		backing_free(b);
}

int cm_back(struct client *c, const struct iw_ctl_id *m)
{
	struct stream *st = stream_find(m->id);
	struct proposal *p = st ? stream_cm_data(st) : NULL;
	struct backing *b = p && !p->backing && switch_has(c, p, m->id) ? calloc(1, sizeof(*b)) : NULL;
	struct cm_req r = { 0 };
	int ret = req_begin(&r, c, &m->h);

	if (ret || !b) {
		free(b);
		if (!ret)
			back_answer(&r, m->id, -1);
		req_end(&r);
		return ret;
	}
	b->id = m->id;
	b->p = p;
	p->backing = b;
	req_move(&b->req, &r);
	b->req.cancel = back_cancel;
	stream_back(st, backed, b);
	return 0;
}

/* ---- what streams tell ---- */

static void hold(struct stream *st, uint64_t nonce, uint64_t pos, uint32_t crc)
{
	struct proposal *p = stream_cm_data(st);

	if (p)
		match_hold(p, nonce, pos, crc);
}

static void held(struct stream *st, uint64_t nonce, bool yes, uint64_t pos, uint32_t crc)
{
	struct proposal *p = stream_cm_data(st);

	if (p)
		match_held(p, nonce, yes, pos, crc);
}

static void upgraded(struct stream *st)
{
	struct proposal *p = stream_cm_data(st);

	if (p)
		match_done(p);
}

static bool promised(struct stream *st)
{
	const struct proposal *p = stream_cm_data(st);

	return p && p->pacing == PACE_PROMISED;
}

/* The second end of a pair knows its stream, which does not know it. */
static void leave(struct proposal *p)
{
	p->st = NULL;
	proposal_free(p);
}

static void gone(struct stream *st)
{
	struct proposal *p = stream_cm_data(st), *o;

	if (!p)
		return;
	o = second(st, p);
	if (o)
		leave(o);
	leave(p);
}

static const struct stream_ops ops = { .hold = hold, .held = held, .upgraded = upgraded, .promised = promised, .room = pace_look, .gone = gone, .forgotten = grants_stream_gone };

void switch_start(void)
{
	stream_ops = &ops;
}

/* p is about to go: so does what was begun for it. */
void switch_forget(struct proposal *p)
{
	struct joining *j = p->joining;

	agent_go(p, false);
	if (j) {
		stream_join_cancel(j->with->st);
		join_void(j);
	}
	if (p->backing)
		backing_free(p->backing);
	mapping_forget(p);
	if (p->st && !p->end)
		stream_set_cm_data(p->st, NULL);
}
