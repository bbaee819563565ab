/* SPDX-License-Identifier: MIT */
/* Rounds of commands, little-endian, of which the next octets are taken: what the devices of the differential tests do as they are told by. */
#ifndef IW_TESTS_COMMANDS_H
#define IW_TESTS_COMMANDS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const uint8_t *cmd, *cmd_end;

static void die(const char *why)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, why);
	exit(1);
}

static const uint8_t *take(size_t n)
{
	const uint8_t *p = cmd;

	if ((size_t)(cmd_end - cmd) < n)
		die("command cut short");
	cmd += n;
	return p;
}

static uint64_t take_int(unsigned int octets)
{
	const uint8_t *p = take(octets);
	uint64_t v = 0;

	while (octets--)
		v = v << 8 | p[octets];
	return v;
}

#endif
