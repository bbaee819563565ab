// SPDX-License-Identifier: MIT
/*
 * One stream between two processes, each working its end by itself on a blocking TCP socket (proto/end.h), beside plain TCP; MPA startup and
 * daemons are left out:
 *	mapped serve ADDRESS PORT
 *	mapped plain|end rr|tx ADDRESS PORT OCTETS SECONDS
 *	mapped loop OCTETS SECONDS
 * loop prints nanoseconds of processor time of one end for OCTETS sent and as many received, between two ends without TCP; rr prints microseconds per request and answer of OCTETS each; tx Gbit/s of writes of OCTETS, until the receiver has said that it has all.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/end_util.h"

struct ask { char how[8], mode[8]; uint32_t size; };
struct conn { int fd; bool mapped; struct priv priv; struct iw_end e; };

static char buf[4u << 20];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- an end on T ---- */

static bool end_receive(struct conn *c, int flags)
{
	size_t room;
	uint8_t *p = iw_end_in(&c->e, &room);
	ssize_t n = recv(c->fd, p, room, flags);

	if (n > 0)
		iw_end_in_done(&c->e, (size_t)n);
	else if (!n)
		iw_end_in_eof(&c->e);
	else if (errno != EAGAIN)
		err(1, "recv");
	return n > 0;
}

static void end_wait(struct conn *c, unsigned int what)
{
	struct pollfd p = { .fd = c->fd, .events = (what & IW_END_IN ? POLLIN : 0) | (what & IW_END_OUT ? POLLOUT : 0) };

	poll(&p, 1, -1);
	if (p.revents & POLLIN)
		end_receive(c, MSG_DONTWAIT);
}

/* Gives T what is framed; waits only when all of it has to go. */
static void end_flush(struct conn *c, bool all)
{
	const uint8_t *p;
	size_t len;

	while ((p = iw_end_out(&c->e, &len))) {
		ssize_t n = send(c->fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			iw_end_out_done(&c->e, (size_t)n);
		else if (errno != EAGAIN)
			err(1, "send");
		else if (all)
			end_wait(c, IW_END_IN | IW_END_OUT);
		else
			return;
	}
}

static void end_put(struct conn *c, const void *p, size_t n)
{
	const struct iovec v = { .iov_base = (void *)p, .iov_len = n };

	for (size_t done = 0, k; done < n; done += k) {
		k = iw_end_put(&c->e, &v, 1, done, n - done);
		end_flush(c, false);
		if (!k && iw_end_blocked(&c->e))
			end_wait(c, iw_end_blocked(&c->e));
	}
}

/* At least one octet; 0 at the end of the stream. */
static size_t end_get(struct conn *c, void *p, size_t n)
{
	const struct iovec v = { .iov_base = p, .iov_len = n };
	size_t k;

	while (!(k = iw_end_get(&c->e, &v, 1, 0, n, false, 0))) {
		if (iw_end_state(&c->e) & (IW_END_FIN | IW_END_DEAD))
			return 0;
		end_flush(c, false);
		end_receive(c, 0);
		iw_end_pump(&c->e);
	}
	iw_end_pump(&c->e);
	end_flush(c, false);
	return k;
}

static void end_start(struct conn *c, bool initiator)
{
	const struct priv_param p = priv_default();
	uint64_t len;

	priv_new(&c->priv, &p, &p, initiator);
	len = c->priv.map_len;
	c->priv.map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->priv.map == MAP_FAILED || !iw_map_ready(&c->priv.p))
		err(1, "map");
	iw_map_export(c->priv.map, &c->priv.p);
	if (iw_end_open(&c->e, c->priv.map, len))
		errx(1, "iw_end_open");
	c->mapped = true;
}

/* ---- either ---- */

static void put(struct conn *c, const void *p, size_t n)
{
	if (c->mapped) {
		end_put(c, p, n);
		return;
	}
	for (ssize_t k; n; p = (const char *)p + k, n -= (size_t)k)
		if ((k = send(c->fd, p, n, MSG_NOSIGNAL)) < 0)
			err(1, "send");
}

static size_t get(struct conn *c, void *p, size_t n)
{
	ssize_t k;

	if (c->mapped)
		return end_get(c, p, n);
	k = recv(c->fd, p, n, 0);
	if (k < 0)
		err(1, "recv");
	return (size_t)k;
}

static bool get_all(struct conn *c, void *p, size_t n)
{
	for (size_t k; n; p = (char *)p + k, n -= k)
		if (!(k = get(c, p, n)))
			return false;
	return true;
}

static void end_of_stream(struct conn *c)
{
	if (!c->mapped) {
		shutdown(c->fd, SHUT_WR);
		return;
	}
	iw_end_fin(&c->e);
	iw_end_pump(&c->e);
	end_flush(c, true);
}

/* Until the peer closes, so that its last octets are not lost. */
static void finish(struct conn *c)
{
	while (get(c, buf, sizeof(buf)))
		;
	close(c->fd);
}

/* What either end of a request and answer takes by itself. */
static void loop(uint32_t n, double seconds)
{
	struct conn c[2] = { 0 };
	struct timespec t;
	uint64_t turns = 0;
	double end;

	end_start(&c[0], true);
	end_start(&c[1], false);
	end = now() + seconds;
	for (; ++turns % 64 || now() < end; ) {
		struct iw_end *from = &c[turns & 1].e, *to = &c[!(turns & 1)].e;
		const struct iovec v = { .iov_base = buf, .iov_len = n };

		for (size_t put = 0, got = 0, len, room; got < n; ) {
			const uint8_t *out;
			uint8_t *in;

			put += iw_end_put(from, &v, 1, put, n - put);
			while ((out = iw_end_out(from, &len))) {
				in = iw_end_in(to, &room);
				len = len < room ? len : room;
				memcpy(in, out, len);
				iw_end_out_done(from, len);
				iw_end_in_done(to, len);
			}
			got += iw_end_get(to, &v, 1, 0, n, false, 0);
			iw_end_pump(to);
			while ((out = iw_end_out(to, &len))) {
				in = iw_end_in(from, &room);
				memcpy(in, out, len);
				iw_end_out_done(to, len);
				iw_end_in_done(from, len);
			}
		}
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	printf("%.0f\n", ((double)t.tv_sec + (double)t.tv_nsec * 1e-9) / (double)turns * 1e9);
	exit(0);
}

static int tcp(const char *host, const char *port, struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	inet_pton(AF_INET, host, &a->sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void serve_one(int fd)
{
	struct conn c = { .fd = fd };
	struct ask ask;
	uint64_t total = 0;
	size_t n;
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!get_all(&c, &ask, sizeof(ask)))
		return;
	if (!strcmp(ask.how, "end"))
		end_start(&c, false);
	put(&c, "", 1);
	if (!strcmp(ask.mode, "rr")) {
		while (get_all(&c, buf, ask.size))
			put(&c, buf, ask.size);
	} else {
		while ((n = get(&c, buf, 256u << 10)))
			total += n;
		put(&c, &total, sizeof(total));
	}
	end_of_stream(&c);
	finish(&c);
}

static void serve(const char *host, const char *port)
{
	struct sockaddr_in a;
	int fd = tcp(host, port, &a);

	if (bind(fd, (void *)&a, sizeof(a)) || listen(fd, 8))
		err(1, "listen");
	for (;;) {
		int k = accept(fd, NULL, NULL);

		if (k >= 0 && !fork()) {
			serve_one(k);
			_exit(0);
		}
		close(k);
	}
}

int main(int argc, char **argv)
{
	struct conn c = { 0 };
	struct ask ask = { 0 };
	struct sockaddr_in a;
	uint64_t total = 0, said = 0, turns = 0;
	double t, seconds;

	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(argv[2], argv[3]);
	if (argc == 4 && !strcmp(argv[1], "loop"))
		loop((uint32_t)atoi(argv[2]), atof(argv[3]));
	if (argc != 7)
		errx(2, "usage: mapped serve ADDRESS PORT | mapped loop OCTETS SECONDS | mapped plain|end rr|tx ADDRESS PORT OCTETS SECONDS");
	snprintf(ask.how, sizeof(ask.how), "%s", argv[1]);
	snprintf(ask.mode, sizeof(ask.mode), "%s", argv[2]);
	ask.size = (uint32_t)atoi(argv[5]);
	seconds = atof(argv[6]);
	c.fd = tcp(argv[3], argv[4], &a);
	if (connect(c.fd, (void *)&a, sizeof(a)))
		err(1, "connect");
	put(&c, &ask, sizeof(ask));
	if (!strcmp(ask.how, "end"))
		end_start(&c, true);
	memset(buf, 7, sizeof(buf));
	get_all(&c, buf, 1);
	t = now();
	if (!strcmp(ask.mode, "rr")) {
		do {
			put(&c, buf, ask.size);
			if (!get_all(&c, buf, ask.size))
				errx(1, "it ended");
		} while (++turns % 16 || now() - t < seconds);
		printf("%.3f\n", (now() - t) / (double)turns * 1e6);
		end_of_stream(&c);
	} else {
		do {
			put(&c, buf, ask.size);
			total += ask.size;
		} while (++turns % 16 || now() - t < seconds);
		end_of_stream(&c);
		if (!get_all(&c, &said, sizeof(said)) || said != total)
			errx(1, "%llu octets of %llu", (unsigned long long)said, (unsigned long long)total);
		printf("%.3f\n", (double)total * 8 / (now() - t) / 1e9);
	}
	finish(&c);
	return 0;
}
