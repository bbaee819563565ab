/* SPDX-License-Identifier: MIT */
/* Doubly linked intrusive lists, and hash tables whose buckets they are. */
#ifndef IWARPD_LIST_H
#define IWARPD_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {			/* a head, or a node in one; a node that is in no list points to itself */
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

/* A head in a table that began as zeros. */
static inline struct list *list_bucket(struct list *l)
{
	if (!l->next)
		list_init(l);
	return l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list *head, struct list *n)
{
	n->next = head;
	n->prev = head->prev;
	head->prev->next = n;
	head->prev = n;
}

/* Harmless for a node that is in no list. */
static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* All nodes of from, in order, into to, which is no list before. */
static inline void list_take(struct list *to, struct list *from)
{
	list_add_tail(from, to);
	list_del(from);
}

#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define list_entry container_of
/* The body may remove the current node, no other. */
#define list_each(pos, nxt, head) \
	for (struct list *pos = (head)->next, *nxt = pos->next; pos != (head); pos = nxt, nxt = pos->next)

#endif
