/* SPDX-License-Identifier: MIT */
/* The sub-commands of iwctl, its exit codes, and the options that all of them know. */
#ifndef IWCTL_H
#define IWCTL_H

#include <stdbool.h>

enum {				/* exit codes, see iwctl(8) */
	IWCTL_OK = 0,
	IWCTL_NO = 1,		/* the answer is no: check failed, nothing matched, the policy file has an error */
	IWCTL_USAGE = 2,
	IWCTL_NO_DAEMON = 3,
	IWCTL_FAILED = 4,	/* the daemon answered with an error, or with something we do not understand; output could not be written */
};

struct iwctl {
	bool json, system, colour;
	const char *run_dir;	/* NULL: look for it */
	unsigned int patience_ms;	/* until an answer of the daemon; 0: what is usual */
};
extern struct iwctl iwctl;

/* Those, behind the name of a sub-command that has options of its own, too: getopt's letters and rows. */
#define IWCTL_LETTERS "jr:s"
#define IWCTL_OPTIONS { "json", no_argument, NULL, 'j' }, { "run-dir", required_argument, NULL, 'r' }, { "system", no_argument, NULL, 's' }
bool iwctl_option(int letter);		/* false: it is not one of them */
int iwctl_options_fit(void);		/* when all are read: IWCTL_OK, or IWCTL_USAGE when they exclude each other */

/* A sub-command, in the file of its name; argv[0] is its name. Returns an exit code. */
int status_main(int argc, char **argv);
int lists_main(int argc, char **argv);		/* streams, peers, devices, stags, reasons */
int metrics_main(int argc, char **argv);
int top_main(int argc, char **argv);
int events_main(int argc, char **argv);
int why_main(int argc, char **argv);
int check_main(int argc, char **argv);
int check_policy_main(int argc, char **argv);
int upgrade_main(int argc, char **argv);	/* upgrade, downgrade */
int close_main(int argc, char **argv);
int rping_main(int argc, char **argv);
int service_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int report_main(int argc, char **argv);

#endif
