// SPDX-License-Identifier: MIT
/* An epoll set that is filled, changed and emptied by an io_uring, as libuv does: no call of libc names what is in it. */
#include <linux/io_uring.h>
#include <sys/mman.h>

#include "../sock.h"

#define ROUNDS	2000
#define ENTRIES	4

static struct ring {
	int fd;
	struct io_uring_params p;
	uint8_t *sq, *cq;
	struct io_uring_sqe *sqes;
} r;

static void *map(size_t n, uint64_t at)
{
	void *m = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r.fd, (off_t)at);

	must(m != MAP_FAILED);
	return m;
}

static void ring_open(void)
{
	r.fd = (int)ok(t_sys(SYS_io_uring_setup, ENTRIES, &r.p));
	r.sq = map(r.p.sq_off.array + r.p.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
	r.cq = map(r.p.cq_off.cqes + r.p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	r.sqes = map(r.p.sq_entries * sizeof(*r.sqes), IORING_OFF_SQES);
}

static _Atomic uint32_t *word(uint8_t *ring, uint32_t off)
{
	return (_Atomic uint32_t *)(void *)(ring + off);
}

/* What epoll_ctl() would return, or -errno. */
static int ctl(int ep, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = 0x1122334455667788u };
	uint32_t tail = *word(r.sq, r.p.sq_off.tail), i = tail & (r.p.sq_entries - 1), head = *word(r.cq, r.p.cq_off.head);
	struct io_uring_cqe *cqes = (struct io_uring_cqe *)(void *)(r.cq + r.p.cq_off.cqes);
	int res;

	r.sqes[i] = (struct io_uring_sqe){ .opcode = IORING_OP_EPOLL_CTL, .fd = ep, .off = (uint64_t)fd, .len = (uint32_t)op, .addr = (uintptr_t)&ev };
	word(r.sq, r.p.sq_off.array)[i] = i;
	*word(r.sq, r.p.sq_off.tail) = tail + 1;
	ok(t_sys(SYS_io_uring_enter, r.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
	must(*word(r.cq, r.p.cq_off.tail) != head);
	res = cqes[head & (r.p.cq_entries - 1)].res;
	*word(r.cq, r.p.cq_off.head) = head + 1;
	return res;
}

static int wait_for(int ep, uint32_t events)
{
	struct epoll_event ev = { 0 };

	must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
	must(ev.data.u64 == 0x1122334455667788u);
	return ev.events == events ? 0 : (int)ev.events;
}

static int begin(int fd)
{
	int ep = (int)ok(epoll_create1(EPOLL_CLOEXEC));

	ring_open();
	step("add", ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN));
	step("again", -ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN));
	return ep;
}

static void end(int ep, int fd)
{
	struct epoll_event ev;

	step("mod", ctl(ep, EPOLL_CTL_MOD, fd, EPOLLOUT));
	step("out", wait_for(ep, EPOLLOUT));
	step("del", ctl(ep, EPOLL_CTL_DEL, fd, 0));
	step("nothing", epoll_wait(ep, &ev, 1, 0));
	close(ep);
	close(r.fd);
}

static void server(int fd)
{
	int ep = begin(fd);
	char b[64];

	for (int i = 0; i < ROUNDS; i++) {
		must(!wait_for(ep, EPOLLIN));
		must(recv(fd, b, sizeof(b), MSG_DONTWAIT) == 5);
		send_all(fd, b, 5);
	}
	say("all came");
	t_sync();
	end(ep, fd);
	t_sync();
	close(fd);
}

static void client(int fd)
{
	int ep = begin(fd);
	char b[64];

	for (int i = 0; i < ROUNDS; i++) {
		send_all(fd, "hello", 5);
		must(!wait_for(ep, EPOLLIN));
		must(recv(fd, b, sizeof(b), MSG_DONTWAIT) == 5);
	}
	say("all came back");
	t_sync();
	end(ep, fd);
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
