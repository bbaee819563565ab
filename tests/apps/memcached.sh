# SPDX-License-Identifier: MIT
# memcached: eight connections to four threads, every value read back through another connection.
need memcached || return 0
host_bg_iw $S memcached.log memcached -u root -l "$A" -p 11211 -t 4 -m 64
pid=$!
host_port $S 11211 || { fail "$T: starts"; return; }
counts_begin $S $C
got=$(host_exec_iw $C timeout 600 "$PY" "$NET" memcached-keys "$A" 11211 4000 8 2>&1)
is "$got" "4000 keys over 8 connections" "$T: keys"
counts_end "$T" 8 none
host_end $pid
