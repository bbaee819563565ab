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
answered() { [ "$(grep -c '^200 pings answered' "$dir/server")" = 4 ]; }
until_true 20 answered	# of the last one it may hear after that has ended
ok $? "which says of each what it answered" || diag "$(cat "$dir/server")"
kill "$server"
wait "$server" 2>/dev/null
server=

# ---- who ends it ----
server -C 5
client -V
is "$status $(client_said)" "0 5 pings of 64 octets, T, CRC on, data verified" "a client without count pings until the server closes"
server_end
is $status 0 "and a server with a count closes after so many"
server -C 5
client -C 10
is "$status $(cat "$dir/client.err")" "1 iwctl: rping: the other side closed the connection while we waited for the server's RDMA Read in ping 5" \
	"a client that wanted more says where it was"
server_end
server -S 64
client -C 3 -S 65
is $status 1 "a ping larger than the server takes: client"
server_end
is "$status $(cat "$dir/server.err")" "1 iwctl: rping: the client has 65 octets, this server room for 64: see --size" "server"

# ---- ^C ----
# interrupted SIGNAL WHO: a client in the middle of its pings; what it and its server make of it
server -V
"$IW_BUILD/iwctl" rping -c -a 127.0.0.1 -p "$port" -v -V >"$dir/client" 2>"$dir/client.err" &
p=$!
until_true 20 grep -q "rdma-ping-100:" "$dir/client"
kill -TERM $p
wait $p
status=$?
like() { [[ $1 =~ ^$2$ ]]; ok $? "$3" || diag "$1"; }
like "$status $(client_said) $(cat "$dir/client.err")" "0 [0-9]+ pings of 64 octets, T, CRC on, data verified " "a client that is interrupted finishes its ping and says how it went"
server_end
like "$status $(tail -n 1 "$dir/server") $(cat "$dir/server.err")" "0 $(tail -n 1 "$dir/client" | cut -d ' ' -f 1) pings answered, .* data verified " "and its server saw a close in order"
for n in 0 1; do
	rm -f "$dir/server"
	"$IW_BUILD/iwctl" rping -s -P -a 127.0.0.1 -p 0 >"$dir/server" 2>"$dir/server.err" &
	server=$!
	until_true 10 grep -q listening "$dir/server"
	port=$(sed -n 's/^listening on .* port //p' "$dir/server")
	[ $n = 0 ] || client -C 3
	kill -TERM $server
	server_end
	like "$status $(tail -n 1 "$dir/server") $(cat "$dir/server.err")" "0 .* " "a persistent server that is interrupted after $n clients"
done

# ---- addresses ----
all_server() { # a server that was given no address; at=family the client's
	rm -f "$dir/server"
	timeout 120 "$IW_BUILD/iwctl" rping -s -P -p 0 >"$dir/server" 2>"$dir/server.err" &
	server=$!
	until_true 10 grep -q listening "$dir/server"
	port=$(sed -n 's/^listening on .* port //p' "$dir/server")
}
if python3 -c 'import socket; socket.create_server(("::1", 0), family=socket.AF_INET6)' 2>/dev/null; then
	all_server
	for a in 127.0.0.1 ::1; do
		rping -c -a $a -p "$port" -C 2 >"$dir/client" 2>&1
		is "$? $(client_said)" "0 2 pings of 64 octets, T, CRC on" "a server without -a answers $a"
	done
	kill "$server"
	wait "$server" 2>/dev/null
	server=
	# a name for both, in one order or the other
	printf '127.0.0.1 both.test\n::1 both.test\n' >"$dir/hosts"
	private=-m
	[ "$(id -u)" = 0 ] || private=-rm
	for a in 127.0.0.1 ::1; do
		rm -f "$dir/server"
		timeout 120 "$IW_BUILD/iwctl" rping -s -a $a -p 0 >"$dir/server" 2>"$dir/server.err" &
		server=$!
		until_true 10 grep -q listening "$dir/server"
		port=$(sed -n 's/^listening on .* port //p' "$dir/server")
		# shellcheck disable=SC2016 # that of the shell within
		unshare $private sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$dir/hosts" \
			"$IW_BUILD/iwctl" rping -c -a both.test -p "$port" -C 2 >"$dir/client" 2>"$dir/client.err"
		is "$? $(client_said)" "0 2 pings of 64 octets, T, CRC on" "a name with several addresses: the one that answers, $a" || diag "$(cat "$dir/client.err")"
		server_end
	done
else
	skip "IPv6" "this host has none"
fi
server
rping -s -a 127.0.0.1 -p "$port" >"$dir/client" 2>&1
is "$? $(cat "$dir/client")" "1 iwctl: rping: cannot listen on 127.0.0.1 port $port: Address already in use" "a port that is taken"
kill "$server"
wait "$server" 2>/dev/null
server=

# ---- a peer that stops, or dies, in the middle; one that sends what a terminal would obey ----
# half WHAT LIBRARY [port]: a server in Python that answers MPA, reads one message and then: "die", "mute", or, to a server, "escape"
half() {
	local script
	script=$(cat <<-'END'
		import socket, struct, sys
		sys.path.insert(0, sys.argv[2])
		import peer
		from peer import v
		if sys.argv[1] == "escape":
		    w = peer.connect(("127.0.0.1", int(sys.argv[3])))
		    w.raw(v.mpa(v.REQ, v.C, 1))
		    w.frame()
		    text = b"rdma-ping-0: \x1b]0;owned\x07\x9b31m\0"
		    w.send(struct.pack(">QII", 0x1000, 0x77, len(text)))
		    u = w.get()
		    sink, to = struct.unpack(">IQ", u[18:30])
		    w.put(v.tagged(v.RRESP, sink, to, text))
		    w.get()
		    w.fin()
		    sys.exit()
		l = socket.create_server(("127.0.0.1", 0))
		print(l.getsockname()[1], flush=True)
		w = peer.Wire(l.accept()[0])
		w.frame()
		w.raw(v.mpa(v.REP, v.C, 1))
		w.get()
		if sys.argv[1] == "mute":
		    sys.stdin.read()
	END
	)
	coproc half { exec python3 -c "$script" "$@"; }
	half_pid=$half_PID
}
export PYTHONDONTWRITEBYTECODE=1
here=$(cd "$(dirname "$0")" && pwd)
half die "$here/attacks"
read -r port <&"${half[0]}"
client --mpa-revision 1 -C 5
like "$status $(cat "$dir/client.err")" "1 iwctl: rping: (Connection reset by peer while waiting for|the other side closed the connection while we waited for) the server's RDMA Read in ping 0" "a server that dies in the middle"
wait "$half_pid" 2>/dev/null
half mute "$here/attacks"
read -r port <&"${half[0]}"
client --mpa-revision 1 -t 5 -C 5
is "$status $(cat "$dir/client.err")" "1 iwctl: rping: no answer within 5 s while waiting for the server's RDMA Read in ping 0" "a server that falls silent in the middle"
eval "exec ${half[1]}>&-"
wait "$half_pid" 2>/dev/null
server -v
half escape "$here/attacks" "$port"
server_end
is "$(grep -a "^server ping data" "$dir/server")" "server ping data: rdma-ping-0: ?]0;owned??31m" "what the peer sends is shown without what a terminal would obey"
wait "$half_pid" 2>/dev/null

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
is "$(sed 's/[0-9.]* us each/T/' "$dir/client")" "0 pings of 64 octets, T" "nothing is said of CRCs that were not agreed on"
wait "$web_pid" 2>/dev/null
server
python3 - "$port" "$IW_TOP/tests/vectors.txt" <<'END'
import socket, sys
v = {x.split("\t")[0]: bytes.fromhex(x.split("\t")[2]) for x in open(sys.argv[2]) if x.count("\t") == 2}
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(v["mpa.req.r1.c"])
s.recv(20, socket.MSG_WAITALL)
s.sendall(v["term.rdmap.local"])
s.recv(1)
END
server_end
is "$status $(tail -n 1 "$dir/server.err")" "1 iwctl: rping: a Terminate while waiting for the start of ping 0: RDMAP / local catastrophic" "a client that gives up"

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
usage "a count with a sign" -c -a localhost -C +5
usage "an empty address" -c -a "" -C 1
usage "an empty address of a server" -s -a ""
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
