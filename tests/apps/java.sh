# SPDX-License-Identifier: MIT
# Java: the same echo by a blocking server (a thread per connection) and by one with a Selector, clients blocking and not.
need java || return 0
for kind in blocking nio; do
	host_bg_iw $S "java.$kind" java -Xshare:auto -XX:TieredStopAtLevel=1 "$RIG_TESTS/apps/Echo.java" "$kind-server" "$A" 7200
	pid=$!
	until_true 60 rig_listens $S 7200 || { fail "$T: $kind server starts"; sed 's/^/# /' "$RIG_DIR/java.$kind"; return; }
	counts_begin $S $C
	talk_until_up 20 timeout 600 java -XX:TieredStopAtLevel=1 "$RIG_TESTS/apps/Echo.java" "$kind-client" "$A" 7200 20 500 "$D/more"
	is "$got" "20 connections, 500 rounds each" "$T: $kind"
	counts_end "$T: $kind" 20 none
	host_end $pid
done
