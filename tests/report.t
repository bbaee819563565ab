#!/bin/bash
# SPDX-License-Identifier: MIT
# iwctl report: what is in the bundle with a daemon, without, and with one that hangs, and programs that hang or are not there; and what is not in it:
# canaries in a unit, in comments, in the environment and the arguments of a program with the library.
. "$(dirname "$0")/lib/rig.sh"
rig_need python3 tar gzip
rig_up 2
ctl=$IW_BUILD/iwctl

# what systemd, the journal and the firewall would say
mkdir "$RIG_DIR/bin"
says() { cat >"$RIG_DIR/bin/$1" && chmod 755 "$RIG_DIR/bin/$1"; }
says systemctl <<'EOF'
#!/bin/sh
[ "$1" = cat ] || { echo "systemctl $1"; exit 0; }
cat <<'EOT'
# /lib/systemd/system/iwarpd.service
[Service]
ExecStart=/usr/sbin/iwarpd -o max_ird=16
ExecStartPost=-/usr/bin/curl -H canary-1 https://example.org
LimitNOFILE=1048576

# /etc/systemd/system/iwarpd.service.d/local.conf
# the password is canary-2
[Service]
Environment=PASSWORD=canary-3 "LD_PRELOAD=/lib/libkept.so" 'TOKEN=a canary-4' IWSOCK_RUNDIR=/run/kept
Environment = "MORE=canary-5" \
# canary-6
	SECOND=canary-7 \
	"THIRD=canary 8"
Environment="OPEN=canary-9
Environment=A=\"x canary-10
SetCredential=key:canary-11
StandardInputText=canary-12
MemoryMax=75%
EOT
EOF
says nft <<'EOF'
#!/bin/sh
cat <<'EOT'
table inet filter { # handle
	chain input {
		type filter hook input priority filter; policy drop;
		tcp dport 874 accept comment "canary-13"
		tcp dport { 22, 800-900 } accept
		ip saddr 192.0.2.99 tcp dport 4711 accept comment "canary-14"
	}
}
EOT
EOF
says journalctl <<'EOF'
#!/bin/sh
echo begun
sleep 1000
EOF

# a program with the library that has secrets in its environment and arguments
host_bg_iw 2 server.log python3 "$RIG_TESTS/lib/talk.py" server 10.77.0.2 7001
host_port 2 7001
host_told 1 c env SECRET=canary-20 python3 "$RIG_TESTS/lib/talk.py" client 10.77.0.2 7001 0
c=$!
mapped() { tell c 20 && [ "$(stream_count 1 "r['path'] == 'mapped'")" = 1 ]; }
until_true 20 mapped
ok $? "a connection is mapped" || diag "$(host_ctl 1 streams)"

n=0
report() { # OPTION...: into the directory $got; what it says is in $out
	n=$((n + 1))
	got=$RIG_DIR/got$n
	mkdir "$got"
	out=$(host_exec 1 env PATH="$RIG_DIR/bin:$PATH" OTHER=canary-21 TMPDIR="$RIG_DIR" "$ctl" --run-dir "$(host_dir 1)" report -o "$got/r.tar.gz" "$@" 2>&1)
	code=$?
	tar -xzf "$got/r.tar.gz" -C "$got" 2>&1
}
part() { cat "$got/iwsock-report/$1"; }
why() { sed -n "s/^$1  *//p" "$got/iwsock-report/index.txt"; }
no_canaries() {
	is "$(grep -rhoE 'canary[- ][0-9]*' "$got/iwsock-report" | sort -u | tr '\n' ' ')" "" "$1: no canary is in it" || grep -r canary "$got/iwsock-report" | sed 's/^/# /'
	is "$(find "$RIG_DIR" -maxdepth 1 -name 'iwctl-report*')" "" "$1: nothing else is left"
}

# ---- with a daemon ----
report
is "$code $(stat -c %a "$got/r.tar.gz") $(grep -c '^Wrote ' <<<"$out") $(grep -c '^Not in it: ' <<<"$out")" "0 600 1 1" "it is written, for its owner, and said" || diag "$out"
no_canaries "with a daemon"
is "$(part status.json | json "d['programs']") $(part streams.json | json "d[0]['path']") $(grep -c mapped "$got/iwsock-report/streams.txt")" "1 mapped 1" "it has what the daemon says" || diag "$out"
is "$(part doctor.json | json "d['subject']") $(part metrics.txt | tail -n 1) $(part reasons.json | json "len(d) > 20") $(part check-1.txt | grep -c 'answers at port')" "this host # EOF True 1" \
	"doctor, metrics, reasons, check" || part check-1.txt | sed 's/^/# /'
is "$(part sysctl.txt | grep -c 'net/ipv4/tcp_[rw]mem: ') $(part sysctl.txt | grep -c fastopen_key) $(part iwarpd-limits.txt | grep -c 'Max open files') $(part versions.txt | grep -c '^\(iwctl\|library\|Linux\|glibc\) ')" "2 0 1 4" \
	"sysctls, limits, versions" || part versions.txt | sed 's/^/# /'
is "$(part units.txt)" "# /lib/systemd/system/iwarpd.service
[Service]
ExecStart=/usr/sbin/iwarpd -o max_ird=16
ExecStartPost=-/usr/bin/curl (removed)
LimitNOFILE=1048576
# /etc/systemd/system/iwarpd.service.d/local.conf
[Service]
Environment= PASSWORD=(removed) \"LD_PRELOAD=/lib/libkept.so\" TOKEN=(removed) \"IWSOCK_RUNDIR=/run/kept\"
Environment= MORE=(removed) SECOND=(removed) THIRD=(removed)
Environment= (removed)
Environment= A=(removed) (removed)
SetCredential=(removed)
StandardInputText=(removed)
MemoryMax=75%" "units are there, but for secrets"
is "$(part nftables.txt)" 'table inet filter { # handle
	chain input {
		type filter hook input priority filter; policy drop;
		tcp dport 874 accept (removed)
		tcp dport { 22, 800-900 } accept
	}
}' "of the firewall what is about the control port"
is "$(why journal.txt) $(grep -c 'journal.txt .*not within 3 s' <<<"$out") $(part journal.txt | head -n 1)" "not within 3 s 1 begun" "a program that hangs is a line"
out=$(host_exec 1 "$ctl" report -o "$got/r.tar.gz" 2>&1)
is "$? $(grep -c 'File exists' <<<"$out")" "4 1" "what is there is not overwritten" || diag "$out"
ln -s "$RIG_DIR/elsewhere" "$RIG_DIR/link"
"$ctl" report -o "$RIG_DIR/link" 2>/dev/null
is "$? $(find "$RIG_DIR/elsewhere" 2>/dev/null)" "4 " "nor is a link followed"
"$ctl" report something 2>/dev/null
is $? 2 "usage"

# ---- one that hangs ----
rm "$RIG_DIR/bin/journalctl"
kill -STOP "$(daemon_pid 1)"
report --json
is "$code $(json "(sorted(d), sorted(d['parts'][0]), d['root'])" <<<"$out")" "0 (['file', 'octets', 'parts', 'root'], ['ok', 'part'], True)" "a daemon that hangs: --json" || diag "$out"
is "$(part status.txt | grep -c 'does not answer') $(why streams.txt) $(part doctor.txt | grep -c '^bad *daemon')" "1 no daemon answers: see status.txt 1" "is told once" || part index.txt | sed 's/^/# /'
no_canaries "a daemon that hangs"
kill -CONT "$(daemon_pid 1)"

# ---- by a user; interrupted; without a daemon ----
if command -v setpriv >/dev/null; then
	chmod 711 "$RIG_DIR"
	mkdir -m 777 "$RIG_DIR/user"
	cp "$ctl" "$RIG_DIR/iwctl"
	out=$(cd "$RIG_DIR/user" && TMPDIR="$RIG_DIR/user" setpriv --reuid 65534 --regid 65534 --clear-groups "$RIG_DIR/iwctl" --run-dir "$(host_dir 1)" report 2>&1)
	is "$? $(find "$RIG_DIR/user" -type f -name 'iwsock-report-*.tar.gz' | wc -l) $(find "$RIG_DIR/user" -mindepth 1 | wc -l) $(grep -c '^Not as root' <<<"$out")" "0 1 1 1" "another user gets one, and is told what it is" || diag "$out"
else
	skip "another user" "no setpriv"
fi
says systemctl <<'EOF'
#!/bin/sh
: >"$TMPDIR/begun"
sleep 1000
EOF
host_bg 1 interrupted.log env PATH="$RIG_DIR/bin:$PATH" TMPDIR="$RIG_DIR" "$ctl" --run-dir "$(host_dir 1)" report -o "$RIG_DIR/interrupted.tar.gz"
p=$!
until_true 20 test -e "$RIG_DIR/begun"
kill -INT "$p"
wait "$p"
is "$? $(grep -c 'gz: interrupted' "$RIG_DIR/interrupted.log") $(find "$RIG_DIR" -maxdepth 1 -name 'iwctl-report*' -o -maxdepth 1 -name 'interrupted.tar*')" "4 1 " "interrupted: nothing is left" || sed 's/^/# /' "$RIG_DIR/interrupted.log"
tell_end c "$c"
daemon_stop 1
rm "$RIG_DIR/bin/systemctl"
report
is "$code $(part status.txt | grep -c 'no iwarpd here\|has ended') $(why peers.json)" "0 1 no daemon answers: see status.txt" "without a daemon" || diag "$out"
no_canaries "without a daemon"
done_testing
