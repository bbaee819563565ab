#!/bin/bash
# SPDX-License-Identifier: MIT
# iwctl service on a machine with systemd: servers of Debian's as their own units, aliases, instances, templates, what stands in the way,
# and that "off" leaves everything as it was; iwrun and iwctl doctor there.
. "$(dirname "$0")/machine.sh"
B=build/${IW_BUILD##*/}
machines_up 1

m 1 make -s -C /src B="$B" install >"$RIG_DIR/install" 2>&1 && m 1 systemctl enable -q --now iwarpd
ok $? "installed" || sed 's/^/# /' "$RIG_DIR/install"
says() { m 1 iwctl service "$@" 2>&1; }
# verdicts of a check that are not ok, as "check verdict"
not_ok() { m 1 iwctl -j service "$1" check | json "' '.join(sorted({r['check'] + '=' + r['verdict'] for r in d['checks'] if r['verdict'] != 'ok'}))"; }
main_pid() { m 1 systemctl show -P MainPID "$1"; }

# units of our own: what stands in the way, with a program that only waits
sh_in 1 'cp /bin/sleep /usr/local/bin/iwt-suid; chmod u+s /usr/local/bin/iwt-suid
	unit() { printf "[Service]\nExecStart=%s\n" "$2" >"/etc/systemd/system/$1"; shift 2; for l; do echo "$l" >>"/etc/systemd/system/$u"; done; }
	u=iwt-has.service; unit $u "/bin/sleep 1000" "Environment=LD_PRELOAD=/lib/x86_64-linux-gnu/libz.so.1 A=b" RestrictAddressFamilies=AF_INET
	u=iwt-none.service; unit $u "/bin/sleep 1000" RestrictAddressFamilies=none "NoExecPaths=/usr/local" "SystemCallFilter=~kcmp" InaccessiblePaths=/run/iwarpd PrivateNetwork=yes
	u=iwt-unset.service; unit $u "/bin/sleep 1000" UnsetEnvironment=LD_PRELOAD
	u=iwt-file.service; unit $u "/bin/sleep 1000" EnvironmentFile=/etc/default/iwt; echo "LD_PRELOAD=/lib/x86_64-linux-gnu/libz.so.1" >/etc/default/iwt
	u=iwt-suid.service; unit $u "/usr/local/bin/iwt-suid 1000"
	u=iwt@.service; unit $u "/bin/sleep 100%i"
	mkdir /etc/systemd/system/iwt-unset.service.d
	printf "upgrade_after 0\n" >>/etc/iwsock/iwsock.conf
	# without the end of its line
	printf "LD_PRELOAD = %s/lib/x86_64-linux-gnu/libz.so.1%s" "'\''" "'\''" >>/etc/postgresql/15/main/environment
	systemctl daemon-reload; systemctl start iwt-has iwt-none iwt@1 iwt@2 memcached postgresql@15-main'
ok $? "services run" || m 1 journalctl -q --no-pager -n 30 | sed 's/^/# /'
unit_files 1 >"$RIG_DIR/units"

# a systemd that has something else to do for a while
kill -STOP "${MACHINE_INIT[1]}"
{ sleep 4; kill -CONT "${MACHINE_INIT[1]}"; } &
resumed=$!
out=$(says redis on --dry-run)
is "$? $(grep -c '^would write /etc/systemd/system/redis-server.service.d/iwsock.conf:$' <<<"$out")" "0 1" "systemd takes four seconds to answer: it is waited for" || diag "$out"
wait $resumed

out=$(says redis on --dry-run)
is "$? $(grep -c '^would write /etc/systemd/system/redis-server.service.d/iwsock.conf:$' <<<"$out") $(grep -c '^ExecPaths="/usr/local/lib"$' <<<"$out")" "0 1 1" \
	"an alias is its unit, where execution is forbidden; --dry-run shows" || diag "$out"
is "$(unit_files 1 | diff "$RIG_DIR/units" -)" "" "and changes nothing"
is "$(not_ok redis-server)" "drop-in=bad process=bad" "check before: neither drop-in nor library" || diag "$(says redis-server check)"
old=$(main_pid redis-server)
out=$(says redis-server on)
is "$? $(grep -c 'runs as before until it is restarted: systemctl restart redis-server.service' <<<"$out") $(main_pid redis-server)" "0 1 $old" "on, and not restarted" || diag "$out"
is "$(not_ok redis-server)" "process=bad" "check: it runs without yet"
out=$(says redis-server on)
is "$? $out" "0 redis-server.service is on already.
'iwctl service redis-server.service check' says whether it works." "on twice"
m 1 systemctl restart redis-server
out=$(says redis-server check)
is "$? $(grep -c "redis-server\[$(main_pid redis-server)\] has libiwsock.so at work" <<<"$out")" "0 1" "restarted: check says yes" || diag "$out"

for s in memcached iwt-has iwt-none; do
	out=$(says $s on --restart)
	is "$? $(grep -c "^restarted $s.service$" <<<"$out")" "0 1" "$s: on, restarted" || diag "$out"
done
is "$(not_ok memcached)" "" "memcached: check" || diag "$(says memcached check)"
is "$(not_ok iwt-has)" "" "a unit that preloads something, without AF_UNIX: check" || diag "$(says iwt-has check; m 1 systemctl cat iwt-has)"
is "$(sh_in 1 'tr "\0" "\n" </proc/$(systemctl show -P MainPID iwt-has)/environ | grep -E "^(LD_PRELOAD|A)="' | sort | tr '\n' ' ')" \
	"A=b LD_PRELOAD=/usr/local/lib/libiwsock.so:/lib/x86_64-linux-gnu/libz.so.1 " "its environment has both" 
is "$(m 1 systemctl show -P RestrictAddressFamilies iwt-has iwt-none | grep . | sort | tr '\n' ' ')" "AF_INET AF_UNIX AF_UNIX " "and AF_UNIX"
is "$(not_ok iwt-none)" "network=warn run directory=bad system calls=bad" "a unit that forbids much: check names it" || diag "$(says iwt-none check)"
# the same by hand, and wrong: what the loader gives up is not at work
sh_in 1 'sed -i "/ExecPaths/d" /etc/systemd/system/iwt-none.service.d/iwsock.conf; systemctl daemon-reload; systemctl restart iwt-none'
case " $(not_ok iwt-none) " in *" drop-in=bad "*" process=bad "*) pass "one that may not execute it: check says so" ;; *) fail "one that may not execute it"; diag "$(says iwt-none check)" ;; esac
out=$(m 1 iwctl why "$(main_pid iwt-none)" 2>&1)
is "$(grep -c 'could not load it' <<<"$out")" 1 "and so does why" || diag "$out"
says iwt-none on >/dev/null

for s in iwt-unset:'UnsetEnvironment=' iwt-file:'/etc/default/iwt sets LD_PRELOAD' postgresql:'starts no server itself: postgresql@15-main do' iwt-missing:'there is no service' \
	iwarpd.socket:'is no service' ../x:'not the name of a service'; do
	out=$(says "${s%%:*}" on)
	case $? in 1 | 2) grep -q "${s#*:}" <<<"$out" ;; *) false ;; esac
	ok $? "${s%%:*} on: cannot be, and why" || diag "$out"
done
is "$(not_ok iwt-suid)" "drop-in=bad process=warn program=bad" "a set-user-ID program: check" || diag "$(says iwt-suid check)"

out=$(says iwt@ on --restart)
is "$? $(grep -c '^restarted iwt@[12].service$' <<<"$out")" "0 2" "a template: its instances are restarted" || diag "$out"
is "$(not_ok iwt@) $(not_ok iwt@2)" " " "check of it and of an instance" || diag "$(says iwt@2 check)"
out=$(says iwt@2 off)
is "$? $(grep -c "has it by its template: 'iwctl service iwt@.service off'" <<<"$out")" "1 1" "off of an instance that has it by its template" || diag "$out"

out=$(says postgresql@15-main on --restart)
is "$? $(not_ok postgresql@15-main)" "0 " "PostgreSQL: its environment file" || { diag "$out"; diag "$(says postgresql@15-main check)"; }
is "$(unit_files 1 | diff "$RIG_DIR/units" - | grep -c 'postgresql@15-main.service.d')" 0 "and nothing else"
is "$(sh_in 1 'tr "\0" "\n" </proc/$(systemctl show -P MainPID postgresql@15-main)/environ | grep ^LD_PRELOAD=')" \
	"LD_PRELOAD=/usr/local/lib/libiwsock.so:/lib/x86_64-linux-gnu/libz.so.1" "the server has both"
sh_in 1 'su postgres -c "psql -qc \"alter user postgres password '\''x'\''\""'
joined() { sh_in 1 'yes "select 1;" | head -n 2000 | PGPASSWORD=x iwrun psql -h 127.0.0.1 -U postgres -qAt'
	[ "$(m 1 iwctl -j status | json "d['ends_joined'] > 0")" = True ]; }
until_true 20 joined
ok $? "psql by iwrun and the server are joined" || m 1 iwctl reasons | sed 's/^/# /'

is "$(m 1 iwctl -j service redis-server on --dry-run | json "sorted(d)")" \
	"['changed', 'drop_in', 'dry_run', 'environment_file', 'text', 'unit']" "names of on --json"
is "$(m 1 iwctl -j service redis-server check | json "sorted(d) + sorted(d['checks'][0])")" "['checks', 'ok', 'subject', 'check', 'text', 'verdict']" "names of check --json"
out=$(m 1 setpriv --reuid 65534 --regid 65534 --clear-groups iwctl service nginx on 2>&1)
is "$? $(grep -c 'Permission denied. Ask as root' <<<"$out")" "4 1" "nobody may not write" || diag "$out"
out=$(m 1 iwctl doctor)
is "$?" 0 "doctor of a host where all is well" || diag "$out"
out=$(m 1 iwctl doctor redis-server)
is "$?" 0 "doctor of a service" || diag "$out"
m 1 systemctl stop iwarpd.service iwarpd.socket
out=$(m 1 iwctl doctor)
is "$? $(grep -c '^bad .*daemon ' <<<"$out") $(grep -c 'iwarpd.service  it is inactive' <<<"$out")" "1 1 1" "doctor without daemon" || diag "$out"

for s in redis memcached iwt-has iwt-none iwt@ postgresql@15-main; do
	out=$(says $s off --restart)
	ok $? "$s off" || diag "$out"
done
is "$(sh_in 1 'cd /etc/postgresql/15/main; mv environment was; iwctl service postgresql@15-main on >/dev/null && grep -c libiwsock environment
	iwctl service postgresql@15-main off >/dev/null; ls environment 2>&1 | grep -c "No such"; mv was environment' | tr '\n' ' ')" "1 1 " \
	"where PostgreSQL has no environment file it has none afterwards"
out=$(says redis off)
is "$? $out" "0 redis-server.service is not on: nothing to take away." "off twice"
is "$(unit_files 1 | diff "$RIG_DIR/units" -)" "" "all unit files and the environment of PostgreSQL are as before, to the last octet"
is "$(sh_in 1 'for s in redis-server memcached postgresql@15-main; do grep -c libiwsock /proc/$(systemctl show -P MainPID $s)/maps; done' | tr '\n' ' ')" "0 0 0 " "and nobody has the library"

says redis-server on >/dev/null && says postgresql@15-main on >/dev/null
m 1 make -s -C /src B="$B" uninstall >"$RIG_DIR/uninstall" 2>&1
ok $? "uninstalled while services are on" || sed 's/^/# /' "$RIG_DIR/uninstall"
but_ours() { grep -vE 'iwarpd|sockets.target.wants'; }
is "$(unit_files 1 | but_ours | diff <(but_ours <"$RIG_DIR/units") -)" "" "they are off" || sed 's/^/# /' "$RIG_DIR/uninstall"
machines_down
done_testing
