# SPDX-License-Identifier: MIT
# haproxy between client and servers, once as a TCP relay, once as an HTTP one: all four ends of both connections.
need haproxy || return 0
cat >"$D/haproxy.cfg" <<-END
	global
		nbthread 2
	defaults
		timeout connect 60s
		timeout client 300s
		timeout server 300s
	listen tcp
		mode tcp
		bind $A:7401
		server one 127.0.0.1:7402
	listen http
		mode http
		http-reuse always
		bind $A:7403
		server one 127.0.0.1:7404
END
host_bg_iw $S haproxy.echo "$PY" "$NET" echo-server 127.0.0.1 7402
back=$!
host_bg_iw $S haproxy.http "$PY" "$NET" http-server 127.0.0.1 7404
web=$!
host_bg_iw $S haproxy.log haproxy -db -f "$D/haproxy.cfg"
pid=$!
host_port $S 7402 && host_port $S 7404 && host_port $S 7401 && host_port $S 7403 ||
	{ fail "$T: starts"; sed 's/^/# /' "$RIG_DIR/haproxy.log"; return; }
counts_begin $S $C
servers=$(accel_count $S server)
talk_until_up 20,40 timeout 600 "$PY" "$NET" echo-client "$A" 7401 20 1000 "$D/more"
is "$got" "20 connections, 1000 rounds each" "$T: TCP"
counts_end "$T: TCP" 20 none
at_least $(($(accel_count $S server) - servers)) 40 "$T: TCP: on both sides of it"
counts_begin $S $C
servers=$(accel_count $S server)
got=$(host_exec_iw $C "$PY" "$NET" http-load "$A" 7403 /10000 10000 1000 1000 2>&1)
is "$got" "1000 requests 1 connections 0 again" "$T: HTTP"
# shellcheck disable=SC2086
counts_end "$T: HTTP" 1 $SHORT
at_least $(($(accel_count $S server) - servers)) 2 "$T: HTTP: on both sides of it"
host_end $pid $back $web
