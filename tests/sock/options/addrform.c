// SPDX-License-Identifier: MIT
/* IPV6_ADDRFORM: a v4-mapped connection becomes one of AF_INET, nothing else does. */
#include "../sock.h"

static void show(const char *what, int fd)
{
	struct sockaddr_storage s;
	struct sockaddr_in6 *s6 = (void *)&s;
	socklen_t l = sizeof(s);

	ok(getsockname(fd, (void *)&s, &l));
	say("%s local: %s mapped %d", what, s.ss_family == AF_INET6 ? "INET6" : "INET",
	    s.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&s6->sin6_addr));
	l = sizeof(s);
	ok(getpeername(fd, (void *)&s, &l));
	say("%s peer: %s mapped %d", what, s.ss_family == AF_INET6 ? "INET6" : "INET",
	    s.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&s6->sin6_addr));
}

static void form(const char *what, int fd)
{
	int v = -1;
	socklen_t l = sizeof(v);

	step(what, getsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &v, &l));
	say("is %d, domain %d", v, get_int(fd, SOL_SOCKET, SO_DOMAIN));
}

static void server(void)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct sockaddr_storage ss;
	socklen_t l = sizeof(any);
	int s = (int)ok(socket(AF_INET6, SOCK_STREAM, 0)), fd;

	ok(set_int(s, IPPROTO_IPV6, IPV6_V6ONLY, 0));
	ok(bind(s, (void *)&any, sizeof(any)));
	ok(listen(s, 5));
	ok(getsockname(s, (void *)&any, &l));
	t_addr(AF_INET, &ss);
	((struct sockaddr_in *)&ss)->sin_port = any.sin6_port;
	t_put(&ss, sizeof(ss));
	fd = t_accept(s);
	form("before", fd);
	step("to AF_INET6", set_int(fd, IPPROTO_IPV6, IPV6_ADDRFORM, AF_INET6));
	step("short", setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &(short){ AF_INET }, 2));
	step("nowhere", setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, NULL, 4));
	step("to AF_INET", set_int(fd, IPPROTO_IPV6, IPV6_ADDRFORM, AF_INET));
	show("now", fd);
	say("domain %d", get_int(fd, SOL_SOCKET, SO_DOMAIN));
	want_str(fd, "hi");
	send_str(fd, "ho");
	want_eof(fd);
	close(fd);
	fd = t_accept(s);
	want_eof(fd);
	step("half closed", set_int(fd, IPPROTO_IPV6, IPV6_ADDRFORM, AF_INET));
	form("half closed", fd);
	close(fd);
	close(s);
	s = t_listen(AF_INET6);
	fd = t_accept(s);
	step("not mapped", set_int(fd, IPPROTO_IPV6, IPV6_ADDRFORM, AF_INET));
	form("not mapped", fd);
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
	close(s);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	fd = t_connect_to(&ss);
	send_str(fd, "hi");
	want_str(fd, "ho");
	close(fd);
	fd = t_connect_to(&ss);
	close(fd);
	t_peer(&ss);
	fd = t_connect_to(&ss);
	want_str(fd, "x");
	close(fd);
}

SOCK_ROLES(server, client)
