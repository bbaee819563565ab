// SPDX-License-Identifier: MIT
/* iwctl status: the daemon, its settings and totals. */
#include "iwctl.h"

#include <stdio.h>
#include <string.h>

#include "bus.h"
#include "out.h"

static const char *on(const json_t *o, const char *key)
{
	return iwctl_true(o, key) ? "on" : "off";
}

static unsigned long long num(const json_t *o, const char *key)
{
	return iwctl_num(o, key);
}

/* Quotas that said no: key of Status, what it counts, setting. */
static void refusals(const json_t *s)
{
	static const struct { const char *key, *what, *setting; } rows[] = {
		{ "refused_streams", "streams", "max_streams, or LimitNOFILE= of the daemon" }, { "refused_memory", "memory", "max_memory" },
		{ "refused_stags", "STags", "max_stags" }, { "refused_reads", "Read slots", "max_reads" },
		{ "refused_cq_entries", "CQ entries", "max_cq_entries" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (num(s, rows[i].key))
			printf("over quota     %llu times for %s (%s)\n", num(s, rows[i].key), rows[i].what, rows[i].setting);
	}
}

static void ipsec(const json_t *s)
{
	const char *state = iwctl_str(s, "require_ipsec", "off");

	if (!strcmp(state, "on"))
		printf("require_ipsec  on, %llu policies in and out\n", num(s, "ipsec_policies"));
	else if (strcmp(state, "off"))
		printf("require_ipsec  %sthe kernel's policies cannot be read: nothing to other hosts is accelerated%s\n", iwctl_colour(BAD),
		       iwctl_colour(PLAIN));
}

static unsigned long long messages(const json_t *s, char direction)
{
	static const char *const kinds[] = { "sends", "writes", "immediates", "reads", "read_responses", "atomics" };
	unsigned long long sum = 0;
	char key[32];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		snprintf(key, sizeof(key), "%cx_%s", direction, kinds[i]);
		sum += num(s, key);
	}
	return sum;
}

int status_main(int argc, char **argv)
{
	char up[32], tx[16], rx[16], ring[16], threshold[16], mem[16];
	json_t *s;
	int code = iwctl_query("Status", &s);

	if (code != IWCTL_OK)
		return code;
	if (iwctl.json)
		return iwctl_print_json(s);
	printf("%siwarpd %s%s, pid %llu, user %llu, up %s\n", iwctl_colour(BOLD), iwctl_str(s, "version", "?"), iwctl_colour(PLAIN),
	       num(s, "pid"), num(s, "uid"), iwctl_duration(iwctl_num(s, "uptime_ms"), up));
	printf("run directory  %s%s\n", iwctl_str(s, "run_dir", "?"), iwctl_true(s, "system_bus") ? " (and on the system bus)" : "");
	printf("control port   %llu\n", num(s, "control_port"));
	printf("settings       crc %s, markers %s, large FPDUs %s, ring %s, inline up to %llu, Read from %s\n", on(s, "crc"),
	       on(s, "markers"), on(s, "large_fpdu"), iwctl_bytes(iwctl_num(s, "ring_size"), ring), num(s, "inline_max"),
	       iwctl_num(s, "read_threshold") ? iwctl_bytes(iwctl_num(s, "read_threshold"), threshold) : "never");
	ipsec(s);
	printf("programs       %llu connected\n", num(s, "programs"));
	printf("peers          %llu with iwarpd\n", num(s, "peers"));
	printf("streams        %llu iwarp, %llu local, %llu pending, %llu closing\n", num(s, "streams_iwarp"),
	       num(s, "streams_local"), num(s, "streams_pending"), num(s, "streams_closing"));
	printf("plain TCP      %llu, %llu of them proposed; and %llu relayed\n", num(s, "plain"), num(s, "proposed"), num(s, "streams_relay"));
	printf("octets         %s sent, %s received since it started; those within the host are not counted\n", iwctl_bytes(iwctl_num(s, "tx_bytes"), tx),
	       iwctl_bytes(iwctl_num(s, "rx_bytes"), rx));
	printf("messages       %llu sent, %llu received, in %llu and %llu FPDUs\n", messages(s, 't'), messages(s, 'r'), num(s, "tx_fpdus"), num(s, "rx_fpdus"));
	printf("ended          %llu streams; see iwctl streams --ended\n", num(s, "ended"));
	printf("STags          %llu\n", num(s, "stags"));
	printf("set aside      %s memory, %llu STags, %llu Read slots, %llu CQ entries\n", iwctl_bytes(iwctl_num(s, "used_memory"), mem),
	       num(s, "used_stags"), num(s, "used_reads"), num(s, "used_cq_entries"));
	refusals(s);
	json_decref(s);
	return IWCTL_OK;
}
