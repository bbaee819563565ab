# SPDX-License-Identifier: MIT
# nginx: curl of 1 GiB whose digest is right, keepalive, a reload under load; wrk, with keepalive and without.
need nginx curl wrk || return 0
www=$D/www
mkdir -p "$www"
big=${IW_BIG_MIB:-1024}
[ "$mode" = two ] || [ "$LONG" ] || big=$((big / 4))
head -c $((big << 20)) /dev/urandom >"$www/big"
head -c 10000 /dev/urandom >"$www/small"
cat >"$D/nginx.conf" <<-END
	daemon off;
	worker_processes 2;
	user root;
	pid $D/pid;
	error_log $D/error.log;
	events { worker_connections 1024; }
	http {
		access_log off;
		client_body_temp_path $D/body;
		proxy_temp_path $D/proxy;
		fastcgi_temp_path $D/fastcgi;
		uwsgi_temp_path $D/uwsgi;
		scgi_temp_path $D/scgi;
		sendfile on;
		tcp_nopush on;
		keepalive_requests 1000000;
		server { listen 80; listen [::]:80; root $www; }
	}
END
host_bg_iw $S nginx.log nginx -c "$D/nginx.conf"
pid=$!
host_port $S 80 || { fail "$T: starts"; sed 's/^/# /' "$RIG_DIR/nginx.log" "$D/error.log"; return; }
want=$(sha256sum <"$www/big")
counts_begin $S $C
t=$(now_ms)
got=$(host_exec_iw $C curl -sS --max-time 600 "http://$A/big" 2>"$D/curl.err" | sha256sum)
is "$got" "$want" "$T: curl, $big MiB, sha256" || sed 's/^/# /' "$D/curl.err"
diag "$T: $big MiB in $(($(now_ms) - t)) ms"
counts_end "$T: curl" 1 none
got=$(host_exec_iw $C curl -sS --max-time 600 -w '%{num_connects} ' -o /dev/null "http://$A/small" -o /dev/null "http://$A/small" \
	-o /dev/null "http://$A/small" 2>&1)
is "$got" "1 0 0 " "$T: keepalive, three requests on one connection"

# each load has a connection for every 1000 requests, or until a reload ends it
rm -f "$D/stop"
loads=()
counts_begin $S $C
for i in 1 2 3; do
	host_bg_iw $C "load.$i" "$PY" "$NET" http-load "$A" 80 /small 10000 2000 1000 "$D/stop"
	loads+=($!)
done
workers() { cat "/proc/$pid/task/$pid/children"; }
workers_new() { # and none of those that were there before
	local p n=0
	for p in $(workers); do
		case $before in *" $p "*) return 1 ;; esac
		n=$((n + 1))
	done
	[ $n -gt 0 ]
}
bad=0
for i in 1 2 3; do
	before=" $(workers) "
	host_exec $S nginx -c "$D/nginx.conf" -s reload 2>"$D/reload.err" || bad=1
	until_true 20 workers_new || bad=2
done
is $bad 0 "$T: reload"
touch "$D/stop"
for i in 1 2 3; do
	wait "${loads[i - 1]}"
	ok $? "$T: no request of load $i failed through three reloads" || tail -n 2 "$RIG_DIR/load.$i" | sed 's/^/# /'
	diag "$(tail -n 1 "$RIG_DIR/load.$i")"
done
# shellcheck disable=SC2086
counts_end "$T: keepalive" 6 $SHORT
got=$(host_exec_iw $C curl -sS --max-time 600 "http://$A/small" | sha256sum)
is "$got" "$(sha256sum <"$www/small")" "$T: after the reload"
counts_begin $S $C
host_exec_iw $C "$PY" "$NET" http-load "$A6" 80 /small 10000 1000 1000 >"$D/load6" 2>&1
is "$(cat "$D/load6")" "1000 requests 1 connections 0 again" "$T: IPv6"
counts_end "$T: IPv6" 1 none

# wrk says nothing of errors when there are none
wrk_run() {
	host_exec_iw $C "$@" -t 2 -c 20 "http://$A/small" >"$D/wrk" 2>&1 &&
		! grep -E 'errors|Non-2xx|unable' "$D/wrk" && grep -q '^Requests/sec' "$D/wrk"
}
wrk_for() {
	wrk_run wrk -d "$1"
	status=$?
}
longer 20 wrk_for
ok $status "$T: wrk" || sed 's/^/# /' "$D/wrk"
diag "$(grep ^Req "$D/wrk")"
# shellcheck disable=SC2086
counts_end "$T: wrk" 20 $SHORT
wrk_run wrk -d 1 -H 'Connection: close'
ok $? "$T: wrk, a connection per request" || sed 's/^/# /' "$D/wrk"
diag "$(grep ^Req "$D/wrk")"
host_end $pid

# with the limits that are the default, short connections are nobody's business
IWSOCK_CONF=/dev/null host_bg_iw $S nginx.log nginx -c "$D/nginx.conf"
pid=$!
host_port $S 80 || { fail "$T: starts again"; return; }
was="$(ends $S switched) $(plain_reasons $S) $(ends $C switched) $(plain_reasons $C)"
IWSOCK_CONF=/dev/null wrk_run wrk -d 1 -H 'Connection: close'
ok $? "$T: wrk, a connection per request, young" || sed 's/^/# /' "$D/wrk"
diag "$(grep ^Req "$D/wrk")"
is "$(ends $S switched) $(plain_reasons $S) $(ends $C switched) $(plain_reasons $C)" "$was" "$T: the daemons hear nothing of young connections"
host_end $pid
