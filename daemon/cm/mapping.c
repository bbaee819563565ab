// SPDX-License-Identifier: MIT
/* A queue pair mapped into its program, and back: who may ask, and what was asked for. */
#include "mapping.h"

#include <stdlib.h>

#include "place.h"
#include "switch.h"

struct mapping {
	struct cm_req req;
	struct proposal *p;
	uint64_t id;
	bool offered;
};

bool mapping_offered(const struct proposal *p)
{
	return p->mapping && p->mapping->offered;
}

void mapping_forget(struct proposal *p)
{
	if (!p->mapping)
		return;
	req_end(&p->mapping->req);
	free(p->mapping);
	p->mapping = NULL;
}

void mapping_taken(struct proposal *p)
{
	mapping_forget(p);
	place_leave(p);
	stream_mapped(p->st);
}

void mapping_not_taken(struct proposal *p)
{
	if (stream_map_cancel(p->st))
		mapping_forget(p);
	else
		mapping_taken(p);
}

/* The client is gone. */
static void cancel(struct cm_req *r)
{
	mapping_not_taken(container_of(r, struct mapping, req)->p);
}

static void answer(struct cm_req *r, uint64_t id, const struct stream_mapping *x)
{
	const int fds[2] = { x ? x->tcp : -1, x ? x->map : -1 };
	struct iw_ctl_mapped m;

	iw_ctl_init(&m, IW_CTL_MAPPED, r->seq);
	m.stream_id = id;
	m.result = !x;
	m.reason = x ? 0 : IW_REASON_BUSY;
	m.size = x ? x->size : 0;
	ctl_reply(r->client, &m, fds, x ? 2 : 0);
}

static void mapped(void *arg, int ret, const struct stream_mapping *x)
{
	struct mapping *m = arg;

	m->offered = !ret;
	answer(&m->req, m->id, ret ? NULL : x);
	if (ret)
		mapping_forget(m->p);
}

int cm_map(struct client *c, const struct iw_ctl_id *msg)
{
	struct stream *st = stream_find(msg->id);
	struct proposal *p = st ? stream_cm_data(st) : NULL;
	struct mapping *m = p && !p->mapping && switch_has(c, p, msg->id) ? calloc(1, sizeof(*m)) : NULL;
	struct cm_req r = { 0 };
	int ret = req_begin(&r, c, &msg->h);

	if (ret || !m) {
		free(m);
		if (!ret)
			answer(&r, msg->id, NULL);
		req_end(&r);
		return ret;
	}
	m->id = msg->id;
	m->p = p;
	p->mapping = m;
	req_move(&m->req, &r);
	m->req.cancel = cancel;
	stream_map(st, ctl_pidfd(c), mapped, m);
	return 0;
}

void cm_bell(struct client *c, const struct iw_ctl_id *msg)
{
	struct stream_info info;

	if (stream_look(msg->id, &info) && info.uid == c->uid)
		stream_bell(stream_find(msg->id));
}

int cm_unmap(struct client *c, const struct iw_ctl_id *msg)
{
	struct stream_info info;
	struct cm_req r = { 0 };
	int ret = req_begin(&r, c, &msg->h);

	if (ret)
		return ret;
	if (stream_look(msg->id, &info) && info.uid == c->uid)	/* no more than a hint to look at the map */
		stream_unmap(stream_find(msg->id));
	req_ack(&r, IW_REASON_ACCELERATED, msg->id);	/* a stream that died meanwhile says so by its carrier */
	return 0;
}
