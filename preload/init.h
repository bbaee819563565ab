/* SPDX-License-Identifier: MIT */
/* Start-up, and what was read from the environment then. */
#ifndef IW_PRELOAD_INIT_H
#define IW_PRELOAD_INIT_H

#include <stdatomic.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

void iw_init(void);
/* Switched off for this process: IWSOCK_DISABLE, secure execution, or not initialised yet. */
extern _Atomic uint32_t iw_on;
const char *iw_program(void);		/* short name */
const char *iw_conf_name(void);		/* IWSOCK_CONF, or "" */
const char *iw_rundir(int i);		/* candidates for the run directory, NULL at the end */

#pragma GCC visibility pop
#endif
