// SPDX-License-Identifier: MIT
/* IPv4-mapped addresses: a dual-stack server with an IPv4 client, and a client on an IPv6 socket. */
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
	for (int i = 0; i < 2; i++) {
		fd = t_accept(s);
		show("accepted", fd);
		want_str(fd, "hi");
		send_str(fd, "ho");
		want_eof(fd);
		close(fd);
	}
	close(s);
	s = t_listen(AF_INET);
	fd = t_accept(s);
	show("accepted", fd);
	want_str(fd, "hi");
	close(fd);
}

static struct sockaddr_storage mapped(const struct sockaddr_storage *v4)
{
	const struct sockaddr_in *a = (const void *)v4;
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in6 *m = (void *)&ss;

	m->sin6_family = AF_INET6;
	m->sin6_port = a->sin_port;
	m->sin6_addr.s6_addr[10] = m->sin6_addr.s6_addr[11] = 0xff;
	memcpy(&m->sin6_addr.s6_addr[12], &a->sin_addr, 4);
	return ss;
}

static void client(void)
{
	struct sockaddr_storage ss, m;
	int fd;

	t_peer(&ss);
	m = mapped(&ss);
	for (int i = 0; i < 2; i++) {
		fd = t_connect_to(i ? &m : &ss);
		show("connected", fd);
		send_str(fd, "hi");
		want_str(fd, "ho");
		close(fd);
	}
	t_peer(&ss);
	m = mapped(&ss);
	fd = t_connect_to(&m);
	show("connected", fd);
	send_str(fd, "hi");
	want_eof(fd);
	close(fd);
}

SOCK_ROLES(server, client)
