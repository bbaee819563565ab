/* SPDX-License-Identifier: MIT */
/* Which provider's endpoint an application's connection gets: the one place that decides. */
#ifndef IWARPD_PROVIDER_H
#define IWARPD_PROVIDER_H

#include "endpoint.h"

unsigned int provider_caps(void);	/* ENDPOINT_* */
void provider_needs(struct endpoint_needs *n);
/*
 * tcp: the application's connection. An endpoint may take it over, or leave it as witness and have another way of its own: it is closed with the
 * endpoint either way. 0 or -errno (then it is the caller's, as after endpoint_unmake()).
 */
int provider_create(int tcp, const struct endpoint_attr *a, struct endpoint **ep);

#endif
