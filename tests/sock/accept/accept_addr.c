// SPDX-License-Identifier: MIT
/* The address accept() gives is the client's own one; a short buffer is filled and the full length told. */
#include "../sock.h"

static void server(void)
{
	struct sockaddr_storage a, want;
	struct sockaddr_storage small;
	int l = t_listen(0), fd;
	socklen_t len = sizeof(a);

	memset(&a, 0, sizeof(a));
	fd = (int)ok(accept(l, (void *)&a, &len));
	t_get(&want, sizeof(want));
	must(len == t_salen(&want));
	must(!memcmp(&a, &want, 8));
	close(fd);

	memset(&small, 0xee, sizeof(small));
	len = 4;
	fd = (int)ok(accept(l, (void *)&small, &len));
	t_get(&want, sizeof(want));
	say("truncated: full length told %d", len == t_salen(&want));
	must(!memcmp(&small, &want, 4));
	must(((uint8_t *)&small)[4] == 0xee);
	close(fd);

	len = (socklen_t)-1;
	step("negative length", accept(l, (void *)&small, &len));
}

static void client(void)
{
	struct sockaddr_storage ss, me;
	socklen_t len;

	t_peer(&ss);
	for (int i = 0; i < 3; i++) {
		int fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));

		ok(connect(fd, (void *)&ss, t_salen(&ss)));
		len = sizeof(me);
		ok(getsockname(fd, (void *)&me, &len));
		if (i < 2) {
			t_put(&me, sizeof(me));
			want_eof(fd);
		}
		close(fd);
	}
}

SOCK_ROLES(server, client)
