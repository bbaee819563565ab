# SPDX-License-Identifier: MIT
# socat and nc: large files in both directions, half-close with an answer after it.
need socat nc || return 0
mib=100
head -c $((mib << 20)) /dev/urandom >"$D/data"
# feed: the data, and again until its connection is upgraded: where the reader is slow and the machine busy an attempt may come to nothing
# several times, and the pauses between them get longer
feed() {
	local until=$((SECONDS + 120))
	: >"$D/fed"
	while echo >>"$D/fed" && cat "$D/data" && ! upgraded 1 && [ $SECONDS -lt $until ]; do :; done
}
# fed: the digest of what feed wrote
fed() { while read -r; do cat "$D/data"; done <"$D/fed" | sha256sum; }
# serve PROGRAM...: in the background, fed
serve() {
	feed | host_exec_iw $S timeout 600 "$@" 2>"$D/err" &
	pid=$!
	RIG_PIDS+=($pid)
}

host_bg_iw $S socat.log socat -t 60 "TCP-LISTEN:7001,bind=$A,reuseaddr,fork" EXEC:sha256sum
pid=$!
host_port $S 7001 || { fail "$T: socat listens"; return; }
counts_begin $S $C
got=$(feed | host_exec_iw $C timeout 600 socat -t 60 - "TCP:$A:7001" 2>&1)
is "$got" "$(fed)" "$T: socat, $mib MiB up, half-close, the answer comes after it"
counts_end "$T: socat up" 1 none
got=$(printf x | host_exec_iw $C timeout 600 socat -t 60 - "TCP:$A:7001" 2>&1)
is "$got" "$(printf x | sha256sum)" "$T: socat, one octet"
host_end $pid

counts_begin $S $C
serve socat -u - "TCP-LISTEN:7002,bind=$A,reuseaddr"
host_port $S 7002 || { fail "$T: socat listens"; return; }
got=$(host_exec_iw $C timeout 600 socat -u "TCP:$A:7002" - | sha256sum)
wait $pid
is "$got" "$(fed)" "$T: socat, $mib MiB down"
counts_end "$T: socat down" 1 none

[ "$mode" = two ] || [ "$LONG" ] || return 0
# nc ends at the end of the peer's data whatever it still has to send, on plain TCP too: one direction at a time.
counts_begin $S $C
serve nc -l -N "$A" 7003
host_port $S 7003 || { fail "$T: nc listens"; return; }
got=$(host_exec_iw $C timeout 600 nc "$A" 7003 </dev/null | sha256sum)
wait $pid
is "$got" "$(fed)" "$T: nc, $mib MiB down"
counts_end "$T: nc down" 1 none
for to in "$A" "$A6"; do
	host_exec_iw $S timeout 600 nc -l "$to" 7004 </dev/null >"$D/got" 2>"$D/err" &
	pid=$!
	RIG_PIDS+=($pid)
	host_port $S 7004 || { fail "$T: nc listens"; return; }
	counts_begin $S $C
	feed | host_exec_iw $C timeout 600 nc -N "$to" 7004
	ok $? "$T: nc to $to, $mib MiB up, half-close"
	wait $pid
	is "$(sha256sum <"$D/got")" "$(fed)" "$T: nc to $to, $mib MiB up"
	counts_end "$T: nc to $to" 1 none
done
