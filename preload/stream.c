/* SPDX-License-Identifier: MIT */
/*
 * The pool of streams. A slot and the address of its page are never unmapped: a thread that still reads through a
 * stream which another thread closes meets a page of zeros, never a fault.
 */
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "proto/ctlmsg.h"
#include "proto/page.h"
#include "daemon.h"
#include "fdtab.h"
#include "holders.h"
#include "kinds.h"
#include "lock.h"
#include "map.h"
#include "opts.h"
#include "paths/carrier.h"
#include "paths/rings.h"
#include "proc.h"
#include "reg.h"
#include "stream.h"
#include "sys.h"

struct chunk {
	struct iw_stream s[IW_STREAMS_CHUNK];	/* first: is what iw_stream_chunks points to */
	uint32_t next[IW_STREAMS_CHUNK];	/* free list: index + 1 */
};

_Atomic bool iw_streams_near;
_Atomic uint32_t iw_streams_carried;
struct iw_stream *_Atomic iw_stream_chunks[IW_STREAMS_CHUNKS];
static uint8_t *pages[IW_STREAMS_CHUNKS];
static size_t stride;			/* from page to page: the kernel's own may be larger than ours */
static uint32_t nchunks, free_head;	/* under iw_tab_lock; free_head: index + 1 */

static uint32_t *next_of(uint32_t idx)
{
	struct chunk *c = (struct chunk *)iw_stream_chunks[idx / IW_STREAMS_CHUNK];

	return &c->next[idx % IW_STREAMS_CHUNK];
}

static void *map(void *at, size_t len, int prot, int flags, int fd)
{
	long r = IW_SYS(mmap, at, len, prot, flags, fd, 0);

	return r < 0 && r > -4096 ? NULL : (void *)r;
}

/* One more chunk. Address space only: memory comes with use. */
static bool grow(void)
{
	struct chunk *c;
	uint8_t *p;

	if (nchunks == IW_STREAMS_CHUNKS)
		return false;
	stride = getauxval(AT_PAGESZ);
	c = map(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	p = map(NULL, IW_STREAMS_CHUNK * stride, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (!c || !p) {
		if (c)
			IW_SYS(munmap, c, sizeof(*c));
		return false;
	}
	for (uint32_t i = 0; i < IW_STREAMS_CHUNK; i++)
		c->next[i] = i + 1 < IW_STREAMS_CHUNK ? nchunks * IW_STREAMS_CHUNK + i + 2 : 0;
	pages[nchunks] = p;
	iw_stream_chunks[nchunks] = c->s;
	free_head = nchunks++ * IW_STREAMS_CHUNK + 1;
	return true;
}

static int slot_get(void)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	int idx = -1;

	if (free_head || grow()) {
		idx = (int)free_head - 1;
		free_head = *next_of(idx);
	}
	iw_unlock(&iw_tab_lock, sigs);
	return idx;
}

static void slot_put(uint32_t idx)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	*next_of(idx) = free_head;
	free_head = idx + 1;
	iw_unlock(&iw_tab_lock, sigs);
}

static uint8_t *slot_page(uint32_t idx)
{
	return pages[idx / IW_STREAMS_CHUNK] + (size_t)(idx % IW_STREAMS_CHUNK) * stride;
}

static uint32_t slot_of(const struct iw_stream *s)
{
	struct iw_stream *c;

	for (uint32_t i = 0; i < IW_STREAMS_CHUNKS && (c = iw_stream_chunks[i]); i++)
		if (s >= c && s < c + IW_STREAMS_CHUNK)
			return i * IW_STREAMS_CHUNK + (uint32_t)(s - c);
	return 0;
}

uint32_t iw_stream_word(const struct iw_stream *s)
{
	return iw_word_make(IW_FD_STREAM, slot_of(s));
}

struct iw_stream *iw_stream_new(const struct iw_ctl_stream *m, int segment, int carrier, uint64_t conn_id)
{
	struct iw_stream *s = NULL;
	struct stat st;
	void *p;
	int idx;

	if (IW_SYS(fstat, segment, &st) < 0 || st.st_size < (off_t)IW_PAGE_SIZE || m->end > 1)
		goto out;	/* a short segment would be a SIGBUS later */
	idx = slot_get();
	if (idx < 0)
		goto out;
	p = map(slot_page((uint32_t)idx), IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, segment);
	if (!p) {	/* what stands in it is no matter: the client of a LOCAL stream has had it before us */
		slot_put((uint32_t)idx);
		goto out;
	}
	s = iw_stream_at((uint32_t)idx);
	s->page = p;
	atomic_store(&s->path, &iw_carrier);
	memset(&s->refs, 0, sizeof(*s) - offsetof(struct iw_stream, refs));	/* the slot's last stream may still have a reader */
	atomic_store(&s->flags, m->flags);
	if (m->flags & IW_PAGE_NEAR)
		atomic_store(&iw_streams_near, true);
	iw_stream_carried(s, !(m->flags & IW_PAGE_LOCAL));
	s->end = m->end;
	s->local = m->local;
	s->peer = m->peer;
	s->stream_id = m->stream_id;
	s->conn_id = conn_id;
	s->ino = iw_fd_ino(carrier);
	s->segment = (uint64_t)st.st_size;
	atomic_store(&s->ctl_gen, iw_daemon_gen());
	atomic_store(&s->refs, 1);
out:
	IW_SYS(close, segment);
	return s;
}

void iw_stream_get(struct iw_stream *s)
{
	atomic_fetch_add(&s->refs, 1);
}

bool iw_stream_alone(struct iw_stream *s, const int *fds, unsigned int n)
{
	return s->holder && iw_holders_alone(s->holder, fds, n);
}

/*
 * The last descriptor of this process goes. Only when nobody else can have the stream is it the end of it for a peer of this host, whose library may
 * take the other end of the carrier behind this only; otherwise the kernel tells when the last holder closes.
 */
static void mark_closed(struct iw_stream *s)
{
	struct iw_page_end *peer = &s->page->end[!s->end];

	if (!iw_stream_paired(s) || !iw_stream_alone(s, NULL, 0))
		return;
	if (atomic_load(&s->sopt) & IW_SOPT_LINGER0) {
		atomic_store(&peer->close_errno, ECONNRESET);
		atomic_store(&peer->close_state, IW_CLOSE_RESET);
	}
	atomic_fetch_or(&iw_stream_end(s)->shut, IW_SHUT_CLOSED);
}

void iw_stream_reset(struct iw_stream *s, int fd)
{
	char unread[4096];

	for (int i = 0; i < 2; i++) {
		atomic_store(&s->page->end[i].close_errno, ECONNRESET);
		atomic_store(&s->page->end[i].close_state, IW_CLOSE_RESET);
	}
	IW_SYS(shutdown, fd, SHUT_RDWR);
	while (IW_SYS(recvfrom, fd, unread, sizeof(unread), MSG_DONTWAIT, NULL, NULL) > 0)
		;	/* octets before these are lost; none comes behind them any more */
}

static void page_clear(uint32_t idx)
{
	map(slot_page(idx), IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1);
}

void iw_stream_apart(struct iw_stream *s)
{
	page_clear(slot_of(s));
}

void iw_stream_put(struct iw_stream *s, bool closing)
{
	uint32_t idx;

	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	if (closing) {
		mark_closed(s);
		if (s->ctl_gen == iw_daemon_gen())
			iw_daemon_tell_id(IW_CTL_CLOSED, s->conn_id, 0, -1);
	}
	iw_rings_gone(s);
	iw_stream_carried(s, false);
	if (s->holder)
		iw_holders_put(s->holder);
	idx = slot_of(s);
	page_clear(idx);
	slot_put(idx);
}

bool iw_stream_verify(int fd, struct iw_stream *s)
{
	uint32_t w = iw_word(fd);

	if (iw_word_kind(w) == IW_FD_STREAM && iw_fd_ino(fd) == s->ino && iw_stream_of(fd) == s)
		return true;
	if (iw_in_vfork())
		return false;
	if (iw_word_kind(w) == IW_FD_STREAM && w == iw_stream_word(s))
		iw_fd_forget(fd);
	return false;
}

int iw_stream_own(struct iw_stream *s, int fd)
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_stream r;
	int fds[2], ret;

	if (!iw_daemon_ready())
		return -ENOTCONN;
	if (atomic_load(&s->ctl_gen) == iw_daemon_gen())
		return 0;
	iw_ctl_init(&m, IW_CTL_OPEN, 0);
	m.conn_id = s->conn_id;
	m.fd = fd;
	m.pad = 0;
	ret = iw_daemon_ask(&m, fd, &r, sizeof(r), fds, 0);
	if (ret)
		return ret;
	iw_daemon_fds_close(fds);
	if (r.result || r.stream_id != s->stream_id)
		return -ENOTCONN;
	atomic_store(&s->ctl_gen, iw_daemon_gen());
	return 0;
}

static void forget(int fd, uint32_t w)
{
	struct iw_stream *s = iw_stream_at(iw_word_val(w));

	iw_reg_forget(fd);
	iw_map_close(fd, s);
	iw_holders_settle(s->holder, fd, atomic_load(&s->refs) == 1);
	iw_stream_put(s, true);
}

static uint32_t dup_stream(int fd, uint32_t w)
{
	iw_stream_get(iw_stream_at(iw_word_val(w)));
	return w;
}

const struct iw_kind_ops iw_stream_ops = {
	.forget = forget,
	.dup = dup_stream,
};
