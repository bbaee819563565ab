// SPDX-License-Identifier: MIT
/* Judges IPsec where the daemon asks for it: policies, and security associations that let anything pass. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "iwctl.h"
#include "judge.h"
#include "out.h"
#include "verdict.h"

/* The number of security associations; -errno: the kernel does not say. */
static int associations(void)
{
	struct { struct nlmsghdr h; uint32_t flags; } ask = {
		.h = { .nlmsg_len = sizeof(ask), .nlmsg_type = XFRM_MSG_GETSADINFO, .nlmsg_flags = NLM_F_REQUEST },
		.flags = UINT32_MAX,
	};
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct timeval second = { .tv_sec = 1 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_XFRM), r = -EBADMSG;
	struct { struct nlmsghdr h; uint32_t flags; struct nlattr a; uint32_t n; uint8_t more[512]; } is;
	struct nlmsgerr e;
	ssize_t n;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	if (sendto(fd, &ask, sizeof(ask), 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0 || (n = recv(fd, &is, sizeof(is), 0)) < 0) {
		r = -errno;
	} else if (is.h.nlmsg_type == NLMSG_ERROR && n >= (ssize_t)(sizeof(is.h) + sizeof(e))) {
		memcpy(&e, (const uint8_t *)&is + sizeof(is.h), sizeof(e));
		r = e.error ? e.error : -EBADMSG;
	} else if (is.h.nlmsg_type == XFRM_MSG_NEWSADINFO && n >= (ssize_t)(sizeof(is) - sizeof(is.more)) && is.a.nla_type == XFRMA_SAD_CNT) {
		r = (int)is.n;
	}
	close(fd);
	return r;
}

void judge_ipsec(json_t *list, const json_t *status)
{
	const char *state = iwctl_str(status, "require_ipsec", "off");
	int n;

	if (!strcmp(state, "off"))
		return;
	if (strcmp(state, "on")) {
		verdict(list, VERDICT_BAD, "IPsec", "CAP_NET_ADMIN for the daemon: see require_ipsec in iwarpd.conf(5).", "the kernel's policies cannot be read: nothing to other hosts is accelerated");
		return;
	}
	if (!iwctl_num(status, "ipsec_policies")) {
		verdict(list, VERDICT_BAD, "IPsec", "Set up IPsec between the hosts; see 'ip xfrm policy'.", "require_ipsec is set, and the kernel has no policies");
		return;
	}
	verdict(list, VERDICT_OK, "IPsec", NULL, "required; the kernel has %llu policies in and out", (unsigned long long)iwctl_num(status, "ipsec_policies"));
	n = judge_elsewhere(status) ? -EXDEV : associations();
	if (n > 0)
		verdict(list, VERDICT_OK, "IPsec", NULL, "and %d security associations", n);
	else if (!n)
		verdict(list, VERDICT_WARN, "IPsec", "'ip xfrm state'; does the key exchange run, for example strongSwan?", "there is no security association: nothing passes before there is one");
	else if (n == -EPERM)
		verdict(list, VERDICT_WARN, "IPsec", "Ask as root.", "security associations may not be counted");
}
