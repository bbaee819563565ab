// SPDX-License-Identifier: MIT
/* Which provider's endpoint an application's connection gets: the soft one, on its TCP connection, or one that has a device beside that, where it is wanted. */
#include "provider.h"

#include <errno.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "rnic.h"
#include "soft.h"
#if HAVE_VERBS
#include "verbs.h"
#endif

unsigned int provider_caps(void)
{
	return soft_endpoint.caps;
}

void provider_needs(struct endpoint_needs *n)
{
	soft_endpoint.needs(n);
}

static int by_device(int tcp, const struct endpoint_attr *a, struct endpoint **ep)
{
#if HAVE_VERBS
	return verbs_create(tcp, a, ep);
#else
	static bool said;

	if (!said)
		log_warn("provider = auto: this iwarpd was built without libibverbs and librdmacm, and uses no device");
	said = true;
	return -ENOSYS;
#endif
}

/* One whose connection is up goes on as it was. */
int provider_create(int tcp, const struct endpoint_attr *a, struct endpoint **ep)
{
	if (conf.provider == CONF_PROVIDER_AUTO && !(a->flags & RNIC_GOES_ON) && !by_device(tcp, a, ep))
		return 0;
	return soft_create_attr(tcp, a, ep);
}
