// SPDX-License-Identifier: MIT
/* What is sent after the peer's close or SHUT_RD is taken whole, however large: once after a close, always after SHUT_RD. */
#include "../sock.h"

#include <sys/sendfile.h>

#define SIZE	150000

static int next(int l, struct sockaddr_storage *ss)
{
	if (l >= 0)
		return t_accept(l);
	l = (int)ok(socket(ss->ss_family, SOCK_STREAM, 0));
	ok(set_int(l, SOL_SOCKET, SO_SNDBUF, 212992));	/* it has room for all of it at once */
	ok(connect(l, (void *)ss, t_salen(ss)));
	return l;
}

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 4; i++) {
		int fd = next(l, NULL);

		if (i & 1)
			ok(shutdown(fd, SHUT_RD));
		send_str(fd, "x");
		if (!(i & 1))
			close(fd);
		t_sync();
		t_sync();
		if (i & 1)
			close(fd);
	}
	close(l);
}

static void client(void)
{
	static char b[SIZE];
	struct sockaddr_storage ss;
	int f = (int)ok(memfd_create("file", MFD_CLOEXEC));

	signal(SIGPIPE, SIG_IGN);
	ok(ftruncate(f, SIZE));
	t_peer(&ss);
	for (int i = 0; i < 4; i++) {
		int fd = next(-1, &ss);
		off_t off = 0;

		want_str(fd, "x");
		if (!(i & 1))
			want_eof(fd);
		t_sync();
		say("after %s", i & 1 ? "SHUT_RD" : "close");
		if (i < 2) {
			set_nonblock(fd, i & 1);
			step("send", send(fd, b, SIZE, MSG_NOSIGNAL));
			set_nonblock(fd, false);
		} else {
			step("sendfile", sendfile(fd, f, &off, 4096));
			step("offset", off);
		}
		if (i & 1) {
			step("send", send(fd, b, 10, MSG_NOSIGNAL));
			step("sendfile", sendfile(fd, f, NULL, 100));
			step("its offset", lseek(f, 0, SEEK_CUR));
		} else {
			t_until(fd, POLLHUP);
			step("send", send(fd, b, 10, MSG_NOSIGNAL));
		}
		t_sync();
		close(fd);
	}
}

SOCK_ROLES(server, client)
