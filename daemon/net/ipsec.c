/* SPDX-License-Identifier: MIT */
/* The answer of XFRM_MSG_GETPOLICY as a table, and which of its policies decides about a TCP connection. */
#include "ipsec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX	65536u

/* ---- reading ---- */

/* One template of ESP that cannot be left out is enough: the others come on top of it. */
static bool has_esp(const uint8_t *p, size_t len)
{
	struct xfrm_user_tmpl t;

	for (; len >= sizeof(t); p += sizeof(t), len -= sizeof(t)) {
		memcpy(&t, p, sizeof(t));
		if (t.id.proto == IPPROTO_ESP && !t.optional)
			return true;
	}
	return false;
}

struct attrs { bool esp, mark, if_id, sub; };

static int read_attrs(const uint8_t *p, size_t len, struct attrs *a)
{
	while (len >= NLA_HDRLEN) {
		struct nlattr nla;
		struct xfrm_mark mark;
		uint32_t id;
		size_t n, step;

		memcpy(&nla, p, sizeof(nla));
		if (nla.nla_len < NLA_HDRLEN || nla.nla_len > len)
			return -EBADMSG;
		n = nla.nla_len - NLA_HDRLEN;
		if (nla.nla_type == XFRMA_TMPL) {
			a->esp = has_esp(p + NLA_HDRLEN, n);
		} else if (nla.nla_type == XFRMA_MARK && n >= sizeof(mark)) {
			memcpy(&mark, p + NLA_HDRLEN, sizeof(mark));
			a->mark = mark.m || mark.v;
		} else if (nla.nla_type == XFRMA_IF_ID && n >= sizeof(id)) {
			memcpy(&id, p + NLA_HDRLEN, sizeof(id));
			a->if_id = id;
		} else if (nla.nla_type == XFRMA_POLICY_TYPE && n >= 1) {
			a->sub = p[NLA_HDRLEN] != XFRM_POLICY_TYPE_MAIN;
		}
		step = (size_t)NLA_ALIGN(nla.nla_len);
		step = step < len ? step : len;
		p += step;
		len -= step;
	}
	return 0;
}

static int table_add(struct ipsec_table *t, const struct ipsec_policy *p)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 64;
		struct ipsec_policy *bigger = cap <= TABLE_MAX ? realloc(t->policy, cap * sizeof(*bigger)) : NULL;

		if (!bigger)
			return -ENOMEM;
		t->policy = bigger;
		t->cap = cap;
	}
	t->policy[t->n++] = *p;
	return 0;
}

/*
 * Sub-policies (mobility) are looked up besides the main ones and can only ask for more. Directions beyond in and out are
 * forwarding and the policies of single sockets.
 */
static int read_policy(struct ipsec_table *t, const uint8_t *p, size_t len)
{
	struct xfrm_userpolicy_info i;
	struct attrs a = { 0 };
	struct ipsec_policy q;
	int ret;

	if (len < sizeof(i))
		return -EBADMSG;
	memcpy(&i, p, sizeof(i));
	ret = len > NLMSG_ALIGN(sizeof(i)) ? read_attrs(p + NLMSG_ALIGN(sizeof(i)), len - NLMSG_ALIGN(sizeof(i)), &a) : 0;
	if (ret)
		return ret;
	if ((i.dir != XFRM_POLICY_IN && i.dir != XFRM_POLICY_OUT) || a.sub || (i.sel.family != AF_INET && i.sel.family != AF_INET6))
		return 0;
	q = (struct ipsec_policy){
		.out = i.dir == XFRM_POLICY_OUT, .v4 = i.sel.family == AF_INET, .esp = i.action == XFRM_POLICY_ALLOW && a.esp,
		.narrow = a.mark || a.if_id || i.sel.ifindex, .proto = i.sel.proto, .src_len = i.sel.prefixlen_s,
		.dst_len = i.sel.prefixlen_d, .sport = ntohs(i.sel.sport), .sport_mask = ntohs(i.sel.sport_mask),
		.dport = ntohs(i.sel.dport), .dport_mask = ntohs(i.sel.dport_mask), .priority = i.priority,
	};
	if (q.src_len > (q.v4 ? 32 : 128) || q.dst_len > (q.v4 ? 32 : 128))
		return -EBADMSG;
	memcpy(q.src, &i.sel.saddr, 16);
	memcpy(q.dst, &i.sel.daddr, 16);
	return table_add(t, &q);
}

/* NLMSG_DONE and NLMSG_ERROR: 0 or the kernel's -errno. */
static int read_status(const uint8_t *p, size_t len)
{
	int32_t err = 0;

	if (len >= sizeof(err))
		memcpy(&err, p, sizeof(err));
	return err < 0 ? err : 0;
}

int ipsec_table_parse(struct ipsec_table *t, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	int ret = 0;

	while (len >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr h;
		size_t n;

		memcpy(&h, p, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > len)
			return -EBADMSG;
		if (h.nlmsg_flags & NLM_F_DUMP_INTR)
			return -EINTR;
		n = h.nlmsg_len - sizeof(h);
		if (h.nlmsg_type == NLMSG_DONE)
			return read_status(p + sizeof(h), n);
		if (h.nlmsg_type == NLMSG_ERROR) {
			ret = read_status(p + sizeof(h), n);
			return ret ? ret : -EBADMSG;
		}
		if (h.nlmsg_type == XFRM_MSG_NEWPOLICY)
			ret = read_policy(t, p + sizeof(h), n);
		if (ret)
			return ret;
		n = NLMSG_ALIGN((size_t)h.nlmsg_len);
		n = n < len ? n : len;
		p += n;
		len -= n;
	}
	return len ? -EBADMSG : 1;
}

void ipsec_table_clear(struct ipsec_table *t)
{
	free(t->policy);
	*t = (struct ipsec_table){ 0 };
}

/* ---- deciding ---- */

static bool matches(const struct ipsec_policy *p, bool v4, const struct iw_addr *src, const struct iw_addr *dst)
{
	unsigned int off = v4 ? 12 : 0;

	return p->v4 == v4 && (!p->proto || p->proto == IPPROTO_TCP) && iw_prefix_has(p->src, p->src_len, src->ip + off) &&
	       iw_prefix_has(p->dst, p->dst_len, dst->ip + off) && !((p->sport ^ src->port) & p->sport_mask) &&
	       !((p->dport ^ dst->port) & p->dport_mask);
}

/*
 * The policy of the lowest priority decides. Of several with the same priority the kernel takes the oldest, which a dump does
 * not tell: they all have to be for ESP. One that we cannot judge counts only when it is not.
 */
static bool one_way(const struct ipsec_table *t, bool out, const struct iw_addr *src, const struct iw_addr *dst)
{
	bool v4 = iw_ip_v4(src->ip);
	uint64_t esp = UINT64_MAX, other = UINT64_MAX;

	for (size_t i = 0; i < t->n; i++) {
		const struct ipsec_policy *p = &t->policy[i];

		if (p->out != out || !matches(p, v4, src, dst))
			continue;
		if (!p->esp)
			other = p->priority < other ? p->priority : other;
		else if (!p->narrow)
			esp = p->priority < esp ? p->priority : esp;
	}
	return esp < other;
}

bool ipsec_table_covers(const struct ipsec_table *t, const struct iw_tuple *c)
{
	return one_way(t, true, &c->local, &c->peer) && one_way(t, false, &c->peer, &c->local);
}
