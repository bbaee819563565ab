// SPDX-License-Identifier: MIT
/* What befalls processes from outside: signals, stops, and their end. */

#include "opsoak.h"

static struct proc *aim(struct rng *r)
{
	struct proc *p = NULL;
	int n = 0;

	for (int i = 0; i < PROCS; i++)
		if (shm->procs[i].state == PROC_LIVE && one_in(r, (uint32_t)++n))
			p = &shm->procs[i];
	return p;
}

/* From here to let_go() the process cannot end by itself, so that its number is its own. */
static bool aimed(struct proc *p)
{
	int live = PROC_LIVE;

	return atomic_compare_exchange_strong(&p->state, &live, PROC_AIMED);
}

static void let_go(struct proc *p)
{
	int mine = PROC_AIMED;

	atomic_compare_exchange_strong(&p->state, &mine, PROC_LIVE);
}

/* One at a time: of two the kernel may make one. */
static void signals(struct rng *r, struct proc *p)
{
	bool rude = one_in(r, 2);

	if (p->sent != p->handled)
		return;
	p->sent++;
	if (rude)
		p->rude++;
	kill(p->pid, rude ? SIGUSR2 : SIGUSR1);
}

static void stop(struct rng *r, struct proc *p)
{
	p->stops++;
	kill(p->pid, SIGSTOP);
	usleep(1 + below(r, one_in(r, 4) ? 80000 : 3000));
	kill(p->pid, SIGCONT);
	usleep(3000);
	p->stops++;
}

/* Every stream that it holds an end of may be reset from now on. */
static void end_it(struct proc *p)
{
	int n = (int)(p - shm->procs);

	p->doomed = 1;
	if (p->handing) {
		p->doomed = 0;
		return;
	}
	if (p->worker >= 0)
		shm->listening[p->worker] = 0;
	for (int k = 0; k < 2 * STREAMS; k++)
		if (shm->streams[k / 2].end[k % 2].holder == n)
			shm->streams[k / 2].may |= MAY_KILLED;
	count(OP_killed);
	p->state = PROC_DEAD;	/* before: who waits for it frees the place */
	kill(p->pid, SIGKILL);
}

/* Now and then something, as chance has it. */
void chaos(struct rng *r)
{
	static uint64_t next, next_kill;
	uint64_t t = now_ms();
	struct proc *p;

	if (t < next || shm->pause & 1)
		return;
	next = t + below(r, 25);
	p = aim(r);
	if (!p || !aimed(p))
		return;
	if (shm->kills && t > next_kill) {
		if (next_kill)
			end_it(p);
		next_kill = t + 300 + below(r, 3000);
	} else if (one_in(r, 6)) {
		stop(r, p);
	} else {
		signals(r, p);
	}
	let_go(p);
}

/* What is left of ours, by its number, while it cannot have ended. */
void stop_all(void)
{
	for (int i = 0; i < PROCS; i++) {
		struct proc *p = &shm->procs[i];

		if (p->state == PROC_LIVE && aimed(p)) {
			p->doomed = 1;
			p->state = PROC_DEAD;
			kill(p->pid, SIGKILL);
		}
	}
}
