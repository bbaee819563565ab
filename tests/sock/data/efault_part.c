// SPDX-License-Identifier: MIT
/* Memory of which a part is bad: what lies before it within the same piece is neither sent nor received, what was sent or received before counts. */
#include "../sock.h"

#define BIG	(1u << 20)
#define GOOD	(200u << 10)

static char b[16];

/* The last n octets that can be read and written, before some that cannot. */
static char *edge(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED);
	ok(mprotect(p + page, page, PROT_NONE));
	return p + page - n;
}

static void server(int fd)
{
	struct iovec v[2] = { { b, 2 }, { (void *)16, 6 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	uint64_t n;

	t_readable(fd, 8);
	step("readv in part", readv(fd, v, 2));
	step("recvmsg in part", recvmsg(fd, &m, 0));
	step("recvmsg MSG_PEEK in part", recvmsg(fd, &m, MSG_PEEK));
	step("recvmsg MSG_WAITALL in part", recvmsg(fd, &m, MSG_WAITALL));
	step("recv over the edge", recv(fd, edge(4), 8, 0));
	step("MSG_WAITALL over the edge", recv(fd, edge(4), 8, MSG_WAITALL));
	step("recv before the edge", recv(fd, edge(4), 4, 0));
	t_readable(fd, 4);
	step("recv of what there is", recv(fd, edge(6), 16, 0));
	t_sync();
	t_readable(fd, 2);
	step("MSG_DONTWAIT", recv(fd, edge(2), 16, MSG_DONTWAIT));
	t_sync();
	t_get(&n, sizeof(n));
	recv_pattern(fd, n, 4096, 1);
	want_str(fd, "good");
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct iovec v[2] = { { b, 2 }, { (void *)16, 6 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	uint64_t sum = 0;
	ssize_t n;
	char *p;

	send_str(fd, "12345678");
	t_sync();
	send_str(fd, "12");
	t_sync();
	step("writev in part", writev(fd, v, 2));
	step("sendmsg in part", sendmsg(fd, &m, 0));
	step("send over the edge", send(fd, edge(100), 200, 0));
	p = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(p != MAP_FAILED);
	t_fill(p, GOOD, 0, 1);
	ok(mprotect(p + GOOD, BIG - GOOD, PROT_NONE));
	n = send(fd, p, BIG, 0);
	say("send of much: %s", n > 0 && n <= GOOD ? "a part" : "?");
	sum += (uint64_t)n;
	t_put(&sum, sizeof(sum));
	send_str(fd, "good");
	close(fd);
}

SOCK_PAIR(server, client)
