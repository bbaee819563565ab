/* SPDX-License-Identifier: MIT */
/*
 * The pool of streams. A slot and the address of its page are never unmapped: a thread that still reads through a
 * stream which another thread closes meets a page of zeros, never a fault.
 */
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core.h"

#define CHUNK	1024u	/* streams per chunk */
#define CHUNKS	256u

struct chunk {
	struct iw_stream s[CHUNK];
	uint32_t next[CHUNK];		/* free list: index + 1 */
};

static struct chunk *_Atomic chunks[CHUNKS];
static uint8_t *pages[CHUNKS];
static size_t stride;			/* from page to page: the kernel's own may be larger than ours */
static uint32_t nchunks, free_head;	/* under iw_tab_lock; free_head: index + 1 */

struct iw_stream *iw_stream_at(uint32_t idx)
{
	return idx < CHUNK * CHUNKS && chunks[idx / CHUNK] ? &chunks[idx / CHUNK]->s[idx % CHUNK] : NULL;
}

struct iw_stream *iw_stream_of(int fd)
{
	uint32_t w = iw_word(fd);

	return iw_word_kind(w) == IW_FD_STREAM ? iw_stream_at(iw_word_val(w)) : NULL;
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

	if (nchunks == CHUNKS)
		return false;
	stride = getauxval(AT_PAGESZ);
	c = map(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	p = map(NULL, CHUNK * stride, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (!c || !p) {
		if (c)
			IW_SYS(munmap, c, sizeof(*c));
		return false;
	}
	for (uint32_t i = 0; i < CHUNK; i++)
		c->next[i] = i + 1 < CHUNK ? nchunks * CHUNK + i + 2 : 0;
	pages[nchunks] = p;
	chunks[nchunks] = c;
	free_head = nchunks++ * CHUNK + 1;
	return true;
}

static int slot_get(void)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	int idx = -1;

	if (free_head || grow()) {
		idx = (int)free_head - 1;
		free_head = chunks[idx / CHUNK]->next[idx % CHUNK];
	}
	iw_unlock(&iw_tab_lock, sigs);
	return idx;
}

static void slot_put_locked(uint32_t idx)
{
	chunks[idx / CHUNK]->next[idx % CHUNK] = free_head;
	free_head = idx + 1;
}

static void slot_put(uint32_t idx)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	slot_put_locked(idx);
	iw_unlock(&iw_tab_lock, sigs);
}

static uint8_t *slot_page(uint32_t idx)
{
	return pages[idx / CHUNK] + (size_t)(idx % CHUNK) * stride;
}

static uint32_t slot_of(const struct iw_stream *s)
{
	for (uint32_t i = 0; i < CHUNKS && chunks[i]; i++)
		if (s >= chunks[i]->s && s < chunks[i]->s + CHUNK)
			return i * CHUNK + (uint32_t)(s - chunks[i]->s);
	return 0;
}

uint32_t iw_stream_word(const struct iw_stream *s)
{
	return iw_word_make(IW_FD_STREAM, slot_of(s));
}

static bool page_good(const struct iw_page *p, const struct iw_ctl_stream *m)
{
	return p->magic == IW_PAGE_MAGIC && p->version == IW_PAGE_VERSION && p->stream_id == m->stream_id;
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
	if (!p || !page_good(p, m)) {
		slot_put((uint32_t)idx);
		goto out;
	}
	s = iw_stream_at((uint32_t)idx);
	s->page = p;
	memset(&s->page + 1, 0, sizeof(*s) - sizeof(s->page));	/* the slot's last stream may still have a reader */
	s->flags = m->flags;
	s->end = m->end;
	s->stream_id = m->stream_id;
	s->conn_id = conn_id;
	s->serial = atomic_load(&iw_forks);
	s->ino = iw_fd_ino(carrier);
	atomic_store(&s->ctl_gen, iw_ctl_gen());
	atomic_store(&s->refs, 1);
out:
	IW_SYS(close, segment);
	return s;
}

void iw_stream_get(struct iw_stream *s)
{
	atomic_fetch_add(&s->refs, 1);
}

/*
 * The last descriptor of this process goes. Only when no fork can have given the stream to somebody else is it the end of
 * the stream for a LOCAL peer; otherwise the kernel tells when the last holder closes.
 */
static void mark_closed(struct iw_stream *s)
{
	struct iw_page_end *peer = &s->page->end[!s->end];

	if (!(s->page->flags & IW_PAGE_LOCAL) || s->serial != atomic_load(&iw_forks))
		return;
	if (atomic_load(&s->sopt) & IW_SOPT_LINGER0) {
		atomic_store(&peer->close_errno, ECONNRESET);
		atomic_store(&peer->close_state, IW_CLOSE_RESET);
	}
	atomic_fetch_or(&iw_stream_end(s)->shut, IW_SHUT_CLOSED);
}

static void page_clear(uint32_t idx)
{
	map(slot_page(idx), IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1);
}

void iw_stream_put_locked(struct iw_stream *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	page_clear(slot_of(s));
	slot_put_locked(slot_of(s));
}

void iw_stream_put(struct iw_stream *s, bool closing)
{
	uint32_t idx;

	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	if (closing) {
		mark_closed(s);
		if (s->ctl_gen == iw_ctl_gen())
			iw_tell_id(IW_CTL_CLOSED, s->conn_id, 0, -1);
	}
	idx = slot_of(s);
	page_clear(idx);
	slot_put(idx);
}

int iw_stream_own(struct iw_stream *s, int fd)
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_stream r;
	int fds[2], ret;

	if (!iw_ctl_ready())
		return -ENOTCONN;
	if (atomic_load(&s->ctl_gen) == iw_ctl_gen())
		return 0;
	iw_ctl_init(&m, IW_CTL_OPEN, 0);
	m.conn_id = s->conn_id;
	m.fd = fd;
	m.pad = 0;
	ret = iw_rpc(&m, fd, &r, sizeof(r), fds);
	if (ret)
		return ret;
	iw_rpc_fds_close(fds);
	if (r.result || r.stream_id != s->stream_id)
		return -ENOTCONN;
	atomic_store(&s->ctl_gen, iw_ctl_gen());
	return 0;
}
