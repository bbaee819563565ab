// SPDX-License-Identifier: MIT
/* With SA_RESTART a blocked recv and accept go on; with a receive timeout recv is interrupted all the same. */
#include "../sock.h"

static volatile sig_atomic_t n;

static void on_alarm(int sig)
{
	int e = errno;

	if (++n == 3)
		t_put("s", 1);	/* tell the client to go on */
	errno = e;
}

static void ticks(int ms)
{
	struct itimerval it = { { 0, ms * 1000 }, { 0, ms * 1000 } };
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };

	n = 0;
	ok(sigaction(SIGALRM, &sa, NULL));
	ok(setitimer(ITIMER_REAL, &it, NULL));
}

static void server(void)
{
	struct timeval tv = { 3, 0 };
	int l = t_listen(0), fd;
	char b[4];

	ticks(20);
	fd = accept(l, NULL, NULL);
	say("accept %s", fd < 0 ? t_errname(errno) : "ok");
	ticks(0);
	ticks(20);
	step("recv", recv(fd, b, 1, 0));
	ticks(0);
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	ticks(20);
	step("recv with timeout", recv(fd, b, 1, 0));
	ticks(0);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	char c;
	int fd;

	t_peer(&ss);
	t_get(&c, 1);
	fd = t_connect_to(&ss);
	t_get(&c, 1);
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
}

SOCK_ROLES(server, client)
