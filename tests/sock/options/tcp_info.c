// SPDX-License-Identifier: MIT
/* TCP_INFO: established, with a length, also after the peer's FIN. TCP_CONGESTION: the name that the system gave, or the program. */
#include "../sock.h"

#include <stddef.h>

static int state(int fd)
{
	struct tcp_info ti;
	socklen_t l = sizeof(ti);

	memset(&ti, 0, sizeof(ti));
	ok(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &l));
	must(l >= offsetof(struct tcp_info, tcpi_total_retrans));
	must(ti.tcpi_snd_mss > 0);
	return ti.tcpi_state;
}

static void server(int fd)
{
	char cc[16] = "";
	socklen_t l = sizeof(cc);

	say("established %d", state(fd) == TCP_ESTABLISHED);
	ok(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, &l));
	say("congestion control %s, %d", cc, (int)l);
	say("MAXSEG positive %d", get_int(fd, IPPROTO_TCP, TCP_MAXSEG) > 0);
	t_sync();
	want_eof(fd);
	say("congestion control %d", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
	l = sizeof(cc);
	ok(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, &l));
	say("congestion control %s, %d", cc, (int)l);
	close(fd);
}

static void client(int fd)
{
	say("established %d", state(fd) == TCP_ESTABLISHED);
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
