// SPDX-License-Identifier: MIT
/* What the socket says it is: type, domain, protocol, not listening, no error, a socket inode, no unix credentials. */
#include "../sock.h"

static void show(int fd)
{
	struct { pid_t pid; uid_t uid; gid_t gid; } uc;
	struct stat st;
	socklen_t l = sizeof(uc);

	say("type %d domain %d protocol %d", get_int(fd, SOL_SOCKET, SO_TYPE), get_int(fd, SOL_SOCKET, SO_DOMAIN),
	    get_int(fd, SOL_SOCKET, SO_PROTOCOL));
	say("acceptconn %d error %d", get_int(fd, SOL_SOCKET, SO_ACCEPTCONN), get_int(fd, SOL_SOCKET, SO_ERROR));
	ok(fstat(fd, &st));
	say("socket inode %d", S_ISSOCK(st.st_mode));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &uc, &l))
		say("SO_PEERCRED %s", t_errname(errno));
	else
		say("SO_PEERCRED pid %d uid %d", uc.pid, (int)uc.uid);
}

static void server(int fd)
{
	int l = t_socket();

	show(fd);
	ok(listen(l, 1));
	say("listener acceptconn %d", get_int(l, SOL_SOCKET, SO_ACCEPTCONN));
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	show(fd);
	close(fd);
}

SOCK_PAIR(server, client)
