// SPDX-License-Identifier: MIT
/* Which provider's endpoint an application's connection gets: the soft one, on its TCP connection. */
#include "provider.h"

#include "soft.h"

unsigned int provider_caps(void)
{
	return soft_endpoint.caps;
}

void provider_needs(struct endpoint_needs *n)
{
	soft_endpoint.needs(n);
}

int provider_create(int tcp, const struct endpoint_attr *a, struct endpoint **ep)
{
	return soft_create_attr(tcp, a, ep);
}
