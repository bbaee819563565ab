// SPDX-License-Identifier: MIT
/* Accepting connections: acceptor.h. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "acceptor.h"
#include "log.h"

#define RETRY_MS	100u

int acceptor_passed(const char *name, int family, int type)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(0, &names), fd = -1;

	for (int i = 0; i < n; i++) {
		if (fd < 0 && !strcmp(names[i], name) && sd_is_socket(SD_LISTEN_FDS_START + i, family, type, 1) > 0)
			fd = SD_LISTEN_FDS_START + i;
		free(names[i]);
	}
	free(names);
	return fd;
}

static void accept_next(struct acceptor *a);

static void accept_again(struct timer *t)
{
	accept_next(container_of(t, struct acceptor, retry));
}

static void accepted(struct op *op, int res, bool more)
{
	struct acceptor *a = container_of(op, struct acceptor, op);

	if (a->fd < 0) {
		if (res >= 0)
			close(res);
		return;
	}
	if (res >= 0) {
		a->fn(res);
	} else if (res == -EINVAL || res == -ECANCELED) {
		return;
	} else if (res == -EMFILE || res == -ENFILE || res == -ENOMEM || res == -ENOBUFS) {
		log_warn("cannot accept %s: %s", a->what, strerror(-res));
		timer_start(&a->retry, RETRY_MS, accept_again);
		return;
	}
	accept_next(a);
}

static void accept_next(struct acceptor *a)
{
	struct io_uring_sqe *sqe = engine_sqe();

	a->op.fn = accepted;
	io_uring_prep_accept(sqe, a->fd, NULL, NULL, SOCK_CLOEXEC);
	engine_submit(sqe, &a->op);
}

void acceptor_start(struct acceptor *a, int fd)
{
	/* io_uring waits by itself only on sockets without O_NONBLOCK */
	engine_file_waits(fd);
	a->fd = fd;
	accept_next(a);
}

void acceptor_stop(struct acceptor *a)
{
	if (a->fd < 0)
		return;
	timer_stop(&a->retry);
	if (a->op.busy)		/* no shutdown: systemd keeps the socket that it passed, for the daemon after us */
		engine_cancel(&a->op);
	close(a->fd);
	a->fd = -1;
}
