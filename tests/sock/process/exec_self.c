// SPDX-License-Identifier: MIT
/* exec with an inherited connection: names, options and data are still those of TCP. */
#include "../sock.h"

static void after(int fd)
{
	struct sockaddr_storage s;
	socklen_t l = sizeof(s);

	ok(getpeername(fd, (void *)&s, &l));
	say("peer family %s length %u", s.ss_family == AF_INET ? "INET" : "other", l);
	say("domain %d NODELAY %d", get_int(fd, SOL_SOCKET, SO_DOMAIN), get_int(fd, IPPROTO_TCP, TCP_NODELAY));
	send_str(fd, "after exec");
	want_str(fd, "heard");
	step("shutdown", shutdown(fd, SHUT_WR));
	want_eof(fd);
}

static void server(int fd)
{
	want_str(fd, "before exec, ");
	want_str(fd, "after exec");
	send_str(fd, "heard");
	want_eof(fd);
	close(fd);
}

static void t_server(void)
{
	server(t_accept(t_listen(0)));
}

static void client(void)
{
	const char *in = getenv("IW_TEST_FD");
	char num[16];
	int fd;

	if (in) {
		after(atoi(in));
		return;
	}
	fd = t_connect();
	ok(set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1));
	send_str(fd, "before exec, ");
	snprintf(num, sizeof(num), "%d", fd);
	setenv("IW_TEST_FD", num, 1);
	execl("/proc/self/exe", "self", "CLIENT", (char *)NULL);
	must(0);
}

SOCK_ROLES(t_server, client)
