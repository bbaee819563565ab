// SPDX-License-Identifier: MIT
/* Times calls that the library looks at without accelerating them: one number per run, nanoseconds per call or MB/s. */
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void tcp_pair(int fd[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int one = 1, l = socket(AF_INET, SOCK_STREAM, 0);

	if (l < 0 || bind(l, (void *)&a, len) || listen(l, 1) || getsockname(l, (void *)&a, &len))
		err(1, "listen");
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd[0], (void *)&a, len) || (fd[1] = accept(l, NULL, NULL)) < 0)
		err(1, "connect");
	setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(l);
}

static double bench_read(long n)
{
	int fd = open("/dev/zero", O_RDONLY);
	char c;
	double t = now();

	for (long i = 0; i < n; i++)
		if (read(fd, &c, 1) != 1)
			err(1, "read");
	return (now() - t) / n * 1e9;
}

static double bench_write(long n)
{
	int fd = open("/dev/null", O_WRONLY);
	double t = now();

	for (long i = 0; i < n; i++)
		if (write(fd, "x", 1) != 1)
			err(1, "write");
	return (now() - t) / n * 1e9;
}

static double bench_poll(long n)
{
	int fd = open("/dev/zero", O_RDONLY);
	double t = now();

	for (long i = 0; i < n; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		poll(&p, 1, -1);
	}
	return (now() - t) / n * 1e9;
}

static double bench_openclose(long n)
{
	double t = now();

	for (long i = 0; i < n; i++)
		close(open("/dev/null", O_RDONLY));
	return (now() - t) / n * 1e9;
}

static void echo_child(int fd, size_t size)
{
	char *buf = malloc(size);
	ssize_t r;

	while ((r = recv(fd, buf, size, MSG_WAITALL)) > 0)
		if (send(fd, buf, r, 0) != r)
			break;
	_exit(0);
}

static double bench_pingpong(long n)
{
	char buf[64] = "";
	int fd[2];
	double t;

	tcp_pair(fd);
	if (!fork()) {
		close(fd[0]);
		echo_child(fd[1], sizeof(buf));
	}
	close(fd[1]);
	t = now();
	for (long i = 0; i < n; i++)
		if (send(fd[0], buf, sizeof(buf), 0) != sizeof(buf) || recv(fd[0], buf, sizeof(buf), MSG_WAITALL) != sizeof(buf))
			err(1, "ping-pong");
	t = now() - t;
	close(fd[0]);
	wait(NULL);
	return t / n * 1e9;
}

static double bench_bulk(long n)
{
	static char buf[65536];
	int fd[2];
	double t;

	tcp_pair(fd);
	if (!fork()) {
		close(fd[0]);
		while (recv(fd[1], buf, sizeof(buf), 0) > 0)
			;
		_exit(0);
	}
	close(fd[1]);
	t = now();
	for (long i = 0; i < n; i++)
		if (send(fd[0], buf, sizeof(buf), 0) != sizeof(buf))
			err(1, "bulk");
	shutdown(fd[0], SHUT_WR);
	wait(NULL);
	return (now() - t) / n * 1e9;
}

static double bench_connect(long n)
{
	double t = now();

	for (long i = 0; i < n; i++) {
		int fd[2];

		tcp_pair(fd);
		close(fd[0]);
		close(fd[1]);
	}
	return (now() - t) / n * 1e9;
}

static const struct {
	const char *name;
	double (*fn)(long);
	long n;
} benches[] = {
	{ "read 1 B of /dev/zero", bench_read, 2000000 },
	{ "write 1 B to /dev/null", bench_write, 2000000 },
	{ "poll 1 fd, ready", bench_poll, 1000000 },
	{ "open and close", bench_openclose, 300000 },
	{ "TCP loopback, 64 B there and back", bench_pingpong, 20000 },
	{ "TCP loopback, 64 KiB send", bench_bulk, 20000 },
	{ "TCP connect, accept, close", bench_connect, 5000 },
};

int main(int argc, char **argv)
{
	size_t n = sizeof(benches) / sizeof(benches[0]);

	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (size_t i = 0; i < n; i++)
			puts(benches[i].name);
		return 0;
	}
	for (size_t i = 0; argc == 2 && i < n; i++)
		if (!strcmp(argv[1], benches[i].name)) {
			benches[i].fn(benches[i].n / 10);
			printf("%.1f\n", benches[i].fn(benches[i].n));
			return 0;
		}
	fprintf(stderr, "usage: %s list | 'name of a bench'\n", argv[0]);
	return 2;
}
