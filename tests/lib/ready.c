// SPDX-License-Identifier: MIT
/* ready FIFO SECONDS program ...: becomes the program, and tells the FIFO "ready" at its sd_notify READY=1, or "died", "timeout". */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *watch(int sock, int pidfd, int ms)
{
	struct pollfd p[2] = { { .fd = sock, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };
	char b[1024];
	ssize_t n;

	while (poll(p, 2, ms) > 0) {
		if (p[0].revents) {
			n = recv(sock, b, sizeof(b) - 1, 0);
			b[n > 0 ? n : 0] = 0;
			if (strstr(b, "READY=1"))
				return "ready\n";
		} else if (p[1].revents) {
			return "died\n";
		}
	}
	return "timeout\n";
}

int main(int argc, char **argv)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(a);
	char name[128];
	int sock, pidfd, fd;
	const char *word;

	if (argc < 4)
		return 2;
	sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || bind(sock, (void *)&a, sizeof(sa_family_t)) || getsockname(sock, (void *)&a, &len))
		return 3;
	snprintf(name, sizeof(name), "@%.*s", (int)(len - offsetof(struct sockaddr_un, sun_path) - 1), a.sun_path + 1);
	setenv("NOTIFY_SOCKET", name, 1);
	pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (!fork()) {
		if (fork())
			_exit(0);
		word = watch(sock, pidfd, atoi(argv[2]) * 1000);
		fd = open(argv[1], O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, word, strlen(word)) < 0)
			_exit(1);
		_exit(0);
	}
	wait(NULL);
	close(sock);
	close(pidfd);
	execvp(argv[3], argv + 3);
	perror(argv[3]);
	return 127;
}
