# SPDX-License-Identifier: MIT
# A server that speaks first, on a dual-stack listener: IPv4, IPv6, and IPv4-mapped from an IPv6 socket.
host_bg_iw $S smtp.log "$PY" "$NET" smtp-server :: 7025
pid=$!
host_port $S 7025 || { fail "$T: server starts"; return; }
for to in "$A" "$A6" "::ffff:$A"; do
	counts_begin $S $C
	got=$(host_exec_iw $C timeout 600 "$PY" "$NET" smtp-client "$to" 7025 10 100 2>&1)
	is "$got" "1000 mails" "$T: server speaks first: $to"
	# shellcheck disable=SC2086
	counts_end "$T: $to" 8 $SHORT
done
host_end $pid
