// SPDX-License-Identifier: MIT
/*
 * Bursts of small sends: all of them arrive, in order, whatever the program does then: it receives, polls, sends much, forks, writes behind its
 * library's back, shuts down, closes, is killed, or computes, which here is to wait in a call that no library sees.
 */
#include "../sock.h"

#define SENDS 400
#define MUCH (64 * 60000u)

struct note {
	uint64_t sent;
	char what;	/* a: answer on the connection; c: here; r: read; s: begin to read late; e: the end follows */
};

static uint8_t buf[1 << 17];
static uint64_t sent;

static void put(int fd, size_t n)
{
	t_fill(buf, n, sent, 5);
	must(send(fd, buf, n, MSG_NOSIGNAL) == (ssize_t)n);
	sent += n;
}

static void burst(int fd)
{
	for (int i = 0; i < SENDS; i++)
		put(fd, i % 7 == 6 ? 1 + (size_t)i * 5 : 1 + (size_t)i % 64);
}

static void note_at(uint64_t pos, char what)
{
	struct note n = { pos, what };

	t_put(&n, sizeof(n));
}

static void note(char what)
{
	note_at(sent, what);
}

/* As large as those that are gathered may be, and larger ones between them; who reads begins at once. */
static void large(int fd)
{
	size_t sum = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < 96; i++) {
			size_t n = i % 32 == 31 ? 16385 : 4096 + (size_t)(i % 4) * 4096;

			sum += n;
			if (pass)
				put(fd, n);
		}
		if (!pass)
			note_at(sent + sum, 'r');
	}
}

static void computes(int fd)
{
	char c;

	note('c');
	must(t_get(&c, 1) == 1 && c == 'c');
}

static void receives(int fd)
{
	char c;

	note('a');
	must(recv(fd, &c, 1, 0) == 1);
}

static void polls(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = ok(epoll_create1(0));

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	note('a');
	must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
	receives(fd);
	burst(fd);
	note('a');
	must(t_poll(fd, POLLIN, T_WAIT_MS) & POLLIN);
	must(recv(fd, buf, 2, MSG_WAITALL) == 2);
	close(ep);
	burst(fd);
	computes(fd);
}

static void sends_much(int fd)
{
	put(fd, sizeof(buf));
	burst(fd);
	put(fd, 5000);
	receives(fd);
	large(fd);
	computes(fd);
	large(fd);
	receives(fd);
	for (int i = 0; i < 4; i++) {
		burst(fd);
		set_int(fd, IPPROTO_TCP, TCP_NODELAY, i % 2);
		computes(fd);
	}
}

static void forks(int fd)
{
	pid_t pid = ok(fork());

	if (!pid) {
		put(fd, 100);
		_exit(0);
	}
	must(waitpid(pid, NULL, 0) == pid);
	sent += 100;
	burst(fd);
	large(fd);
	computes(fd);
}

static void writes_raw(int fd)
{
	t_fill(buf, 100, sent, 5);
	must(t_sys(SYS_write, fd, buf, 100) == 100);
	sent += 100;
	computes(fd);
	burst(fd);
	receives(fd);
}

/* More than anybody has room for, before the other end begins to read. */
static void overtakes(int fd)
{
	note_at(sent + MUCH, 's');
	for (uint64_t end = sent + MUCH; sent < end; )
		put(fd, 64);
	computes(fd);
}

static void overtakes_polling(int fd)
{
	uint64_t end = sent + MUCH;

	set_nonblock(fd, true);
	note_at(end, 's');
	while (sent < end) {
		ssize_t n;

		t_fill(buf, 64, sent, 5);
		n = send(fd, buf, end - sent < 64 ? (size_t)(end - sent) : 64, MSG_NOSIGNAL);
		if (n < 0) {
			must(errno == EAGAIN);
			must(t_poll(fd, POLLOUT, T_WAIT_MS) & POLLOUT);
			continue;
		}
		sent += (uint64_t)n;
	}
	computes(fd);
	set_nonblock(fd, false);
}

static void shuts(int fd)
{
	ok(shutdown(fd, SHUT_WR));
	note('e');
	computes(fd);
}

static void is_killed(int fd)
{
	note('e');
	kill(getpid(), SIGKILL);
}

static void closes(int fd)
{
	ok(close(fd));
	note('e');
	computes(fd);
}

static const struct {
	const char *name;
	void (*then)(int fd);
	bool ends;
} all[] = {
	{ "receives", receives, false }, { "polls", polls, false }, { "sends much", sends_much, false }, { "computes", computes, false },
	{ "forks", forks, false }, { "writes raw", writes_raw, false }, { "overtakes", overtakes, false },
	{ "overtakes, polling", overtakes_polling, false }, { "shuts down", shuts, true }, { "closes", closes, true }, { "is killed", is_killed, true },
};
#define N (sizeof(all) / sizeof(all[0]))

static void read_to(int fd, uint64_t *pos, uint64_t end)
{
	while (*pos < end) {
		ssize_t n = ok(recv(fd, buf, end - *pos < sizeof(buf) ? (size_t)(end - *pos) : sizeof(buf), 0));

		must(n > 0);
		t_same(buf, (size_t)n, *pos, 5);
		*pos += (uint64_t)n;
	}
}

static void serve(int fd, bool killed)
{
	uint64_t pos = 0;
	struct note n;

	for (;;) {
		must(t_get(&n, sizeof(n)) == sizeof(n));
		if (n.what == 's')
			t_nap(100);
		read_to(fd, &pos, n.sent);
		if (n.what == 'e')
			want_eof(fd);
		if (n.what == 'e' && killed)
			return;
		if (n.what == 'a')
			must(send(fd, "a", 1, 0) == 1);
		if (n.what == 'c')
			t_put("c", 1);
		if (n.what == 'q')
			return;
	}
}

static void server(void)
{
	int l = t_listen(0);

	for (size_t i = 0; i < N; i++) {
		int fd = t_accept(l);

		serve(fd, all[i].then == is_killed);
		close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (size_t i = 0; i < N; i++) {
		pid_t pid = all[i].then == is_killed ? ok(fork()) : 0;
		int fd;

		if (pid) {
			must(waitpid(pid, NULL, 0) == pid);
			continue;
		}
		fd = t_connect_to(&ss);
		sent = 0;
		burst(fd);
		all[i].then(fd);
		say("%s: all of it", all[i].name);
		note('q');
		if (all[i].then != closes)
			close(fd);
	}
}

SOCK_ROLES(server, client)
