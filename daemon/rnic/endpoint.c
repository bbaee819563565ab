// SPDX-License-Identifier: MIT
/* The seam above the queue pair: each call goes to the provider that made the endpoint. */
#include "endpoint.h"

#include <assert.h>
#include <errno.h>

static unsigned int count;

void endpoint_init(struct endpoint *ep, const struct endpoint_ops *ops, const struct endpoint_attr *a)
{
	*ep = (struct endpoint){ .ops = ops, .ulp = a->ulp, .ctx = a->ctx };
	count++;
}

void endpoint_freed(struct endpoint *ep)
{
	if (ep->counter)
		--*ep->counter;
	count--;
}

void endpoint_counted(struct endpoint *ep, unsigned int *n)
{
	ep->counter = n;
	++*n;
}

unsigned int endpoint_count(void)
{
	return count;
}

int endpoint_initiate(struct endpoint *ep, const void *pd, size_t pd_len)
{
	return ep->ops->initiate(ep, pd, pd_len);
}

int endpoint_respond(struct endpoint *ep)
{
	return ep->ops->respond(ep);
}

int endpoint_accept(struct endpoint *ep, const void *pd, size_t pd_len)
{
	return ep->ops->accept(ep, pd, pd_len);
}

int endpoint_reject(struct endpoint *ep, const void *pd, size_t pd_len)
{
	return ep->ops->reject(ep, pd, pd_len);
}

int endpoint_request(struct endpoint *ep, const void *pd, size_t pd_len, uint8_t out[ENDPOINT_FRAME_MAX])
{
	return ep->ops->request(ep, pd, pd_len, out);
}

int endpoint_frame(const struct endpoint *ep, const uint8_t *in, size_t len, bool answer, struct endpoint_frame *f)
{
	return ep->ops->frame(ep, in, len, answer, f);
}

int endpoint_go_on(struct endpoint *ep, const uint8_t *frame, size_t len)
{
	return ep->ops->go_on(ep, frame, len);
}

bool endpoint_ready(struct endpoint *ep, void (*again)(void *ctx))
{
	return !ep->ops->ready || ep->ops->ready(ep, again);
}

bool endpoint_made(const struct endpoint *ep)
{
	return ep->ops->made && ep->ops->made(ep);
}

unsigned int endpoint_caps(const struct endpoint *ep)
{
	return ep->ops->caps_now ? ep->ops->caps_now(ep) : ep->ops->caps;
}

const char *endpoint_device(const struct endpoint *ep)
{
	return ep->ops->device ? ep->ops->device(ep) : NULL;
}

void endpoint_large(struct endpoint *ep, bool on)
{
	if (endpoint_caps(ep) & ENDPOINT_LARGE)
		ep->ops->large(ep, on);
}

void endpoint_depths(const struct endpoint *ep, unsigned int *ird, unsigned int *ord)
{
	ep->ops->depths(ep, ird, ord);
}

int endpoint_rest(struct endpoint *ep, void (*still)(void *ctx))
{
	return endpoint_caps(ep) & ENDPOINT_REST ? ep->ops->rest(ep, false, still) : -EOPNOTSUPP;
}

int endpoint_halt(struct endpoint *ep, void (*still)(void *ctx))
{
	return endpoint_caps(ep) & ENDPOINT_REST ? ep->ops->rest(ep, true, still) : -EOPNOTSUPP;
}

void endpoint_resume(struct endpoint *ep)
{
	ep->ops->resume(ep);
}

int endpoint_socket(struct endpoint *ep)
{
	return ep->ops->socket ? ep->ops->socket(ep) : -1;
}

void endpoint_close(struct endpoint *ep)
{
	ep->ops->close(ep);
}

void endpoint_abort(struct endpoint *ep)
{
	ep->ops->abort(ep);
}

void endpoint_detach(struct endpoint *ep)
{
	ep->ops->detach(ep);
}

void endpoint_terminate(struct endpoint *ep)
{
	ep->ops->terminate(ep);
}

void endpoint_unmake(struct endpoint *ep)
{
	ep->ops->unmake(ep);
}

int endpoint_register(struct endpoint *ep, void *addr, size_t len, uint64_t to, unsigned int access, struct endpoint_mr *mr)
{
	return ep->ops->reg(ep, addr, len, to, access, mr);
}

void endpoint_deregister(struct endpoint *ep, struct endpoint_mr *mr)
{
	if (mr->handle)
		ep->ops->dereg(ep, mr);
	*mr = (struct endpoint_mr){ 0 };
}

int endpoint_post_send(struct endpoint *ep, const struct iw_wr *wr)
{
	return ep->ops->post_send(ep, wr);
}

int endpoint_post_recv(struct endpoint *ep, uint64_t wr_id, const struct iw_sge *sge)
{
	return ep->ops->post_recv(ep, wr_id, sge);
}

unsigned int endpoint_send_room(const struct endpoint *ep)
{
	return ep->ops->send_room(ep);
}

void endpoint_stat(const struct endpoint *ep, struct endpoint_stat *s)
{
	ep->ops->stat(ep, s);
}

void endpoint_stat_add(struct endpoint_stat *sum, const struct endpoint_stat *s)
{
	static_assert(sizeof(*s) % sizeof(uint64_t) == 0, "counts only");
	for (size_t i = 0; i < sizeof(*s) / sizeof(uint64_t); i++)
		((uint64_t *)sum)[i] += ((const uint64_t *)s)[i];
}
