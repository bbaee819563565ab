# SPDX-License-Identifier: MIT
# nginx and curl: 1 GiB whose digest is right, keepalive, and a reload under load.
need nginx curl || return 0
www=$RIG_DIR/www
mkdir -p "$www" "$RIG_DIR/nginx"
big=${IW_BIG_MIB:-1024}
head -c $((big << 20)) /dev/urandom >"$www/big"
head -c 10000 /dev/urandom >"$www/small"
cat >"$RIG_DIR/nginx.conf" <<-END
	daemon off;
	worker_processes 2;
	user root;
	pid $RIG_DIR/nginx/pid;
	error_log $RIG_DIR/nginx/error.log;
	events { worker_connections 1024; }
	http {
		access_log off;
		client_body_temp_path $RIG_DIR/nginx/body;
		proxy_temp_path $RIG_DIR/nginx/proxy;
		fastcgi_temp_path $RIG_DIR/nginx/fastcgi;
		uwsgi_temp_path $RIG_DIR/nginx/uwsgi;
		scgi_temp_path $RIG_DIR/nginx/scgi;
		sendfile on;
		tcp_nopush on;
		server { listen 80; listen [::]:80; root $www; }
	}
END
host_bg_iw $S nginx.log nginx -c "$RIG_DIR/nginx.conf"
pid=$!
host_port $S 80 || { fail "nginx starts"; sed 's/^/# /' "$RIG_DIR/nginx.log" "$RIG_DIR/nginx/error.log"; return; }
want=$(sha256sum <"$www/big")
counts_begin $S $C
t=$(now_ms)
got=$(host_exec_iw $C curl -sS --max-time 600 "http://$A/big" 2>"$RIG_DIR/curl.err" | sha256sum)
is "$got" "$want" "nginx: $big MiB, sha256" || sed 's/^/# /' "$RIG_DIR/curl.err"
diag "nginx: $big MiB in $(($(now_ms) - t)) ms"
got=$(host_exec_iw $C curl -sS --max-time 600 -w '%{num_connects} ' -o /dev/null "http://$A/small" -o /dev/null "http://$A/small" \
	-o /dev/null "http://$A/small" 2>&1)
is "$got" "1 0 0 " "nginx: keepalive, three requests on one connection"
rm -f "$RIG_DIR/stop"
loads=()
for i in 1 2 3; do
	host_bg_iw $C "load.$i" "$PY" "$NET" http-load "$A" 80 /small 100 10000 "$RIG_DIR/stop"
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
	host_exec $S nginx -c "$RIG_DIR/nginx.conf" -s reload 2>"$RIG_DIR/reload.err" || bad=1
	until_true 20 workers_new || bad=2
done
is $bad 0 "nginx: reload"
touch "$RIG_DIR/stop"
for i in 1 2 3; do
	wait "${loads[i - 1]}"
	ok $? "nginx: no request of load $i failed through three reloads" || tail -n 2 "$RIG_DIR/load.$i" | sed 's/^/# /'
done
got=$(host_exec_iw $C curl -sS --max-time 600 "http://$A/small" | sha256sum)
is "$got" "$(sha256sum <"$www/small")" "nginx: after the reload"
counts_end nginx 300
# two hosts, IPv6
counts_begin $S $C
got=$(host_exec_iw $C curl -gsS --max-time 600 "http://[$A6]/small" | sha256sum)
is "$got" "$(sha256sum <"$www/small")" "nginx: IPv6"
counts_end "nginx IPv6" 1
host_end $pid
rm -f "$www/big"
