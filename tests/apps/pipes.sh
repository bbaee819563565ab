# SPDX-License-Identifier: MIT
# socat and nc: large files in both directions, half-close with an answer after it.
need socat nc || return 0
head -c 30000000 /dev/urandom >"$RIG_DIR/data"
want=$(sha256sum <"$RIG_DIR/data")

host_bg_iw $S socat.log socat -t 60 TCP-LISTEN:7001,reuseaddr,fork EXEC:sha256sum
pid=$!
host_port $S 7001 || { fail "socat listens"; return; }
counts_begin $S $C
got=$(host_exec_iw $C timeout 600 socat -t 60 - "TCP:$A:7001" <"$RIG_DIR/data" 2>&1)
is "$got" "$want" "socat: 30 MB up, half-close, the answer comes after it"
got=$(printf x | host_exec_iw $C timeout 600 socat -t 60 - "TCP:$A:7001" 2>&1)
is "$got" "$(printf x | sha256sum)" "socat: one octet"
counts_end socat 2
host_end $pid

host_bg_iw $S socat.log socat -u "FILE:$RIG_DIR/data" TCP-LISTEN:7002,reuseaddr
pid=$!
host_port $S 7002 || { fail "socat listens"; return; }
counts_begin $S $C
got=$(host_exec_iw $C timeout 600 socat -u "TCP:$A:7002" - | sha256sum)
is "$got" "$want" "socat: 30 MB down"
counts_end "socat down" 1
host_end $pid

# nc ends at the end of the peer's data whatever it still has to send, on plain TCP too: one direction at a time.
nc_server() {
	local log=$1
	shift
	host_exec_iw $S timeout 600 nc "$@" <&0 >"$RIG_DIR/nc.got" 2>"$log" &
	pid=$!
	RIG_PIDS+=($pid)
}
nc_server "$RIG_DIR/nc.err" -l -N 7003 <"$RIG_DIR/data"
host_port $S 7003 || { fail "nc listens"; return; }
counts_begin $S $C
got=$(host_exec_iw $C timeout 600 nc "$A" 7003 </dev/null | sha256sum)
is "$got" "$want" "nc: 30 MB down"
wait $pid
counts_end nc 1
nc_server "$RIG_DIR/nc.err" -l 7004 </dev/null
host_port $S 7004 || { fail "nc listens"; return; }
counts_begin $S $C
host_exec_iw $C timeout 600 nc -N "$A" 7004 <"$RIG_DIR/data"
ok $? "nc: 30 MB up, half-close"
wait $pid
is "$(sha256sum <"$RIG_DIR/nc.got")" "$want" "nc: 30 MB up"
counts_end "nc up" 1
nc_server "$RIG_DIR/nc.err" -6 -l 7005 </dev/null
host_port $S 7005 || { fail "nc -6 listens"; return; }
counts_begin $S $C
host_exec_iw $C timeout 600 nc -N "$A6" 7005 <"$RIG_DIR/data"
wait $pid
is "$(sha256sum <"$RIG_DIR/nc.got")" "$want" "nc: IPv6"
counts_end "nc IPv6" 1
rm -f "$RIG_DIR/data" "$RIG_DIR/nc.got"
