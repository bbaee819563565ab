// SPDX-License-Identifier: MIT
/*
 * What each end of a TCP connection takes of this process's memory:
 *	many N [stay]
 * Makes N connections with itself, moves an octet each way on each, prints octets per end; stay: and keeps them until it is ended.
 */
#include <arpa/inet.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static long private_octets(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	long n = 0, k;
	char line[256];

	if (!f)
		err(1, "smaps_rollup");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Private_%*[^:]: %ld", &k) == 1)
			n += k * 1024;
	fclose(f);
	return n;
}

static void octet(int from, int to)
{
	char c = 'x';

	if (write(from, &c, 1) != 1 || read(to, &c, 1) != 1)
		err(1, "an octet");
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	struct rlimit lim;
	long n, before = 0;
	int l = socket(AF_INET, SOCK_STREAM, 0);

	if (argc < 2 || argc > 3 || (n = atol(argv[1])) < 1 || (argc == 3 && strcmp(argv[2], "stay"))) {
		fputs("usage: many N [stay]\n", stderr);
		return 2;
	}
	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		err(1, "getrlimit");
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	if (l < 0 || bind(l, (struct sockaddr *)&a, len) < 0 || listen(l, 8) < 0 || getsockname(l, (struct sockaddr *)&a, &len) < 0)
		err(1, "listen");
	for (long i = 0; i <= n; i++) {
		int c = socket(AF_INET, SOCK_STREAM, 0), s;

		if (c < 0 || connect(c, (struct sockaddr *)&a, len) < 0 || (s = accept(l, NULL, NULL)) < 0)
			err(1, "connection %ld", i);
		octet(c, s);
		octet(s, c);
		if (!i)
			before = private_octets();	/* with what the first one brings with it */
	}
	printf("%ld\n", (private_octets() - before) / (2 * n));
	fflush(stdout);
	if (argc == 3)
		pause();
	return 0;
}
