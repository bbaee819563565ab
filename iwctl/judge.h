/* SPDX-License-Identifier: MIT */
/* What doctor and service check look at: each adds its lines to a list (verdict.h). */
#ifndef IWCTL_JUDGE_H
#define IWCTL_JUDGE_H

#include <jansson.h>
#include <stdbool.h>

#include "unit.h"

/* A process: has it the library, does that work, can it reach the daemon. restart: what starts it again, or NULL. */
void judge_process(json_t *list, unsigned int pid, const char *restart);
/* A service: its unit, what it has of ours, what of it is in the way, its processes. */
void judge_unit(json_t *list, const struct unit *u);

/* This host: library, kernel, settings, the daemon with its limits; all: and its programs. *status: what Status says, NULL without a daemon. */
void judge_host(json_t *list, bool all, json_t **status);
/* RDMA devices, where there are some, or one is wanted. */
void judge_devices(json_t *list, const json_t *status);
/* Policies and security associations, where the daemon has require_ipsec. */
void judge_ipsec(json_t *list, const json_t *status);
/* The daemon is in another network namespace than we. */
bool judge_elsewhere(const json_t *status);
/* What the daemon knows: other hosts, and the connections that match() of it is true for, by reason. */
void judge_known(json_t *list, bool (*match)(const json_t *connection, const void *arg), const void *arg);
/* The way to a server, with or without a daemon. */
void judge_way(json_t *list, const char *host, unsigned short port, const json_t *status);
/* Which rule of iwsock.conf decides about a program by its name. */
void judge_policy(json_t *list, unsigned int pid);
/* The port that daemons of this host are asked at, as the daemon or its settings say. */
unsigned int judge_port(const json_t *status);

/* The run directory that programs of this host use, as iwctl itself looks for it. */
const char *judge_rundir(void);

#endif
