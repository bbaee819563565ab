/* SPDX-License-Identifier: MIT */
/*
 * The verbs endpoint: an RDMA device of this host carries the stream, by a connection that the two daemons make beside the application's. That one has a
 * soft endpoint all the time: Request and Reply stand on it, where its octets end, and it is quiet from then on, a witness whose end is the
 * stream's end. Without a device that reaches the other host it is the soft endpoint that carries the stream. Built where libibverbs
 * and librdmacm were found; they are loaded when the first one is made, and no sooner.
 */
#ifndef IWARPD_VERBS_H
#define IWARPD_VERBS_H

#include "endpoint.h"

/*
 * As soft_create_attr(). -ENODEV: no device has the address of this end, or the other host was found to have none lately; -ENOSYS, -EACCES and others:
 * they cannot be used here, which is logged. Nothing has happened then, and the soft endpoint is as good as any.
 */
int verbs_create(int fd, const struct endpoint_attr *a, struct endpoint **ep);

#endif
