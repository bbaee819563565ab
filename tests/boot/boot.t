#!/bin/bash
# SPDX-License-Identifier: MIT
# The first hour on a machine that has never seen it: make install, systemctl enable, restarts, kills, wrong settings, servers of the
# distribution under their own units, make uninstall. With a real systemd, twice.
. "$(dirname "$0")/machine.sh"
B=build/${IW_BUILD##*/}
machines_up 2

dial() { m 2 timeout 10 bash -c 'exec 3<>/dev/tcp/10.77.0.1/874'; }

for h in 1 2; do
	state $h >"$RIG_DIR/before.$h"
	m $h make -s -C /src B="$B" install >"$RIG_DIR/install.$h" 2>&1
	ok $? "machine $h: make install" || sed 's/^/# /' "$RIG_DIR/install.$h"
done
is "$(grep -v '^  INST ' "$RIG_DIR/install.1" | tail -n 1)" "Now: systemctl enable --now iwarpd" "it says what comes next"
is "$(grep -cE 'install -|&&|[{}]' "$RIG_DIR/install.1")" 0 "and shows no shell" || sed 's/^/# /' "$RIG_DIR/install.1"
# answers may take time on a busy machine
for h in 1 2; do
	sh_in $h 'printf "answer_timeout = 1000\n" >>/etc/iwsock/iwarpd.conf'
	m $h systemctl enable -q --now iwarpd
	ok $? "machine $h: systemctl enable --now iwarpd"
	clean $h "machine $h, enabled"
	until_true 10 m $h iwctl --system status
	ok $? "machine $h: the bus has it at once"
	is "$(complaints $h)" "" "machine $h: the journal has no complaint"
done
is "$(m 1 systemctl show -P User iwarpd.service) $(sh_in 1 'stat -c %U /proc/$(systemctl show -P MainPID iwarpd)/exe /run/iwarpd' | sort -u)" "iwarpd iwarpd" "it runs as a user of its own"
is "$(m 1 systemd-analyze verify --man=no iwarpd.service iwarpd.socket iwarp-metrics.socket 2>&1)" "" "systemd-analyze verify"
figure=$(m 1 systemd-analyze security --no-pager iwarpd.service | sed -n 's/.*exposure level for iwarpd.service: \([0-9]*\)\.\([0-9]\).*/\1\2/p')
at_most "${figure:-99}" 13 "systemd-analyze security, in tenths"

is "$(MACHINE_TIMEOUT=120 sh_in 1 'for i in {1..20}; do systemctl restart iwarpd || echo $i; done' 2>&1)" "" "twenty restarts after one another"
clean 1 "restarted"
dial
ok $? "and other hosts get through"
m 1 systemctl stop iwarpd.service iwarpd.socket && m 1 systemctl start iwarpd
ok $? "stop and start"
clean 1 "started"
is "$(complaints 1)" "" "the journal has no complaint"

for i in 1 2 3; do
	old=$(main_pid 1)
	sh_in 1 "kill -9 $old"
	again() { active 1 && [ "$(main_pid 1)" != "$old" ]; }
	until_true 20 again
	ok $? "killed, $i: it comes back"
done
clean 1 "killed"
old=$(main_pid 1)
sh_in 1 'cp -p /etc/iwsock/iwarpd.conf /root/ && printf "ring_size = 64K\n" >>/etc/iwsock/iwarpd.conf'
m 1 systemctl reload iwarpd
ok $? "systemctl reload" || m 1 journalctl -q -n 20 -u iwarpd | sed 's/^/# /'
until_true 10 sh_in 1 'journalctl -q -o cat -u iwarpd | grep "settings were read again; changed: ring_size"'
is "$? $(main_pid 1)" "0 $old" "the daemon has other settings, and goes on"
sh_in 1 'printf "max_ird = 99\n" >>/etc/iwsock/iwarpd.conf'
m 1 systemctl reload iwarpd >/dev/null 2>&1
is "$? $(main_pid 1) $(m 1 systemctl is-active iwarpd)" "1 $old active" "with wrong settings it fails, and the daemon goes on"
sh_in 1 'mv /root/iwarpd.conf /etc/iwsock/'
m 1 systemctl reload iwarpd
ok $? "and with right ones it does not"
clean 1 "reloaded"

# metrics over HTTP, for who wants them
is "$(m 1 systemctl is-enabled iwarp-metrics.socket) $(m 1 systemctl is-active iwarp-metrics.socket)" "disabled inactive" "no metrics unless they are asked for"
m 1 systemctl enable -q --now iwarp-metrics.socket
is "$(m 1 curl -sS -m 20 -w '%{http_code}' http://127.0.0.1:9874/metrics 2>&1 | tail -n 2 | tr '\n' ' ')" "# EOF 200" "metrics" || m 1 journalctl -q -u 'iwarp-metrics*' | sed 's/^/# /'
is "$(m 1 systemctl list-units --failed --plain --no-legend 'iwarp*')" "" "no unit has failed by it"
# a container's systemd may not touch the loopback of PrivateNetwork=, which nothing needs
is "$(m 1 journalctl -q -o cat -p warning -u 'iwarp-metrics*' | grep -v 'loopback network device, ignoring')" "" "and the journal has no complaint"
m 1 systemctl disable -q --now iwarp-metrics.socket

m 1 systemctl stop iwarpd.service
is "$(m 1 systemctl is-active iwarpd.service)" inactive "stopped, but for its socket"
dial
ok $? "a connection comes"
clean 1 "a connection came"

# wrong settings: said before, said after, no end of trying, and all is well when they are right
sh_in 1 'cp -p /etc/iwsock/iwarpd.conf /root/ && printf "\nmax_ird = 99\n" >>/etc/iwsock/iwarpd.conf'
line=$(sh_in 1 'wc -l </etc/iwsock/iwarpd.conf')
said=$(m 1 iwarpd --check 2>&1)
is "$? $said" "2 iwarpd: error: /etc/iwsock/iwarpd.conf:$line: max_ird = 99: not accepted; give 1 to 32" "iwarpd --check says what is wrong"
clean 1 "checked"
m 1 systemctl restart iwarpd >/dev/null 2>&1
is "$? $(m 1 systemctl is-failed iwarpd.service)" "1 failed" "a restart fails"
is "$(m 1 systemctl show -P Result -P ExecMainStatus -P NRestarts iwarpd.service | tr "\n" " ")" "exit-code 0 2 " "and is not tried again and again"
sh_in 1 'journalctl --sync; journalctl -q -o cat -u iwarpd | grep -q "max_ird = 99: not accepted"'
ok $? "the journal says why"
dial
fails() { [ "$(m 1 systemctl is-failed iwarpd.service)" = failed ]; }
until_true 10 fails
ok $? "nor does a connection help"
m 1 mv /root/iwarpd.conf /etc/iwsock/iwarpd.conf
m 1 systemctl restart iwarpd
ok $? "right again: a restart works"
clean 1 "right again"

# servers of the distribution
servers_with_library 1 NoNewPrivileges=yes ProtectSystem=strict "ReadWritePaths=/run /var/lib/nginx /var/log/nginx" ProtectHome=yes PrivateTmp=yes \
	"RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX"
accelerated() { m "$1" iwctl -j reasons | json "sum(r['as_client'] + r['as_server'] for r in d if r['reason_number'] == 0)"; }
lib() { m 2 env LD_PRELOAD=libiwsock.so "$@"; }

# with the limits that are the default: what lasts is upgraded, what is over soon is not
before=$(accelerated 1)
MACHINE_TIMEOUT=300 lib redis-benchmark -h 10.77.0.1 -c 4 -n 100000 -t set,get --csv >"$RIG_DIR/benchmark" 2>&1 &
client=$!
streams() { m "$1" iwctl -j streams | json "sorted({r['program'] for r in d if 'redis' in r['program'] and r['transport'] == 'iwarp'})"; }
both() { [ "$(streams 1)$(streams 2)" = "['redis-server']['redis-benchmark']" ]; }
until_true 20 both
ok $? "redis-benchmark's connections are iwarp at both ends" || { m 1 iwctl streams; m 2 iwctl streams; } | sed 's/^/# /'
wait $client
is "$? $(grep -cE '^"(SET|GET)"' "$RIG_DIR/benchmark")" "0 2" "redis-benchmark" || sed 's/^/# /' "$RIG_DIR/benchmark"
at_least $(($(accelerated 1) - before)) 8 "its connections were accelerated"
before=$(accelerated 1)
lib redis-cli -h 10.77.0.1 set key value >/dev/null
is "$(m 2 redis-cli -h 10.77.0.1 get key)" value "what redis-cli wrote with the library is read without"
is "$(accelerated 1)" "$before" "neither is accelerated"
before=$(accelerated 2)
page=/var/www/html/index.nginx-debian.html
is "$(MACHINE_TIMEOUT=300 sh_in 2 'LD_PRELOAD=libiwsock.so curl -sS --max-time 250 "http://10.77.0.1/index.nginx-debian.html?[1-20000]" | sha256sum')" \
	"$(sh_in 1 "yes $page | head -n 20000 | xargs cat | sha256sum")" "nginx to curl, 20000 times a page on one connection: every octet"
at_least $(($(accelerated 2) - before)) 1 "it was accelerated"
before=$(accelerated 2)
is "$(MACHINE_TIMEOUT=300 sh_in 2 'LD_PRELOAD=libiwsock.so curl -sS --max-time 250 "http://10.77.0.1/blob?[1-64]" | sha256sum')" \
	"$(sh_in 1 'for i in {1..64}; do cat /var/www/html/blob; done | sha256sum')" "nginx to curl, 64 times a large file: every octet"
is "$(accelerated 2)" "$before" "which sendfile() does as fast: it stays plain TCP"
for h in 1 2; do
	clean $h "machine $h, used"
done
is "$(m 1 journalctl -q -o cat -p warning -u redis-server -u nginx)" "" "nor do redis-server and nginx complain"
servers_without_library 1

# one with settings that were changed, one without
sh_in 2 'cp /src/conf/iwarpd.conf /etc/iwsock/iwarpd.conf'
for h in 1 2; do
	m $h make -s -C /src B="$B" uninstall >"$RIG_DIR/uninstall.$h" 2>&1
	ok $? "machine $h: make uninstall" || sed 's/^/# /' "$RIG_DIR/uninstall.$h"
	state $h >"$RIG_DIR/after.$h"
done
is "$(diff "$RIG_DIR/before.1" "$RIG_DIR/after.1")" "$(diff "$RIG_DIR/before.1" <(sort "$RIG_DIR/before.1" - <<<"/etc/iwsock/iwarpd.conf"))" "nothing is left but changed settings"
is "$(diff "$RIG_DIR/before.2" "$RIG_DIR/after.2")" "" "nothing is left"
m 2 make -s -C /src B="$B" install >"$RIG_DIR/install.2" 2>&1 && m 2 systemctl enable -q --now iwarpd
ok $? "and installed once more"
clean 2 "installed once more"
machines_down
done_testing
