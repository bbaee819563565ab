// SPDX-License-Identifier: MIT
/* Bad pointers are EFAULT whatever becomes of faults: blocked, ignored, the program's own to handle, in a handler; and the program's own faults are its. */
#include "../sock.h"

#include <setjmp.h>
#include <ucontext.h>

#define STACK	(256u << 10)

static char b[8], *none, *half;
static int sock;
static sigjmp_buf out;
static volatile sig_atomic_t came;

static void bad(const char *what)
{
	char line[80];

	snprintf(line, sizeof(line), "%s: send", what);
	step(line, send(sock, none, 4, 0));
	snprintf(line, sizeof(line), "%s: recv", what);
	step(line, recv(sock, none, 4, MSG_PEEK));
	snprintf(line, sizeof(line), "%s: recv into what can be read only", what);
	step(line, recv(sock, half, 4, MSG_PEEK));
	snprintf(line, sizeof(line), "%s: good", what);
	step(line, recv(sock, b, 4, MSG_PEEK));
}

static void in_handler(int n)
{
	bad(n == SIGUSR1 ? "in a handler with all blocked" : "in a handler of faults");
}

static void handler(int n, void (*h)(int), int flags, bool all)
{
	struct sigaction a = { .sa_handler = h, .sa_flags = flags };

	sigemptyset(&a.sa_mask);
	if (all)
		sigfillset(&a.sa_mask);
	ok(sigaction(n, &a, NULL));
}

static void jumps(int n)
{
	came++;
	siglongjmp(out, n);
}

static void own_fault(const char *what)
{
	came = 0;
	if (!sigsetjmp(out, 1))
		*(volatile char *)none = 1;
	say("%s: the program's own fault: %d", what, (int)came);
}

static void said(const char *what, int n)
{
	struct sigaction a;

	ok(sigaction(n, NULL, &a));
	say("%s: handler %s, flags %x, SIGUSR2 %d", what, a.sa_handler == SIG_DFL ? "default" : a.sa_handler == SIG_IGN ? "none" : a.sa_handler == jumps ? "its own" : "another",
	    a.sa_flags & ~0x04000000, sigismember(&a.sa_mask, SIGUSR2));
}

static void *thread(void *all)
{
	pthread_sigmask(SIG_BLOCK, all, NULL);
	bad("in a thread with all blocked");
	pthread_sigmask(SIG_UNBLOCK, all, NULL);
	bad("in a thread with none blocked");
	return NULL;
}

static ucontext_t here, there;

static void elsewhere(void)
{
	bad("in a context with all blocked");
	swapcontext(&there, &here);
	bad("in that context again");
	setcontext(&here);
}

static void contexts(const sigset_t *all)
{
	ok(getcontext(&there));
	there.uc_stack.ss_sp = malloc(STACK);
	there.uc_stack.ss_size = STACK;
	there.uc_link = NULL;
	there.uc_sigmask = *all;
	makecontext(&there, elsewhere, 0);
	ok(swapcontext(&here, &there));
	bad("back in the first context");
	ok(swapcontext(&here, &there));
	bad("and back again");
}

/* By what a child of ours ends. */
static void child(const char *what, void (*f)(void))
{
	int st;
	pid_t pid = fork();

	ok(pid);
	if (!pid) {
		f();
		_exit(0);
	}
	must(waitpid(pid, &st, 0) == pid);
	say("%s: %s %d", what, WIFSIGNALED(st) ? "signal" : "status", WIFSIGNALED(st) ? WTERMSIG(st) : WEXITSTATUS(st));
}

static void crash(void) { *(volatile char *)none = 1; }
static void bus(void) { kill(getpid(), SIGBUS); }
static void ignores(void) { signal(SIGSEGV, SIG_IGN); kill(getpid(), SIGSEGV); execl("/bin/sh", "sh", "-c", "kill -SEGV $$; exit 3", NULL); }
static void runs(void) { execl("/bin/sh", "sh", "-c", "kill -SEGV $$; exit 3", NULL); }

static void client(int fd)
{
	sigset_t all, was;
	pthread_t t;

	sock = fd;
	none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	half = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(none != MAP_FAILED && half != MAP_FAILED);
	t_readable(fd, 8);
	sigfillset(&all);
	said("at first", SIGSEGV);
	bad("as it is");
	sigprocmask(SIG_BLOCK, &all, &was);
	bad("all blocked");
	sigprocmask(SIG_SETMASK, &was, NULL);
	bad("none blocked");
	must(!pthread_create(&t, NULL, thread, &all));
	pthread_join(t, NULL);
	contexts(&all);
	bad("after contexts");
	handler(SIGUSR1, in_handler, 0, true);
	raise(SIGUSR1);
	bad("after a handler");
	handler(SIGSEGV, in_handler, 0, false);
	raise(SIGSEGV);
	handler(SIGSEGV, jumps, SA_RESTART | SA_NODEFER, true);
	handler(SIGBUS, jumps, SA_ONSTACK, false);
	said("set", SIGSEGV);
	said("set", SIGBUS);
	own_fault("with a handler");
	bad("with a handler");
	own_fault("with a handler again");
	ok(signal(SIGSEGV, SIG_IGN) == SIG_ERR ? -1 : 0);
	said("ignored", SIGSEGV);
	bad("ignored");
	say("was ignored: %d", signal(SIGSEGV, SIG_DFL) == SIG_IGN);
	said("default", SIGSEGV);
	bad("default");
	signal(SIGBUS, SIG_DFL);
	ok(prctl(PR_SET_DUMPABLE, 0));	/* no core */
	child("a fault", crash);
	child("SIGBUS of a process", bus);
	child("ignored over exec", ignores);
	child("default over exec", runs);
	bad("at last");
	step("read", read(fd, b, 8));
	send_str(fd, "done");
	want_eof(fd);
	close(fd);
}

static void server(int fd)
{
	send_str(fd, "12345678");
	want_str(fd, "done");
	close(fd);
}

SOCK_PAIR(server, client)
