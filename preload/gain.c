// SPDX-License-Identifier: MIT
/* Whether a connection to another host is carried better by iWARP than by TCP, as far as it has shown what it carries. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "proto/page.h"
#include "gain.h"
#include "sys.h"

#define SOME_PACED	(8u << 10)
#define LARGE		(24u << 10)
#define LARGE_PACED	(96u << 10)
#define ONE_WAY		8u

static bool paced(int tcp, const struct tcp_info *i)
{
	char name[16] = "";
	socklen_t len = sizeof(name);

	IW_SYS(getsockopt, tcp, IPPROTO_TCP, TCP_CONGESTION, name, &len);
	return !strncmp(name, "bbr", 3) && i->tcpi_min_rtt <= IW_SHORT_US;
}

enum iw_gain iw_gain(int tcp, uint64_t octets, uint32_t calls, bool from_file)
{
	struct tcp_info i;
	socklen_t len = sizeof(i);

	if (octets / SOME_PACED < calls)
		return IW_GAIN_YES;
	memset(&i, 0, sizeof(i));
	if (IW_SYS(getsockopt, tcp, IPPROTO_TCP, TCP_INFO, &i, &len) < 0 || i.tcpi_bytes_acked / ONE_WAY < i.tcpi_bytes_received)
		return IW_GAIN_YES;
	if (octets / LARGE >= calls && (from_file || octets / LARGE_PACED < calls))
		return IW_GAIN_NONE;
	if (paced(tcp, &i))
		return IW_GAIN_PACED;
	return octets / LARGE >= calls ? IW_GAIN_NONE : IW_GAIN_YES;
}
