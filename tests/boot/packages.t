#!/bin/bash
# SPDX-License-Identifier: MIT
# The Debian packages of `make deb` on machines without network: installed, upgraded under load, beside iwd, removed and purged.
. "$(dirname "$0")/machine.sh"
[ -f "$RIG_TESTS/../build/deb/stamp" ] || skip_all "needs packages; make deb"
machines_up 2
debs=(build/deb/iwarpd_*.deb build/deb/libiwsock_*.deb)
lib=/usr/lib/$(gcc -print-multiarch 2>/dev/null || uname -m | sed 's/$/-linux-gnu/')

each() { # NAME COMMAND: on both at once; it is given the host
	local h
	for h in 1 2; do
		"$2" $h &
	done
	for h in 1 2; do
		wait -n
		ok $? "$1"
	done
}
whose() { sh_in "$1" 'dpkg-query -S /usr/bin/iwctl 2>/dev/null | cut -d: -f1; readlink /usr/bin/iwctl' | tr '\n' ' '; }

# what dpkg and apt keep of their own work
left() { state "$1" | grep -vE '^/var/lib/(dpkg/([a-z]*-old|available|lock.*|triggers/.*)|apt/.*)$'; }
for h in 1 2; do
	left $h >"$RIG_DIR/before.$h"
	older_packages $h
done
# iwd's own daemon is of no use here
for h in 1 2; do
	m $h systemctl mask -q iwd 2>/dev/null
done
sh_in 1 'dpkg -i /srv/later/*.deb' >"$RIG_DIR/apt.1" 2>&1
ok $? "machine 1 has iwd" || apt_said 1
older() { apt "$1" install /root/old/iwarpd.deb /root/old/libiwsock.deb; }
each "apt-get install, without network" older || { apt_said 1; apt_said 2; }
is "$(whose 1)" "iwd " "machine 1: /usr/bin/iwctl is iwd's"
is "$(whose 2)" "iwarpctl " "machine 2: it is ours"
for h in 1 2; do
	clean $h "machine $h, installed"
	is "$(m $h systemctl is-enabled iwarpd.service iwarpd.socket | tr '\n' ' ')" "enabled enabled " "machine $h: and enabled"
	until_true 10 m $h iwarpctl --system status
	ok $? "machine $h: the bus has it"
	is "$(complaints $h)" "" "machine $h: the journal has no complaint"
done
is "$(m 2 iwctl --version)" "$(m 2 iwarpctl --version)" "two names of one program"
is "$(m 1 systemd-analyze verify --man=no iwarpd.service iwarpd.socket iwarp-metrics.socket 2>&1)" "" "systemd-analyze verify"

# Debian's redis under its own unit, which lets programs be mapped from few directories
sh_in 1 'sed -i "s/^bind .*/bind 10.77.0.1/; s/^protected-mode .*/protected-mode no/; s/^save .*//" /etc/redis/redis.conf
	iwarpctl service redis-server on --restart' >"$RIG_DIR/service" 2>&1
ok $? "redis-server under its own unit, with the library" || sed 's/^/# /' "$RIG_DIR/service"
sh_in 1 'grep -q '"$lib"'/libiwsock.so /proc/$(systemctl show -P MainPID redis-server)/maps'
ok $? "which it has mapped"

# each counts on a connection of its own, until it is told to end, and misses no answer
# shellcheck disable=SC2016 # perl's
count='use IO::Socket::INET; my $s = IO::Socket::INET->new("10.77.0.1:6379") or die "connect: $!\n"; my $n = 0;
	until (-e "/run/enough") { $n++; print $s "INCR $$\r\n"; $s->flush; my $a = <$s>; $a eq ":$n\r\n" or die "$n: $a $!\n" } print "$n\n"'
clients=()
for i in 1 2 3 4; do
	MACHINE_TIMEOUT=600 m 2 env LD_PRELOAD=libiwsock.so perl -e "$count" >"$RIG_DIR/count.$i" 2>&1 &
	clients+=($!)
done
ids() { m "$1" iwarpctl -j streams | json "' '.join(sorted(r['id'] for r in d if r['transport'] == 'iwarp'))"; }
paths() { m "$1" iwarpctl -j streams | json "' '.join(r['path'] for r in d if r['transport'] == 'iwarp')"; }
both() { [ "$(paths 1)$(paths 2)" = "mapped mapped mapped mappedmapped mapped mapped mapped" ]; }
until_true 60 both
ok $? "four connections are mapped at both ends" || { m 1 iwarpctl streams; m 2 iwarpctl streams; } | sed 's/^/# /'
before="$(ids 1) $(ids 2)"
for h in 1 2; do
	old=$(main_pid $h)
	listens=$(sh_in $h 'systemctl show -P ActiveEnterTimestampMonotonic iwarpd.socket')
	apt $h install "${debs[@]/#//src/}"
	ok $? "machine $h: upgraded meanwhile" || apt_said $h
	clean $h "machine $h, upgraded"
	[ "$(main_pid $h)" != "$old" ]
	ok $? "machine $h: the new one runs"
	is "$(sh_in $h 'systemctl show -P ActiveEnterTimestampMonotonic iwarpd.socket')" "$listens" "machine $h: its port was open all the time"
done
same() { [ "$(ids 1) $(ids 2)" = "$before" ]; }
until_true 30 same
ok $? "the new daemons have the same streams" || diag "$before; $(ids 1) $(ids 2)"
m 2 touch /run/enough
for i in 1 2 3 4; do
	wait "${clients[i - 1]}"
	ok $? "client $i saw no error" || sed 's/^/# /' "$RIG_DIR/count.$i"
	at_least "$(cat "$RIG_DIR/count.$i")" 4096 "client $i counted"
done

# iwd goes from one and comes to the other
sh_in 1 'dpkg -r iwd' >"$RIG_DIR/apt.1" 2>&1
is "$? $(whose 1)" "0 iwarpctl " "machine 1: iwd is removed, /usr/bin/iwctl is ours" || apt_said 1
sh_in 2 'dpkg -i /srv/later/*.deb' >"$RIG_DIR/apt.2" 2>&1
is "$? $(whose 2)" "0 iwd " "machine 2: iwd is installed, /usr/bin/iwctl is iwd's" || apt_said 2
m 2 iwarpctl --system status >/dev/null
ok $? "machine 2: ours has its other name"

removed() { apt "$1" remove iwarpd libiwsock; }
each "apt-get remove" removed || { apt_said 1; apt_said 2; }
is "$(whose 1)$(whose 2)" "iwd " "/usr/bin/iwctl is where iwd is, and it only"
is "$(m 1 systemctl is-active iwarpd.service iwarpd.socket | tr '\n' ' ')" "inactive inactive " "nothing runs"
is "$(sh_in 1 'systemctl restart redis-server; systemctl show -P DropInPaths redis-server; grep -c libiwsock /proc/$(systemctl show -P MainPID redis-server)/maps')" "
0" "redis-server was turned off"
is "$(sh_in 1 'ls /etc/iwsock' | tr '\n' ' ')" "iwarpd.conf iwsock.conf " "settings stay"
purged() { apt "$1" purge iwarpd libiwsock && sh_in "$1" 'dpkg -P $(for d in /srv/later/*.deb; do dpkg-deb -f $d Package; done)' >>"$RIG_DIR/apt.$1" 2>&1 && m "$1" systemctl unmask -q iwd && m "$1" rm -r /root/old; }
each "apt-get purge" purged || { apt_said 1; apt_said 2; }
for h in 1 2; do
	left $h >"$RIG_DIR/after.$h"
	is "$(diff "$RIG_DIR/before.$h" "$RIG_DIR/after.$h")" "" "machine $h: nothing is left"
done
machines_down
done_testing
