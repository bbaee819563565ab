// SPDX-License-Identifier: MIT
/* What is set for a signal is what is told of it, and what comes is what was sent: flags, masks, information, stack; each way to set one. */
#include <sys/wait.h>
#include <ucontext.h>
#include "../sock.h"

int interrupts(int sig, int flag) __asm__("siginterrupt");	/* deprecated, and used */
sighandler_t set(int sig, sighandler_t h) __asm__("sigset");
sighandler_t sysv(int sig, sighandler_t h) __asm__("sysv_signal");

static char stack[65536];
static volatile int depth, deepest, on_stack, codes, value, status, masks, sent_by_me;

static void note(int sig)
{
	char here;
	sigset_t m;

	if (++depth > deepest)
		deepest = depth;
	on_stack = &here >= stack && &here < stack + sizeof(stack);
	sigprocmask(SIG_BLOCK, NULL, &m);
	masks = sigismember(&m, SIGUSR1) | sigismember(&m, SIGUSR2) << 1 | sigismember(&m, SIGHUP) << 2;
	if (sig == SIGHUP && depth == 1)
		raise(sig);
	depth--;
}

static void one(int sig)
{
	note(sig);
}

static void three(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	codes = info->si_code;
	value = info->si_value.sival_int;
	status = info->si_status;
	sent_by_me = info->si_pid == getpid() && info->si_uid == getuid();
	note(sig);
	must(!sigismember(&uc->uc_sigmask, SIGUSR1) && info->si_signo == sig);
}

static const char *name(const struct sigaction *a)
{
	return a->sa_flags & SA_SIGINFO ? a->sa_sigaction == three ? "three" : "?" : a->sa_handler == one ? "one" :
	       a->sa_handler == SIG_DFL ? "default" : a->sa_handler == SIG_IGN ? "ignored" : "?";
}

static void told(const char *what, int sig)
{
	struct sigaction a;

	ok(sigaction(sig, NULL, &a));
	say("%s: %s flags %x masks %d%d%d", what, name(&a), (unsigned int)a.sa_flags & 0xfbffffffu, sigismember(&a.sa_mask, SIGUSR1),
	    sigismember(&a.sa_mask, SIGUSR2), sigismember(&a.sa_mask, SIGHUP));
}

static void came(const char *what)
{
	say("%s: deepest %d stack %d masks %d", what, deepest, on_stack, masks);
	deepest = on_stack = masks = 0;
}

static void with(const char *what, int sig, int flags)
{
	struct sigaction a = { .sa_flags = flags }, old;

	if (flags & SA_SIGINFO)
		a.sa_sigaction = three;
	else
		a.sa_handler = one;
	sigemptyset(&a.sa_mask);
	sigaddset(&a.sa_mask, SIGUSR2);
	ok(sigaction(sig, &a, &old));
	say("%s: was %s %x", what, name(&old), (unsigned int)old.sa_flags & 0xfbffffffu);
	told(what, sig);
	raise(sig);
	came(what);
	told("after it", sig);
}

static void server(int fd)
{
	static const struct { const char *what; int sig, flags; } v[] = {
		{ "plain", SIGUSR1, 0 }, { "info", SIGUSR1, SA_SIGINFO }, { "restart", SIGUSR1, SA_RESTART }, { "stack", SIGUSR1, SA_ONSTACK },
		{ "once", SIGUSR1, (int)SA_RESETHAND }, { "once, info", SIGUSR1, (int)(SA_RESETHAND | SA_SIGINFO) }, { "nodefer", SIGHUP, SA_NODEFER },
		{ "both", SIGUSR1, SA_NODEFER | SA_ONSTACK | SA_SIGINFO | SA_NOCLDSTOP },
	};
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 77 };
	struct itimerspec it = { .it_value.tv_nsec = 1000000 };
	struct sigaction a = { .sa_sigaction = three, .sa_flags = SA_SIGINFO };
	char b[4];
	timer_t t;

	must(recv(fd, b, 1, 0) == 1);
	ok(sigaltstack(&ss, NULL));
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		with(v[i].what, v[i].sig, v[i].flags);
	signal(SIGUSR1, SIG_DFL);
	say("signal: was default %d", signal(SIGUSR1, one) == SIG_DFL);
	told("signal", SIGUSR1);
	ok(interrupts(SIGUSR1, 1));
	told("siginterrupt", SIGUSR1);
	say("signal: was one %d", signal(SIGUSR1, one) == one);
	told("signal, interrupting", SIGUSR1);
	ok(interrupts(SIGUSR1, 0));
	say("sysv: was one %d", sysv(SIGUSR1, one) == one);
	told("sysv", SIGUSR1);
	say("sigset: was one %d", set(SIGUSR1, one) == one);
	told("sigset", SIGUSR1);
	say("sigset hold: was one %d", set(SIGUSR1, SIG_HOLD) == one);
	say("sigset: was held %d", set(SIGUSR1, one) == SIG_HOLD);
	step("signal of none", signal(65, one) == SIG_ERR ? -1 : 0);
	step("signal of kill", signal(SIGKILL, one) == SIG_ERR ? -1 : 0);
	step("action of none", sigaction(0, &a, NULL));
	step("action of stop", sigaction(SIGSTOP, &a, NULL));
	step("ignored", sigaction(SIGSTOP, NULL, NULL));
	signal(SIGUSR1, SIG_IGN);
	told("ignored", SIGUSR1);

	ok(sigaction(SIGUSR1, &a, NULL));
	kill(getpid(), SIGUSR1);
	say("kill: user %d by me %d", codes == SI_USER, sent_by_me);
	ok(sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 5 }));
	say("sigqueue: queue %d value %d", codes == SI_QUEUE, value);
	ok(timer_create(CLOCK_MONOTONIC, &e, &t));
	codes = 99;
	ok(timer_settime(t, 0, &it, NULL));
	while (codes == 99)
		must(recv(fd, b, 1, MSG_DONTWAIT) < 0);
	say("timer: timer %d value %d", codes == SI_TIMER, value);
	ok(sigaction(SIGCHLD, &a, NULL));
	codes = 99;
	if (!fork())
		_exit(7);
	while (codes == 99)
		must(send(fd, "x", 1, 0) == 1 || errno == EINTR);
	must(wait(NULL) > 0);
	say("child: exited %d with %d", codes == CLD_EXITED, status);
	close(fd);
}

static void client(int fd)
{
	char b[4096];

	send_all(fd, "g", 1);
	while (recv(fd, b, sizeof(b), 0) > 0)
		;
	close(fd);
}

SOCK_PAIR(server, client)
