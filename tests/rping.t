#!/bin/bash
# SPDX-License-Identifier: MIT
# iwctl rping against itself on loopback: sizes, startups, both ends of a wrong conversation, wrong usage.
. "$(dirname "$0")/lib/tap.sh"
: "${TMPDIR:=/tmp}"
dir=$(mktemp -d "$TMPDIR/rping.XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
rping() { timeout 120 "$IW_BUILD/iwctl" rping "$@"; }

server() { # [option ...]: port in $port
	rm -f "$dir/server"
	timeout 120 "$IW_BUILD/iwctl" rping -s -a 127.0.0.1 -p 0 "$@" >"$dir/server" 2>"$dir/server.err" &
	server=$!
	until_true 10 grep -q listening "$dir/server" || diag "$(cat "$dir/server.err")"
	port=$(sed -n 's/^listening on .* port //p' "$dir/server")
}
client() { # [option ...]: exit status in $status
	rping -c -a 127.0.0.1 -p "$port" "$@" >"$dir/client" 2>"$dir/client.err"
	status=$?
}
server_end() { # exit status in $status
	wait "$server"
	status=$?
	server=
}
client_said() { tail -n 1 "$dir/client" | sed 's/[0-9.]* us each/T/'; }
# pings WHAT COUNT SIZE END [client option ...]: all goes well, and both summaries end so
pings() {
	local what=$1 count=$2 size=$3 end=$4
	shift 4
	client -V -C "$count" -S "$size" "$@"
	is "$status $(client_said)" "0 $count pings of $size octets, T, $end" "$what: client" || diag "$(cat "$dir/client.err")"
	server_end
	is "$status $(tail -n 1 "$dir/server")" "0 $count pings answered, $((count * size)) octets, $end" "$what: server" ||
		diag "$(cat "$dir/server.err")"
	is "$(cat "$dir/client.err" "$dir/server.err")" "" "$what: nothing to complain of"
}

for size in 23 64 4096 65536; do
	server -V
	pings "1000 pings of $size octets" 1000 $size "CRC on, data verified"
done
server -V -S 1048576
pings "a megabyte" 20 1048576 "CRC on, data verified"
server -V --crc off
pings "CRC off" 100 65535 "CRC off, data verified" --crc off
server -V
pings "CRC asked by the server" 100 64 "CRC on, data verified" --crc off
server -V --crc off
pings "CRC asked by the client" 100 64 "CRC on, data verified"
server -V
pings "peer-to-peer" 100 4096 "CRC on, peer-to-peer, data verified" --p2p
server -V
pings "MPA revision 1" 100 4096 "CRC on, data verified" --mpa-revision 1
server -V --markers
pings "Markers both ways" 100 65535 "CRC on, data verified" --markers

server -v
client -v -C 60 -S 30
is "$(sed -n '1p;2p;60p' "$dir/client")" "$(printf '%s\n' 'ping data: rdma-ping-0: ABCDEFGHIJKLMNOP' 'ping data: rdma-ping-1: BCDEFGHIJKLMNOPQ' \
	'ping data: rdma-ping-59: BCDEFGHIJKLMNOP')" "--verbose shows rping's text: the alphabet begins one further each time"
server_end
is "$(grep -c '^server ping data: rdma-ping-' "$dir/server")" 60 "and so does the server's"

# ---- persistent, several at once ----
server -P -V
for i in 1 2 3 4; do
	rping -c -a 127.0.0.1 -p "$port" -V -C 200 -S 4096 >"$dir/c$i" 2>&1 &
	clients[i]=$!
done
bad=0
for i in 1 2 3 4; do wait "${clients[i]}" || bad=$((bad + 1)); done
is $bad 0 "four clients of one persistent server"
kill "$server"
wait "$server" 2>/dev/null
server=
is "$(grep -c '^200 pings answered' "$dir/server")" 4 "which says of each what it answered"

# ---- who ends it ----
server -C 5
client -V
is "$status $(client_said)" "0 5 pings of 64 octets, T, CRC on, data verified" "a client without count pings until the server closes"
server_end
is $status 0 "and a server with a count closes after so many"
server -C 5
client -C 10
is "$status $(cat "$dir/client.err")" "1 iwctl: rping: the other side closed the connection while we waited for the server's RDMA Read of ping 5" \
	"a client that wanted more says where it was"
server_end
server -S 64
client -C 3 -S 65
is $status 1 "a ping larger than the server takes: client"
server_end
is "$status $(cat "$dir/server.err")" "1 iwctl: rping: the client has 65 octets, this server room for 64: see --size" "server"

# a listener that never answers
coproc mute { exec python3 -c '
import socket, sys
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
sys.stdin.read()'; }
mute_pid=$mute_PID
read -r port <&"${mute[0]}"
client -t 1 -C 1
is "$status $(tail -n 1 "$dir/client.err")" "1 iwctl: rping: the MPA startup failed: Connection timed out" "a server that says nothing"
eval "exec ${mute[1]}>&-"
wait "$mute_pid" 2>/dev/null
client -C 1
is "$status $(cat "$dir/client.err")" "1 iwctl: rping: cannot connect to 127.0.0.1 port $port: Connection refused" "no server"

# ---- a peer that is not rping ----
coproc web { exec python3 -c '
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
c = s.accept()[0]
c.recv(100)
c.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
try:
    c.recv(100)
except ConnectionError:
    pass'; }
web_pid=$web_PID
read -r port <&"${web[0]}"
client -C 1
is "$status $(tail -n 1 "$dir/client.err")" "1 iwctl: rping: the MPA startup failed: Protocol error" "a server that speaks something else"
wait "$web_pid" 2>/dev/null

# ---- machine-readable ----
server
client -C 1
is "$(timeout 60 "$IW_BUILD/iwctl" rping -c -a 127.0.0.1 -p "$port" -C 1 2>&1 | head -n 1 | cut -d : -f 1-2)" "iwctl: rping" "a server that is not persistent is gone after one client"
server_end
server
out=$("$IW_BUILD/iwctl" --json rping -c -a 127.0.0.1 -p "$port" -C 7 -V -S 100 | python3 -c '
import json, sys
d = json.load(sys.stdin)
d.pop("us")
print(d)')
is "$out" "{'role': 'client', 'ok': True, 'pings': 7, 'octets': 700, 'crc': True, 'p2p': False, 'validated': True}" "--json"
server_end

# ---- usage ----
usage() { # WHAT option ...
	local what=$1
	shift
	rping "$@" >"$dir/client" 2>"$dir/client.err"
	is "$? $(grep -c . "$dir/client")" "2 0" "usage: $what"
	is "$(head -n 1 "$dir/client.err" | grep -c '^iwctl: rping: ')" 1 "usage: $what: says what is wrong" || diag "$(cat "$dir/client.err")"
}
usage "neither client nor server" -C 1
usage "both" -c -s -a localhost
usage "a client without address" -c
usage "size too small" -c -a localhost -S 22
usage "size too large" -c -a localhost -S 1048577
usage "size no number" -c -a localhost -S 64k
usage "negative count" -c -a localhost -C -1
usage "port out of range" -c -a localhost -p 65536
usage "no port for a client" -c -a localhost -p 0
usage "unknown CRC" -c -a localhost --crc maybe
usage "revision 3" -c -a localhost --mpa-revision 3
usage "peer-to-peer with revision 1" -c -a localhost --mpa-revision 1 --p2p
usage "peer-to-peer asked by a server" -s --p2p
usage "a persistent client" -c -a localhost -P
usage "an argument too many" -c -a localhost more
usage "unknown option" -c -a localhost -Z
rping -c -a no-such-host.invalid -C 1 >"$dir/client" 2>&1
is "$? $(grep -c '^iwctl: rping: no-such-host.invalid: ' "$dir/client")" "1 1" "a name that does not resolve"
is "$(rping --help | head -n 1 | cut -d ' ' -f 1-3)" "usage: iwctl rping" "--help"
done_testing
