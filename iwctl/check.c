// SPDX-License-Identifier: MIT
/* iwctl check: ask the daemon to probe the way to a server, and print what it found. */
#include "iwctl.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "addr.h"
#include "bus.h"
#include "out.h"

/* The address a program would connect to first; the daemon takes numbers only. */
static int resolve(const char *name, char numeric[NI_MAXHOST])
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG }, *ai;
	int r = getaddrinfo(name, NULL, &hints, &ai);

	if (r == 0) {
		r = getnameinfo(ai->ai_addr, ai->ai_addrlen, numeric, NI_MAXHOST, NULL, 0, NI_NUMERICHOST);
		freeaddrinfo(ai);
	}
	if (r == 0)
		return 0;
	iwctl_error("%s: %s", name, gai_strerror(r));
	return -1;
}

static int print_json(const char *host, uint16_t port, bool ok, char *text)
{
	json_t *steps = json_array();
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		json_array_append_new(steps, json_string(line));
	return iwctl_print_json(json_pack("{s:b, s:s, s:i, s:o}", "ok", ok, "address", host, "port", port, "steps", steps));
}

int check_main(int argc, char **argv)
{
	char host[IWCTL_HOST_MAX], numeric[NI_MAXHOST], *text;
	uint16_t port;
	bool ok;
	int code;

	if (!iwctl_split_addr(argv[1], host, &port) || !port) {
		iwctl_error("\"%s\" is not HOST:PORT; an IPv6 address goes into brackets: [2001:db8::1]:80", argv[1]);
		return IWCTL_USAGE;
	}
	if (resolve(host, numeric) < 0)
		return IWCTL_NO;
	code = iwctl_probe(numeric, port, &ok, &text);
	if (code != IWCTL_OK)
		return code;
	if (iwctl.json) {
		code = print_json(numeric, port, ok, text);
	} else {
		printf("%s", text);
		if (*text && text[strlen(text) - 1] != '\n')
			putchar('\n');
		printf("%s%s%s: a connection to %s port %u %s\n", iwctl_colour(ok ? GOOD : WARN), ok ? "yes" : "no", iwctl_colour(PLAIN),
		       numeric, port, ok ? "would be accelerated" : "stays plain TCP");
	}
	free(text);
	return code != IWCTL_OK ? code : ok ? IWCTL_OK : IWCTL_NO;
}
