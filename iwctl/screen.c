// SPDX-License-Identifier: MIT
/* The terminal that standard output is, if it is one, and what is shown there again and again. */
#include "screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "iwctl.h"

static struct winsize size(void)
{
	struct winsize w;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w))
		w = (struct winsize){ 0 };
	return w;
}

int screen_width(void)
{
	return size().ws_col;
}

int screen_height(void)
{
	return size().ws_row;
}

bool screen_seconds(const char *s, uint64_t *ms)
{
	char *end;
	double v = strtod(s, &end);

	if ((*s < '0' || *s > '9') || *end || v < 0.1 || v > SCREEN_SECONDS)
		return false;
	*ms = (uint64_t)(v * 1000);
	return true;
}

static void until(struct timespec *t, uint64_t ms)
{
	t->tv_sec += (time_t)(ms / 1000);
	t->tv_nsec += (long)(ms % 1000) * 1000000;
	if (t->tv_nsec >= 1000000000) {
		t->tv_nsec -= 1000000000;
		t->tv_sec++;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, t, NULL))
		;
}

void screen_wait(uint64_t ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	until(&t, ms);
}

int screen_loop(uint64_t every_ms, uint64_t count, int (*show)(void *arg), void *arg)
{
	bool terminal = isatty(STDOUT_FILENO);
	int code = IWCTL_OK;
	struct timespec t;

	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	for (uint64_t i = 0; (!count || i < count) && code == IWCTL_OK && !ferror(stdout); i++) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		if (terminal)
			fputs("\033[H\033[2J", stdout);
		else if (i && !iwctl.json)
			putchar('\n');
		code = show(arg);
		fflush(stdout);
		if (code == IWCTL_OK && i + 1 != count)
			until(&t, every_ms);
	}
	return code;
}
