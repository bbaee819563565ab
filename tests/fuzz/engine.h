/* SPDX-License-Identifier: MIT */
/* The event loop for fuzz targets of the daemon: a few rounds of it at a time. */
#ifndef TESTS_FUZZ_ENGINE_H
#define TESTS_FUZZ_ENGINE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "fuzz.h"

static unsigned int rounds_left;
static void round_submit(struct op *op);

static void round_over(struct op *op, int res, bool more)
{
	if (--rounds_left)
		round_submit(op);
	else
		engine_stop();
}

/* A request that does nothing: everything that was submitted before it has been looked at when it completes. */
static void round_submit(struct op *op)
{
	struct io_uring_sqe *sqe = engine_sqe();

	op->fn = round_over;
	io_uring_prep_nop(sqe);
	engine_submit(sqe, op);
}

static inline void rounds(unsigned int n)
{
	static struct op op;

	rounds_left = n;
	round_submit(&op);
	engine_run();
}

/* The fuzzer's own symbolizer comes and goes with pipes. */
static inline unsigned int open_sockets(void)
{
	unsigned int n = 0;
	struct stat st;

	for (int fd = 0; fd < 256; fd++)
		n += !fstat(fd, &st) && S_ISSOCK(st.st_mode);
	return n;
}

static inline void __attribute__((noreturn)) sockets_left(void)
{
	for (int fd = 0; fd < 256; fd++) {
		struct stat st;
		int domain = 0, listening = 0;
		socklen_t len = sizeof(int);

		if (fstat(fd, &st) || !S_ISSOCK(st.st_mode))
			continue;
		getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
		getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len);
		fprintf(stderr, "socket %d: domain %d%s\n", fd, domain, listening ? " listening" : "");
	}
	fprintf(stderr, "something was left behind\n");
	abort();
}

static inline void engine_once(void)
{
	static bool up;

	if (up)
		return;
	up = true;
	log_init(getenv("IW_FUZZ_LOG") ? LOG_DEBUG : -1, 1);
	must(!engine_init());
}

#endif
