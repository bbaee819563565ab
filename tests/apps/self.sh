# SPDX-License-Identifier: MIT
# A program that connects to itself in one thread, server and client in one event loop; and from another address of its host.
[ $mode = one ] || return 0
for from in 127.0.0.1 127.0.0.2; do
	counts_begin $S $C
	got=$(host_exec_iw $C timeout 600 "$PY" "$NET" self 127.0.0.1 7500 "$from" 10 500 2>&1)
	is "$got" "10 connections, 500 rounds each" "$T: from $from"
	counts_end "$T: from $from" 10 none
done
