# SPDX-License-Identifier: MIT
# Node, of which newer ones fill their epoll set through io_uring: echo with half-close, HTTP with keepalive. IW_NODE is the program.

# what libuv does with its set, whichever one there is here
counts_begin $S $C
env IW_TEST_NETNS_SERVER="$(host_ns $S)" IW_TEST_NETNS_CLIENT="$(host_ns $C)" IW_TEST_ADDR4="$A" \
	IW_TEST_PRELOAD_SERVER="$RIG_LIB" IW_TEST_PRELOAD_CLIENT="$RIG_LIB" \
	IW_TEST_RUNDIR_SERVER="$(host_dir $S)" IW_TEST_RUNDIR_CLIENT="$(host_dir $C)" \
	timeout -k 5 180 "$IW_BUILD/tests/sock/epoll_uring" >"$D/uring" 2>&1 </dev/null
ok $? "$T: an epoll set that an io_uring fills" || tail -n 5 "$D/uring" | sed 's/^/# /'
counts_end "$T: io_uring" 1 none

node=${IW_NODE:-node}
need "$node" || return 0
diag "$("$node" -p '"node " + process.version + ", libuv " + process.versions.uv')"
host_bg_iw $S node.log "$node" "$RIG_TESTS/apps/echo.js" server "$A" 7300
pid=$!
until_true 30 rig_listens $S 7301 || { fail "$T: server starts"; sed 's/^/# /' "$RIG_DIR/node.log"; return; }
counts_begin $S $C
talk_until_up 20 timeout 600 "$node" "$RIG_TESTS/apps/echo.js" client "$A" 7300 20 500 "$D/more"
is "$got" "20 connections, 500 rounds each" "$T: echo"
counts_end "$T: echo" 20 none
counts_begin $S $C
got=$(host_exec_iw $C timeout 600 "$node" "$RIG_TESTS/apps/echo.js" http-client "$A" 7301 4 500 2>&1)
is "$got" "4 connections, 500 requests each" "$T: HTTP"
counts_end "$T: HTTP" 4 none
host_end $pid
