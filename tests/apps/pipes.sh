# SPDX-License-Identifier: MIT
# socat and nc: large files in both directions, half-close with an answer after it.
need socat nc || return 0
mib=200	# on its way for as long as an upgrade may take
head -c $((mib << 20)) /dev/urandom >"$D/data"
want=$(sha256sum <"$D/data")

host_bg_iw $S socat.log socat -t 60 "TCP-LISTEN:7001,bind=$A,reuseaddr,fork" EXEC:sha256sum
pid=$!
host_port $S 7001 || { fail "$T: socat listens"; return; }
counts_begin $S $C
got=$(host_exec_iw $C timeout 600 socat -t 60 - "TCP:$A:7001" <"$D/data" 2>&1)
is "$got" "$want" "$T: socat, $mib MiB up, half-close, the answer comes after it"
counts_end "$T: socat up" 1 none
got=$(printf x | host_exec_iw $C timeout 600 socat -t 60 - "TCP:$A:7001" 2>&1)
is "$got" "$(printf x | sha256sum)" "$T: socat, one octet"
host_end $pid

host_bg_iw $S socat.log socat -u "FILE:$D/data" "TCP-LISTEN:7002,bind=$A,reuseaddr"
pid=$!
host_port $S 7002 || { fail "$T: socat listens"; return; }
counts_begin $S $C
got=$(host_exec_iw $C timeout 600 socat -u "TCP:$A:7002" - | sha256sum)
is "$got" "$want" "$T: socat, $mib MiB down"
counts_end "$T: socat down" 1 none
host_end $pid

[ "$mode" = two ] || [ "$LONG" ] || return 0
# nc ends at the end of the peer's data whatever it still has to send, on plain TCP too: one direction at a time.
nc_server() {
	local log=$1
	shift
	host_exec_iw $S timeout 600 nc "$@" <&0 >"$D/got" 2>"$log" &
	pid=$!
	RIG_PIDS+=($pid)
}
nc_server "$D/err" -l -N "$A" 7003 <"$D/data"
host_port $S 7003 || { fail "$T: nc listens"; return; }
counts_begin $S $C
got=$(host_exec_iw $C timeout 600 nc "$A" 7003 </dev/null | sha256sum)
is "$got" "$want" "$T: nc, $mib MiB down"
wait $pid
counts_end "$T: nc down" 1 none
for to in "$A" "$A6"; do
	nc_server "$D/err" -l "$to" 7004 </dev/null
	host_port $S 7004 || { fail "$T: nc listens"; return; }
	counts_begin $S $C
	host_exec_iw $C timeout 600 nc -N "$to" 7004 <"$D/data"
	ok $? "$T: nc to $to, $mib MiB up, half-close"
	wait $pid
	is "$(sha256sum <"$D/got")" "$want" "$T: nc to $to, $mib MiB up"
	counts_end "$T: nc to $to" 1 none
done
