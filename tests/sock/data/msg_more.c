// SPDX-License-Identifier: MIT
/* MSG_MORE joins pieces; nothing is lost whether or not the last piece comes at once. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "one two three");
	want_str(fd, "late");
	want_eof(fd);
	close(fd);
	say("all there");
}

static void client(int fd)
{
	step("send more", send(fd, "one ", 4, MSG_MORE));
	step("send more", send(fd, "two ", 4, MSG_MORE));
	step("send", send(fd, "three", 5, 0));
	step("send more", send(fd, "late", 4, MSG_MORE));
	close(fd);
}

SOCK_PAIR(server, client)
