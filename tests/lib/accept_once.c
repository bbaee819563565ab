/* SPDX-License-Identifier: MIT */
/* A server that knows nothing of us: prints its port, accepts one connection, prints what it received or the name of the error. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), s;
	char buf[100] = "";
	ssize_t n;

	if (bind(l, (void *)&a, sizeof(a)) || listen(l, 1) || getsockname(l, (void *)&a, &len))
		return 1;
	printf("%u\n", ntohs(a.sin_port));
	fflush(stdout);
	s = accept(l, NULL, NULL);
	n = s < 0 ? -1 : recv(s, buf, sizeof(buf) - 1, 0);
	printf("%s\n", n < 0 ? strerrorname_np(errno) : n ? buf : "end");
	return 0;
}
