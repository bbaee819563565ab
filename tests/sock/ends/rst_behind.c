// SPDX-License-Identifier: MIT
/*
 * The peer resets while much that it sent lies unread: the reader gets everything that had arrived, whoever writes meanwhile, and then the error,
 * unless a writer had it. Also when less had arrived than was sent, since the reader has little room.
 */
#include "../sock.h"

#include <linux/sockios.h>

#define ROOM	(4 << 20)
#define SMALL	4096
#define MUCH	(64 << 10)

/* As much as goes in unread, at most `most`. Returns what has arrived: SIOCOUTQ is the rest. */
static uint64_t fill(int fd, uint64_t most)
{
	static uint8_t b[65536];
	uint64_t total = 0;
	int unsent = 0;

	set_nonblock(fd, true);
	for (int quiet = 0; quiet < 4;) {
		size_t n = most - total < sizeof(b) ? (size_t)(most - total) : sizeof(b);
		ssize_t r;

		t_fill(b, n, total, 1);
		r = n ? send(fd, b, n, MSG_NOSIGNAL) : -1;
		if (r > 0)
			total += (uint64_t)r, quiet = 0;
		else
			t_nap(50), quiet++;
	}
	ok(ioctl(fd, SIOCOUTQ, &unsent));
	return total > (uint64_t)unsent ? total - (uint64_t)unsent : 0;
}

static void server(void)
{
	struct linger lg = { 1, 0 };
	int lfd = t_listen(0);

	for (int i = 0; i < 3; i++) {
		int fd = t_accept(lfd);
		uint64_t most, there;

		want_str(fd, "question");
		send_str(fd, "answer");
		t_get(&most, sizeof(most));
		there = fill(fd, most);
		t_put(&there, sizeof(there));
		t_sync();
		ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		close(fd);
		t_sync();
	}
	close(lfd);
}

static int sock;
static _Atomic pid_t tid;

static void *writing(void *arg)
{
	static char b[1 << 20];

	tid = gettid();
	while (send(sock, b, sizeof(b), MSG_NOSIGNAL) > 0)
		;
	say("writer %s", t_errname(errno));
	return NULL;
}

static void reset_behind(const struct sockaddr_storage *ss, int room, bool writer)
{
	static uint8_t b[99991];
	uint64_t most, there, got = 0;
	pthread_t t;
	ssize_t r;
	int fd = t_socket();

	set_int(fd, SOL_SOCKET, SO_RCVBUF, room);
	most = room == SMALL ? MUCH : (uint64_t)get_int(fd, SOL_SOCKET, SO_RCVBUF) * 3 / 8;
	ok(connect(fd, (const void *)ss, t_salen(ss)));
	t_begins(fd);
	send_str(fd, "question");
	want_str(fd, "answer");
	t_put(&most, sizeof(most));
	t_get(&there, sizeof(there));
	sock = fd;
	tid = 0;
	if (writer) {
		must(!pthread_create(&t, NULL, writing, NULL));
		while (!tid)
			t_nap(1);
		t_asleep(tid);
	}
	t_sync();
	if (writer)
		must(!pthread_join(t, NULL));
	t_sync();
	t_nap(150);	/* it comes before anything is read, most times */
	while ((r = recv(fd, b, sizeof(b), 0)) > 0) {
		t_same(b, (size_t)r, got, 1);
		got += (uint64_t)r;
	}
	step("at the end", r);
	if (got < there)
		fprintf(stderr, "%llu octets of %llu\n", (unsigned long long)got, (unsigned long long)there);
	must(got && got >= there);
	step("then", recv(fd, b, 1, 0));
	step("send", send(fd, b, 1, MSG_NOSIGNAL));
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	reset_behind(&ss, ROOM, false);
	reset_behind(&ss, ROOM, true);
	reset_behind(&ss, SMALL, false);
}

SOCK_ROLES(server, client)
