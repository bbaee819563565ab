// SPDX-License-Identifier: MIT
/* One thread waits in poll() for a connect that another thread starts: it must be woken and the data must flow. */
#include "../sock.h"

static int fd = -1;

static void server(void)
{
	int s = (int)ok(accept(t_listen(0), NULL, NULL));

	want_str(s, "data");
	send_str(s, "back");
	want_eof(s);
	close(s);
}

static void *waiter(void *arg)
{
	t_until(fd, POLLOUT);
	while (t_poll(fd, POLLOUT, T_WAIT_MS) & POLLHUP)	/* not connected yet */
		t_nap(1);
	return NULL;
}

static void client(void)
{
	struct sockaddr_storage ss;
	pthread_t t;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	must(!pthread_create(&t, NULL, waiter, NULL));
	step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
	must(!pthread_join(t, NULL));
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	set_nonblock(fd, false);
	send_str(fd, "data");
	want_str(fd, "back");
	close(fd);
}

SOCK_ROLES(server, client)
