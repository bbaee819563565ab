#!/bin/bash
# SPDX-License-Identifier: MIT
# Metrics over HTTP, as iwarp-metrics.socket has them: what curl gets, what else may be asked, and who is slow, says too much, or finds no daemon.
. "$(dirname "$0")/lib/rig.sh"
rig_need curl
rig_up 1
http() { # what printf makes of the request; the answer is in $RIG_DIR/answer
	# shellcheck disable=SC2059 # a request is a format
	printf "$1" | timeout 60 "$IW_BUILD/iwctl" --run-dir "$(host_dir 1)" metrics --http >"$RIG_DIR/answer" 2>"$RIG_DIR/errors"
}
first() { head -n 1 "$RIG_DIR/answer" | tr -d '\r'; }
field() { sed -n '1,/^\r*$/s/^'"$1"': \(.*\)\r$/\1/p' "$RIG_DIR/answer"; }
body() { sed '1,/^\r*$/d' "$RIG_DIR/answer"; }

# ---- one request ----
http 'GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n'
is "$? $(first) $(field Connection)" "0 HTTP/1.1 200 OK close" "GET /metrics"
is "$(field Content-Type)" "application/openmetrics-text; version=1.0.0; charset=utf-8" "is OpenMetrics"
is "$(body | wc -c)" "$(field Content-Length)" "as long as it says"
names() { grep '^# TYPE'; }
is "$(body | names)" "$(host_ctl 1 metrics | names)" "and the same as without HTTP"
is "$(body | tail -n 1)" "# EOF" "to its end"
len=$(field Content-Length)
http 'HEAD /metrics HTTP/1.1\r\n\r\n'
is "$(first) $(body | wc -c)" "HTTP/1.1 200 OK 0" "HEAD: no body"
at_least "$(field Content-Length)" $((len - 100)) "but its length"
for r in 'GET /metrics?x=/y HTTP/1.0\r\n\r\n' 'GET http://host:1/metrics HTTP/1.1\r\n\r\n' 'GET /metrics HTTP/1.1\n\n'; do
	http "$r"
	is "$(first)" "HTTP/1.1 200 OK" "$r"
done
for r in 'GET / HTTP/1.1' 'GET /metricsx HTTP/1.1' 'GET /metrics/ HTTP/1.1' 'HEAD //metrics HTTP/1.1' 'GET http://metrics HTTP/1.1'; do
	http "$r\r\n\r\n"
	is "$(first)" "HTTP/1.1 404 Not Found" "$r"
done
for r in 'POST /metrics HTTP/1.1' 'get /metrics HTTP/1.1' 'OPTIONS * HTTP/1.1'; do
	http "$r\r\n\r\n"
	is "$(first) $(field Allow)" "HTTP/1.1 405 Method Not Allowed GET, HEAD" "$r"
done
for r in 'GET /metrics\r\n\r\n' 'GET\r\n\r\n' '\r\n\r\n' ' /metrics HTTP/1.1\r\n\r\n' 'GET /metrics HTTP/2.0\r\n\r\n' 'GET /metrics HTTP/1.1 x\r\n\r\n' \
	'GET /metrics HTTP/1.1\r\n' 'GET /metrics\0 HTTP/1.1\r\n\r\n' '\026\003\001\002'; do
	http "$r"
	is "$(first)" "HTTP/1.1 400 Bad Request" "$r"
done
http "GET /metrics HTTP/1.1\r\nX: $(head -c 8192 /dev/zero | tr '\0' x)\r\n\r\n"
is "$(first)" "HTTP/1.1 431 Request Header Fields Too Large" "more than 8 KiB"
http ''
is "$? $(wc -c <"$RIG_DIR/answer")" "0 0" "nothing: no answer"
for bad in "-H -j" "-H x" "--frob"; do
	# shellcheck disable=SC2086
	host_ctl 1 metrics $bad >/dev/null 2>&1 </dev/null
	is $? 2 "metrics $bad: usage"
done
mkfifo "$RIG_DIR/slow"
exec 8<>"$RIG_DIR/slow"
printf 'GET /metrics HTTP/1.1\r\n' >&8
timeout 60 "$IW_BUILD/iwctl" --run-dir "$(host_dir 1)" metrics --http <"$RIG_DIR/slow" >"$RIG_DIR/answer"
is "$? $(first)" "0 HTTP/1.1 408 Request Timeout" "who is slow is not waited for"
exec 8>&-

# ---- by a socket ----
get() { host_exec 1 curl -sS -m 60 -w '%{http_code}' "$@"; }
if command -v systemd-socket-activate >/dev/null; then
	host_bg 1 activate.log systemd-socket-activate -l 127.0.0.1:9874 --inetd -a "$IW_BUILD/iwctl" --run-dir "$(host_dir 1)" metrics --http
	host_port 1 9874
	is "$(get -o "$RIG_DIR/got" http://127.0.0.1:9874/metrics) $(tail -n 1 "$RIG_DIR/got")" "200 # EOF" "curl gets it" || diag "$(cat "$RIG_DIR/activate.log")"
	is "$(get -o /dev/null http://127.0.0.1:9874/)" 404 "and nothing else"
	head -c 1000000 /dev/zero | tr '\0' x >"$RIG_DIR/much"
	is "$(get -o /dev/null --data-binary "@$RIG_DIR/much" http://127.0.0.1:9874/metrics)" 405 "nor may it send something, be it much"
	host_exec 1 python3 - <<-'PY'
		import socket
		s = socket.create_connection(("127.0.0.1", 9874))
		s.sendall(b"GET /metrics HTTP/1.1\r\n")
		s.settimeout(60)
		got = b""
		while d := s.recv(4096):
		    got += d
		assert got.startswith(b"HTTP/1.1 408 "), got
	PY
	ok $? "who is slow is told so, and the connection closed"
else
	for what in "curl gets it" "and nothing else" "nor may it send something, be it much" "who is slow is told so, and the connection closed"; do
		skip "$what" "no systemd-socket-activate"
	done
fi

# ---- no daemon ----
kill -STOP "$(daemon_pid 1)"
http 'GET /metrics HTTP/1.1\r\n\r\n'
is "$? $(first)" "0 HTTP/1.1 503 Service Unavailable" "a daemon that stands still"
is "$(body | grep -c 'does not answer')" 1 "and the reason" || diag "$(cat "$RIG_DIR/answer")"
is "$(field Content-Type)" "text/plain; charset=utf-8" "as text"
kill -CONT "$(daemon_pid 1)"
http 'GET /metrics HTTP/1.1\r\n\r\n'
is "$(first)" "HTTP/1.1 200 OK" "it goes on"
daemon_stop 1
http 'GET /metrics HTTP/1.1\r\n\r\n'
is "$(first) $(body | grep -c 'no iwarpd here')" "HTTP/1.1 503 Service Unavailable 1" "no daemon"
http 'HEAD /metrics HTTP/1.1\r\n\r\n'
is "$(first) $(body | wc -c)" "HTTP/1.1 503 Service Unavailable 0" "HEAD, too"
is "$(cat "$RIG_DIR/errors")" "" "of which nothing is said elsewhere"
done_testing
