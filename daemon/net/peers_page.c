// SPDX-License-Identifier: MIT
/* The page of peers: what libraries read of them, and only we write. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/engine.h"
#include "locals.h"
#include "peers_page.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static struct iw_peers *page;
static int page_fd = -1;

int peers_fd(void)
{
	return page_fd;
}

/* ---- slots ---- */

static void slot_write(struct iw_peer_slot *s, const uint8_t ip[16], enum iw_peer_state state, enum iw_reason reason, uint64_t expires)
{
	uint32_t seq = atomic_load_explicit(&s->seq, memory_order_relaxed);
	uint64_t half[2];

	memcpy(half, ip, 16);
	atomic_store_explicit(&s->seq, seq + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&s->ip[0], half[0], memory_order_relaxed);
	atomic_store_explicit(&s->ip[1], half[1], memory_order_relaxed);
	atomic_store_explicit(&s->state, state, memory_order_relaxed);
	atomic_store_explicit(&s->reason, reason, memory_order_relaxed);
	atomic_store_explicit(&s->expires, expires, memory_order_relaxed);
	atomic_store_explicit(&s->seq, seq + 2, memory_order_release);
}

static bool slot_is(struct iw_peer_slot *s, const uint8_t ip[16])
{
	uint64_t half[2];

	memcpy(half, ip, 16);
	return s->ip[0] == half[0] && s->ip[1] == half[1];
}

/*
 * How gladly a slot is given up: 0 not at all. Readers may stop at a slot that was never used, so none is ever emptied. Of the loopback
 * addresses anybody can name 16 million; they come back when they are used.
 */
static unsigned int slot_worth(struct iw_peer_slot *s)
{
	uint64_t half[2] = { s->ip[0], s->ip[1] };
	uint8_t ip[16];

	if (s->state == IW_PEER_UNKNOWN)
		return s->ip[0] || s->ip[1] ? 3 : 4;
	if (s->state == IW_PEER_NEGATIVE)
		return s->expires <= engine_now_ms() ? 2 : 1;
	memcpy(ip, half, 16);
	return s->state == IW_PEER_LOCAL && iw_ip_loopback(ip) && !local_listed(ip) ? 2 : 0;
}

void peers_publish(const uint8_t ip[16], enum iw_peer_state state, enum iw_reason reason, unsigned int ttl_ms)
{
	uint32_t h = iw_addr_hash(ip, 0);
	struct iw_peer_slot *best = NULL;
	unsigned int worth = 0;

	if (!page)
		return;
	for (unsigned int i = 0; i < IW_PEERS_PROBE; i++) {
		struct iw_peer_slot *s = &page->slot[(h + i) % IW_PEERS_SLOTS];

		if (slot_is(s, ip)) {
			best = s;
			worth = 5;
			break;
		}
		if (slot_worth(s) > worth) {
			best = s;
			worth = slot_worth(s);
		}
	}
	if (!best || (state == IW_PEER_UNKNOWN && worth < 5))
		return;		/* full: the library asks each time, which is slower and still right */
	slot_write(best, ip, state, reason, ttl_ms ? engine_now_ms() + ttl_ms : 0);
}

/* ---- start and stop ---- */

int peers_page_start(void)
{
	size_t len = (sizeof(*page) + 4095) & ~(size_t)4095;
	int fd = memfd_create("iwsock-peers", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p = MAP_FAILED;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)len))
		p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* our mapping stays writable; nobody gets another one */
	if (p == MAP_FAILED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)) {
		int ret = -errno;

		if (p != MAP_FAILED)
			munmap(p, len);
		close(fd);
		return ret;
	}
	page = p;
	page_fd = fd;
	page->magic = IW_PEERS_MAGIC;
	page->version = 1;
	return 0;
}

void peers_page_stop(void)
{
	if (page)
		atomic_store(&page->dead, 1);
}
