/* SPDX-License-Identifier: MIT */
/* iwarpd.conf: "key = value" lines, '#' comments; see iwarpd.conf(5). */
#ifndef IWARPD_CONF_H
#define IWARPD_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct conf_prefix {
	uint8_t ip[16];
	uint8_t len;		/* of the IPv6 form: IPv4 /24 is 120 */
};

enum conf_map {
	CONF_MAP_NO,
	CONF_MAP_YES,
	CONF_MAP_RESTLESS,	/* taken back and given again every few milliseconds */
};

enum conf_provider {
	CONF_PROVIDER_SOFT,
	CONF_PROVIDER_AUTO,	/* an RDMA device where one reaches the other host */
};

struct conf {
	char rundir[100];		/* run_dir: where ctl.sock and bus.sock are */
	uint16_t control_port;		/* control_port, default 874 */
	bool accept_high_port;		/* trust_high_port: a control port >= 1024 is the administrator's word (try-out) */
	unsigned int answer_timeout;	/* answer_timeout ms, default 20: the longest an application waits for an answer */
	bool join_namespaces;		/* programs of other network namespaces are believed about their addresses; default no */
	bool go_at_once;		/* go = matched|at-once, default matched: when a proposed connection is switched */
	unsigned int negative_ttl;	/* negative_cache s, default 60 */
	unsigned int startup_timeout;	/* startup_timeout ms, default 5000: MPA exchange */
	unsigned int close_timeout;	/* close_timeout ms, default 5000: lingering after a Terminate */
	bool crc;			/* crc = on|off, default on */
	bool large_fpdu;		/* large_fpdu = on|off, default on */
	bool keep_congestion;		/* keep_congestion = yes|no, default no: no reno in the place of BBR where a path is short */
	enum conf_map map;		/* map, default yes: queue pairs mapped into applications */
	enum conf_provider provider;	/* provider = soft|auto, default soft: what carries streams between hosts */
	char device[64];		/* device, default *: a shell pattern of the names of devices that may be used */
	bool markers;			/* ask the peer for Markers; default off */
	uint32_t ring_size;		/* ring_size octets, default 1 MiB, power of two 64 KiB..64 MiB */
	uint32_t inline_max;		/* inline_max, default 512 */
	uint32_t srcavail_min;		/* read_threshold octets, default 256 KiB, 0 = never */
	unsigned int max_ird, max_ord;	/* default 16 */
	unsigned int max_streams;	/* per user, default 16384 */
	uint64_t max_memory;		/* per user octets, default 64 GiB */
	unsigned int max_stags, max_reads, max_cq_entries;	/* per user: room for max_streams */
	bool hide_stag_errors;		/* a peer cannot tell an STag of others from one that does not exist; default off */
	bool require_ipsec;		/* connections to other hosts only where the kernel's policies ask for ESP; default off */
	struct conf_prefix allow[32];	/* allow = prefix ... : who may use the control port; none = everybody */
	unsigned int nallow;
	int log_level;
};

void conf_default(struct conf *c);
/* Read a file. -EPERM when others than root and we may write it. 0, or -errno with a message in err that names file, line and key and says what is accepted. */
int conf_read(struct conf *c, const char *path, char *err, size_t errlen);
/* One "key = value" of the command line (-o key=value). */
int conf_set(struct conf *c, const char *key, const char *value, char *err, size_t errlen);
/* Makes c what to says, but for what cannot change while the daemon runs. Names of keys that have changed, and of those that should but stay. */
#define CONF_NAMES	512u
void conf_renew(struct conf *c, const struct conf *to, char changed[CONF_NAMES], char stays[CONF_NAMES]);
bool conf_allowed(const struct conf *c, const uint8_t ip[16]);

extern struct conf conf;

#endif
