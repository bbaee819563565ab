// SPDX-License-Identifier: MIT
/* TCP_NOTSENT_LOWAT: 0 is the default and makes nothing small; set before the connection or on the listener it is there afterwards. */
#include "../sock.h"

static void server(void)
{
	struct sockaddr_storage ss;
	int l = t_bind(0, &ss), fd;

	ok(set_int(l, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 30000));
	ok(listen(l, 5));
	t_put(&ss, sizeof(ss));
	fd = t_accept(l);
	say("accepted: %d", get_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT));
	want_eof(fd);
	close(fd);
	fd = t_accept(l);
	t_sync();
	close(fd);
}

static void client(void)
{
	static char b[1000];
	struct sockaddr_storage ss;
	long sum = 0, n;
	int fd;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	ok(set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 20000));
	ok(connect(fd, (void *)&ss, t_salen(&ss)));
	say("connected: %d", get_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT));
	close(fd);
	fd = t_connect_to(&ss);
	ok(set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0));
	say("set: %d", get_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT));
	set_nonblock(fd, true);
	while ((n = send(fd, b, sizeof(b), MSG_NOSIGNAL)) > 0)
		sum += n;
	say("room %d", sum > 50000);
	t_sync();
	close(fd);
}

SOCK_ROLES(server, client)
