// SPDX-License-Identifier: MIT
/* A pair that is relayed becomes direct again: who asked, and what has become of it. */
#include "direct.h"

#include <stdlib.h>

struct directing {
	struct list node;
	struct cm_req req;
	struct client *client;
	struct stream_direct *d;
	bool offered;
};
static struct list directings = { &directings, &directings };

static void end(struct directing *g)
{
	list_del(&g->node);
	req_end(&g->req);
	if (g->d)
		stream_direct_end(g->d);
	free(g);
}

static void answered(void *arg, int ret, const struct stream_grant *grant)
{
	struct directing *g = arg;

	if (ret) {
		req_plain(&g->req, IW_REASON_BUSY, 0);
		end(g);
		return;
	}
	g->offered = true;
	req_stream(&g->req, grant);
}

/* Whoever has the carrier has the end. */
int cm_direct(struct client *c, const struct iw_ctl_fdmsg *m, int fd)
{
	struct directing *g = calloc(1, sizeof(*g));
	struct cm_req r = { 0 };
	int ret = req_begin(&r, c, &m->h);

	if (!ret && g)
		g->d = stream_direct(fd, answered, g);
	if (ret || !g || !g->d) {
		free(g);
		if (!ret)
			req_plain(&r, IW_REASON_BUSY, 0);
		return ret;
	}
	g->client = c;
	req_move(&g->req, &r);
	list_add_tail(&directings, &g->node);
	return 0;
}

void direct_said(struct client *c, uint64_t id)
{
	list_each(n, next, &directings) {
		struct directing *g = list_entry(n, struct directing, node);

		if (g->client == c && g->offered && stream_direct_id(g->d) == id)
			end(g);
	}
}

void direct_client_gone(struct client *c)
{
	list_each(n, next, &directings) {
		struct directing *g = list_entry(n, struct directing, node);

		if (g->client == c)
			end(g);
	}
}
