#!/bin/bash
# SPDX-License-Identifier: MIT
# What goes wrong on a machine with systemd while programs talk over iWARP: the journal is stopped, or its disk is full; /run is full, and the
# daemon is killed meanwhile; the bus is restarted. Connections go on, new ones work, and all is well afterwards.
. "$(dirname "$0")/machine.sh"
B=build/${IW_BUILD##*/}
machines_up 2

for h in 1 2; do
	m $h make -s -C /src B="$B" install >"$RIG_DIR/install.$h" 2>&1 && sh_in $h 'echo "upgrade_after 0" >>/etc/iwsock/iwsock.conf
		printf "answer_timeout = 1000\nnegative_cache = 1\n" >>/etc/iwsock/iwarpd.conf; systemctl enable -q --now iwarpd'
	ok $? "machine $h: installed" || sed 's/^/# /' "$RIG_DIR/install.$h"
	clean $h "machine $h, installed"
done
sh_in 1 'sed -i "s/^bind .*/bind 10.77.0.1/; s/^protected-mode .*/protected-mode no/; s/^save .*//" /etc/redis/redis.conf; iwctl service redis-server on --restart' >"$RIG_DIR/service" 2>&1
ok $? "redis-server with the library" || sed 's/^/# /' "$RIG_DIR/service"

# counts on one connection until it is told to end, and misses no answer; each thousand leaves a mark
# shellcheck disable=SC2016 # perl's
count='use IO::Socket::INET; my ($k, $end) = @ARGV; my $s = IO::Socket::INET->new("10.77.0.1:6379") or die "connect: $!\n"; my $n = 0;
	until (-e "/run/enough" or $end and $n >= $end) { $n++; print $s "INCR $k\r\n"; $s->flush; my $a = <$s>; $a eq ":$n\r\n" or die "$n: $a $!\n";
		if ($n % 1000 == 0) { open my $f, ">", "/dev/shm/count.$k"; print $f $n } } print "$n\n"'
MACHINE_TIMEOUT=900 m 2 env LD_PRELOAD=libiwsock.so perl -e "$count" all 0 >"$RIG_DIR/count" 2>&1 &
counts=$!
# of those that there are
paths() { m "$1" iwctl -j streams | json "' '.join(sorted({r['path'] for r in d if r['transport'] == 'iwarp'}))"; }
mapped() { [ "$(paths 1) $(paths 2)" = "mapped mapped" ]; }
until_true 60 mapped
ok $? "a connection is mapped at both ends" || m 2 iwctl streams | sed 's/^/# /'

n=0
goes_on() { # NAME: it counts, and a new one does
	was=$(m 2 cat /dev/shm/count.all)
	more() { [ "$(m 2 cat /dev/shm/count.all)" -gt $((was + 1000)) ]; }
	until_true 30 more
	ok $? "$1: the connection goes on" || sed 's/^/# /' "$RIG_DIR/count"
	n=$((n + 1))
	out=$(m 2 env LD_PRELOAD=libiwsock.so perl -e "$count" new$n 3000 2>&1)
	is "$out" 3000 "$1: a new one works"
}
accelerated() { m "$1" iwctl -j reasons | json "sum(r['as_client'] + r['as_server'] for r in d if r['reason'] == 'accelerated')"; }
well() { # NAME: and is accelerated
	local before
	clean 1 "$1, afterwards"
	before=$(accelerated 1)
	one() { n=$((n + 1)); m 2 env LD_PRELOAD=libiwsock.so perl -e "$count" new$n 3000 >/dev/null && [ "$(accelerated 1)" -gt "$before" ]; }
	until_true 30 one
	ok $? "$1, afterwards: new ones are accelerated" || { m 1 iwctl reasons; m 1 iwctl doctor; } | sed 's/^/# /'
}

# ---- the journal ----
m 1 systemctl kill -s STOP systemd-journald
goes_on "the journal stands still"
m 1 iwctl status >/dev/null
ok $? "the journal stands still: the daemon answers"
m 1 systemctl kill -s CONT systemd-journald
m 1 systemctl stop systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket 2>/dev/null
goes_on "the journal is stopped"
m 1 systemctl start systemd-journald.socket systemd-journald.service
well "the journal"

# ---- no room ----
# as small as it can be made: what is filled is memory
sh_in 1 'mount -t tmpfs -o size=1M full /var/log && mount -o remount,size=$(($(df --output=used -k /run | tail -n 1) + 256))k /run
	dd if=/dev/zero of=/var/log/fill bs=64k; dd if=/dev/zero of=/run/fill bs=4k; df --output=pcent /run /var/log | tail -n 2 | tr -d " \n"' >"$RIG_DIR/full" 2>/dev/null
is "$(cat "$RIG_DIR/full")" "100%100%" "/run and /var/log are full"
goes_on "no room"
m 1 systemctl kill -s KILL iwarpd
again() { m 1 iwctl status; }
until_true 30 again
ok $? "no room: a daemon that was killed comes back" || m 1 systemctl status --no-pager iwarpd | sed 's/^/# /'
goes_on "no room, a new daemon"
sh_in 1 'rm /run/fill; mount -o remount,size=64M /run; umount /var/log'
well "no room"

# ---- the bus ----
m 1 systemctl restart dbus
goes_on "the bus is restarted"
until_true 30 m 1 iwctl --system status
ok $? "the bus is restarted: the daemon has its name again"
well "the bus"

m 2 touch /run/enough
wait $counts
is $? 0 "the connection has seen no error, from beginning to end" || sed 's/^/# /' "$RIG_DIR/count"
machines_down
done_testing
