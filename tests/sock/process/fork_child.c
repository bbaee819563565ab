// SPDX-License-Identifier: MIT
/* The child uses the connection, the parent closes its copy: no end of stream before the child is done. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0), st;

	for (int i = 0; i < 3; i++) {
		int fd = t_accept(l);
		pid_t p = (pid_t)ok(fork());

		if (!p) {
			close(l);
			want_str(fd, "ask");
			send_str(fd, "answer");
			want_eof(fd);
			_exit(0);
		}
		close(fd);
		ok(waitpid(p, &st, 0));
		say("child %d", st);
	}
}

static void client(void)
{
	struct sockaddr_storage ss, s;
	socklen_t l;

	t_peer(&ss);
	for (int i = 0; i < 3; i++) {
		int fd = t_connect_to(&ss), st;
		pid_t p = (pid_t)ok(fork());

		if (!p) {
			l = sizeof(s);
			must(!getpeername(fd, (void *)&s, &l) && t_port(&s) == t_port(&ss));
			send_str(fd, "ask");
			want_str(fd, "answer");
			_exit(0);
		}
		ok(waitpid(p, &st, 0));
		say("child %d", st);
		say_poll("parent's copy", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
		close(fd);
	}
}

SOCK_ROLES(server, client)
