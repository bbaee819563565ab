// SPDX-License-Identifier: MIT
/* A filter of system calls that refuses one which the program itself never makes, by EPERM or ENOSYS, before the first octet or later: nothing is lost. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#include "../sock.h"

static const struct {
	int nr;
	const char *name;
} calls[] = {
	{ SYS_dup3, "dup3" }, { SYS_kcmp, "kcmp" }, { SYS_membarrier, "membarrier" }, { SYS_ioctl, "ioctl" }, { SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo" },
	{ SYS_signalfd4, "signalfd4" }, { SYS_openat, "openat" }, { SYS_socketpair, "socketpair" }, { SYS_eventfd2, "eventfd2" },
	{ SYS_ppoll, "ppoll" }, { SYS_getrusage, "getrusage" }, { SYS_getsockopt, "getsockopt" },
};
#define N	(sizeof(calls) / sizeof(calls[0]))

static void refuse(int nr, unsigned int err)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { .len = sizeof(f) / sizeof(f[0]), .filter = f };

	ok(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	ok(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p));
}

static void echoed(int fd, size_t n)
{
	static char b[30000];

	send_all(fd, b, n);
	must(recv_all(fd, b, n) == n);
}

static void child(const struct sockaddr_storage *ss, size_t i, bool late)
{
	int fd = (int)ok(socket(ss->ss_family, SOCK_STREAM, 0));

	ok(connect(fd, (const void *)ss, t_salen(ss)));
	for (int k = 0; late && k < 8; k++, t_nap(2))
		echoed(fd, 1);
	refuse(calls[i].nr, i & 1 ? ENOSYS : EPERM);
	for (int k = 0; k < 8; k++, t_nap(1))
		echoed(fd, 100);
	echoed(fd, 30000);
	ok(shutdown(fd, SHUT_WR));
	want_eof(fd);
	_exit(0);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (size_t i = 0; i < 2 * N; i++) {
		int st = -1;
		pid_t pid = (pid_t)ok(fork());

		if (!pid)
			child(&ss, i % N, i >= N);
		must(waitpid(pid, &st, 0) == pid);
		say("%s, %s: %d", calls[i % N].name, i < N ? "at once" : "later", st);
	}
}

static void server(void)
{
	static char b[30000];
	int l = t_listen(0);
	ssize_t n;

	for (size_t i = 0; i < 2 * N; i++) {
		int fd = (int)ok(accept(l, NULL, NULL));

		while ((n = recv(fd, b, sizeof(b), 0)) > 0)
			if (send(fd, b, (size_t)n, MSG_NOSIGNAL) != n)
				break;
		close(fd);
	}
}

SOCK_ROLES(server, client)
