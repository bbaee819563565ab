// SPDX-License-Identifier: MIT
/* Whether a connection to another host is carried better by iWARP than by TCP, as far as it has shown what it carries. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "proto/page.h"
#include "gain.h"
#include "sys.h"

#define LARGE	(24u << 10)
#define ONE_WAY	8u

static bool paced(int tcp, const struct tcp_info *i)
{
	char name[16] = "";
	socklen_t len = sizeof(name);

	IW_SYS(getsockopt, tcp, IPPROTO_TCP, TCP_CONGESTION, name, &len);
	return !strncmp(name, "bbr", 3) && i->tcpi_min_rtt <= IW_SHORT_US;
}

bool iw_gains(int tcp, uint64_t octets, uint32_t calls)
{
	struct tcp_info i;
	socklen_t len = sizeof(i);

	if (octets / LARGE < calls)
		return true;
	memset(&i, 0, sizeof(i));
	if (IW_SYS(getsockopt, tcp, IPPROTO_TCP, TCP_INFO, &i, &len) < 0)
		return true;
	return i.tcpi_bytes_acked / ONE_WAY < i.tcpi_bytes_received || paced(tcp, &i);
}
