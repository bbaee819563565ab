// SPDX-License-Identifier: MIT
/* The socket exists before a fork, the child connects it and the parent closes its copy. */
#include "../sock.h"

static void server(void)
{
	int fd = (int)ok(accept(t_listen(0), NULL, NULL));

	want_str(fd, "from the child");
	send_str(fd, "ok");
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd, st;
	pid_t p;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	p = (pid_t)ok(fork());
	if (!p) {
		ok(connect(fd, (void *)&ss, t_salen(&ss)));
		send_str(fd, "from the child");
		want_str(fd, "ok");
		_exit(0);
	}
	close(fd);
	ok(waitpid(p, &st, 0));
	say("child %d", st);
}

SOCK_ROLES(server, client)
