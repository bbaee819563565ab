#!/bin/bash
# SPDX-License-Identifier: MIT
# Streams by an RDMA device that is made up (tests/lib/verbs), provider = auto: what they carry, and each call, event and completion that fails; who rejects, does not answer, or has none; devices, daemons and programs that go away under a stream.
#
#	tests/verbs.t [soft] [streams] [opens] [calls] [breaks] [rdmacm] [ends]
. "$(dirname "$0")/lib/rig.sh"
rig_need python3
nm -P "$IW_BUILD/iwarpd" | grep -q '^verbs_create ' || skip_all "built without libibverbs and librdmacm"
parts=${*:-soft streams opens calls breaks rdmacm ends}
RIG_NO_DAEMON=1 rig_up 2

# ---- hosts with a device ----
dev() { echo "$RIG_DIR/dev$1"; }
start() { # HOST option ...; WITH: by another program
	: >"$(dev "$1")/told" >>"$(dev "$1")/log"
	RIG_DAEMON_WITH="LD_LIBRARY_PATH=$IW_BUILD/tests/lib/verbs MADE_UP_DEVICE=$(dev "$1") ${WITH-}" daemon_start "$1" -o provider=auto -o negative_cache=1 "${@:2}" || exit 1
}
again() { # HOST option ...: its daemon, with these
	daemon_stop "$1"
	ok $? "host $1: the daemon ends well"
	start "$@"
}
says() { echo "$2" >"$(dev "$1")/told"; } # HOST LINE: what goes wrong there from now on (tests/lib/verbs/made_up.h)
did() { grep -sc "^$2" "$(dev "$1")/log"; } # HOST LINE: how often it did
held() { local all; read -r all <"$RIG_DIR/dev$1/held" && echo "${all% channel*}"; }
empty() { [ "$(held 1), $(held 2)" = "qp 0 mr 0 pd 0 cq 0, qp 0 mr 0 pd 0 cq 0" ]; }
left() { # NAME: nothing of a stream's is left in the devices
	until_true 10 empty
	ok $? "$1: nothing is left in the devices" || diag "$(cat "$(dev 1)/held" "$(dev 2)/held")"
}
for h in 1 2; do
	mkdir "$(dev $h)"
	echo siw$h >"$(dev $h)/name"
done

# ---- a program of host 2 that has one connection after another to an echo server of host 1 ----
echoer='
import errno, socket, threading
def echo(c):
    try:
        while d := c.recv(65536): c.sendall(d)
    except OSError as e:
        print(errno.errorcode[e.errno], flush=True)
    c.close()
l = socket.create_server(("::", 7600), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
while True: threading.Thread(target=echo, args=(l.accept()[0],), daemon=True).start()
'
conversation='
import errno, os, socket, sys
def ask(n, size=5000):
    for _ in range(n):
        text = os.urandom(size)
        c.sendall(text)
        got = b""
        while len(got) < size:
            d = c.recv(size - len(got))
            if not d: return "EOF"
            got += d
        if got != text: return "different"
    return "same"
def until(path):
    said = "same"
    while said == "same" and not os.path.exists(path): said = ask(1)
    return said
def end():
    c.shutdown(socket.SHUT_WR)
    return "end" if c.recv(1) == b"" else "more"
for line in sys.stdin:
    w = line.split()
    try:
        if w[0] == "new": c = socket.create_connection((w[1], 7600))
        said = end() if w[0] == "end" else until(w[1]) if w[0] == "until" else ask(3 if w[0] == "new" else int(w[1]))
    except OSError as e:
        said = errno.errorcode[e.errno]
    print(said, flush=True)
'
programs() {
	host_bg_iw 1 server.log python3 -c "$echoer"
	server=$! resets=0
	host_port 1 7600
	client_start
}
client_start() {
	host_told 2 talk python3 -c "$conversation"
	client=$!
}
programs_end() {
	tell_end talk $client
	host_end $server
}
# what carries the client's stream, once that is no more the connection itself: "device siw2", or a path of the soft RNIC's and "-"
carrier() { host_ctl 2 streams -c pid,transport,state,path,device | while read -r pid transport state path; do [ "$pid $transport $state" != "$client iwarp running" ] || echo "$path"; done; }
upgraded() { tell talk "ask 2" && { [ "$told" != same ] || [ -n "$(carrier)" ]; }; }
stream() { # NAME device|soft: a new one
	local by
	tell talk "new ${ADDRESS-$(host_addr 1)}"
	until_true 20 upgraded
	by=$(carrier)
	case $by in "") by=none ;; device*) by=${by%% *} ;; *" -") by=soft ;; esac
	is "$by $told" "$2 same" "$1: a stream, $2" || diag "$(host_ctl 2 streams -c pid,transport,state,path,device,reason)"
}
goes() { tell talk "ask 10"; is "$told" same "$1: it goes on"; }
ends() { tell talk end; is "$told" end "$1: its octets are right, and its end"; }
whole() { stream "$1" "$2" && ends "$1"; }
# by the device again, as soon as it is not known any more that there was none
asked_again() { tell talk "new $(host_addr 1)" && until_true 20 upgraded && [[ "$(carrier)" = device* ]] && tell talk end && [ "$told" = end ]; }
recovers() {
	until_true 20 asked_again
	ok $? "$1: and then by the device again"
}
# under load, until it is enough: what comes of it is in talk.log, in a line of its own
load() { rm -f "$RIG_DIR/enough" && lines=$(wc -l <"$RIG_DIR/talk.log") && echo "until $RIG_DIR/enough" >&"${RIG_TOLD[talk]}"; }
messages() { host_ctl "$1" metrics | sed -n 's/^iwsock_device_messages_total{device="siw'"$1"'",operation="send"} //p'; }
more_than() { [ "$(messages "$1")" -gt "$2" ]; }
moves() {
	local n
	n=$(messages 2)
	until_true 20 more_than 2 $((n + 30))
	ok $? "$1: under load"
}
on_tcp() { [[ "$(carrier)" = *" -" ]]; }
goes_on() { # NAME: the loaded stream, without the device, and with nothing lost
	until_true 10 on_tcp
	ok $? "$1: it goes on by TCP" || diag "$(host_ctl 2 streams -c pid,transport,state,path,device,reason) $(tail -n 3 "$RIG_DIR/iwarpd.1.log" "$RIG_DIR/iwarpd.2.log")"
	left "$1"
	: >"$RIG_DIR/enough"
	until_true 10 rig_said talk $((lines + 1))
	is "$(tail -n 1 "$RIG_DIR/talk.log")" same "$1: the same octets"
	ends "$1"
}
broken() { # NAME: the loaded stream is reset, for both programs
	until_true 5 rig_said talk $((lines + 1)) || { kill -9 $client; wait $client 2>/dev/null; client_start; }
	is "$(tail -n 1 "$RIG_DIR/talk.log")" ECONNRESET "$1: reset"
	until_true 5 server_said
	is "$? $(tail -n 1 "$RIG_DIR/server.log")" "0 ECONNRESET" "$1: at the other end, too"
	left "$1"
}
server_said() { [ "$(wc -l <"$RIG_DIR/server.log")" -gt "$resets" ] && resets=$(wc -l <"$RIG_DIR/server.log"); }

# ---- soft: as if there was no device ----
part_soft() {
	start 1 -o provider=soft
	start 2 -o provider=soft
	programs
	whole "provider = soft" soft
	is "$(cat /proc/"$(daemon_pid 1)"/maps /proc/"$(daemon_pid 2)"/maps | grep -c 'librdmacm\|libibverbs') $(ls "$RIG_DIR"/dev?/held 2>/dev/null)" "0 " "provider = soft: no library is loaded"
	again 2 -o device=other
	whole "one host alone" soft
	again 1 -o 'device=mlx5_*'
	whole "device = other" soft
	is "$(cut -d ' ' -f 1-12 "$(dev 1)/held")" "qp 0 mr 0 pd 0 cq 0 channel 1 id 0" "device = other: it is not used"
	programs_end
}

# ---- what programs carry ----
both_ways='
import hashlib, os, socket, sys, threading
n, what = 64 << 20, sys.argv[1]
if what == "server":
    l = socket.create_server((sys.argv[2], 7700))
    print("up", flush=True)
    c = l.accept()[0]
else:
    c = socket.create_connection((sys.argv[2], 7700))
text = os.urandom(1 << 20)
sent, came = hashlib.sha256(), hashlib.sha256()
def send():
    for i in range(n >> 20):
        t = bytes([i]) + text[1:]
        sent.update(t)
        c.sendall(t)
    c.shutdown(socket.SHUT_WR)
t = threading.Thread(target=send)
t.start()
got = 0
while d := c.recv(1 << 18):
    came.update(d)
    got += len(d)
t.join()
print(got, sent.hexdigest() if what == "server" else came.hexdigest(), came.hexdigest() if what == "server" else sent.hexdigest())
'
both() { # NAME: octets both ways, by the device at least in the beginning
	local n s
	host_bg_iw 1 both.log python3 -c "$both_ways" server "$(host_addr 1)"
	s=$!
	until_true 10 grep -q up "$RIG_DIR/both.log"
	n=$(carried 1)
	host_exec_iw 2 timeout 300 python3 -c "$both_ways" client "$(host_addr 1)" >"$RIG_DIR/both" </dev/null
	until_true 20 rig_ended $s
	is "$(tail -n 1 "$RIG_DIR/both.log")" "$(cat "$RIG_DIR/both")" "$1 are the same"
	is "$(cut -d ' ' -f 1 "$RIG_DIR/both") $(($(carried 1) - n))" "$((64 << 20)) 1" "$1: all of them, by the device"
}
carried() { host_ctl "$1" metrics | sed -n 's/^iwsock_device_carried_total{device="siw'"$1"'"} //p'; }
part_streams() {
	local n s
	start 1
	start 2
	programs
	stream streams device
	is "$(host_ctl 2 streams -c path,device | awk 'NR == 2 { print $1, $2 }')" "device siw2" "iwctl streams: by a device, and which"
	is "$(host_ctl 1 streams -c path,device | awk 'NR == 2 { print $1, $2 }')" "device siw1" "at the other end, too"
	is "$(held 1), $(held 2)" "qp 1 mr 4 pd 1 cq 1, qp 1 mr 4 pd 1 cq 1" "what a stream has of its device"
	at_least "$(messages 2)" 1 "metrics: its messages"
	is "$(host_ctl 2 metrics | sed -n 's/^iwsock_device_streams{device="siw2"} //p')" 1 "metrics: it carries one"
	goes streams
	ends streams
	left streams
	ADDRESS=$(host_addr6 1) whole IPv6 device
	both "64 MiB both ways"
	if command -v redis-benchmark >/dev/null; then
		host_bg_iw 1 redis.log redis-server --bind "$(host_addr 1)" --save '' --protected-mode no --dir "$RIG_DIR"
		s=$!
		host_port 1 6379
		n=$(carried 1)
		host_exec_iw 2 timeout 120 redis-benchmark -h "$(host_addr 1)" -t set,get -n 5000 -c 8 -d 1000 --csv >"$RIG_DIR/redis" 2>&1 </dev/null
		is "$? $(grep -c '^"[SG]ET","[0-9]' "$RIG_DIR/redis")" "0 2" "redis-benchmark" || diag "$(tail -n 5 "$RIG_DIR/redis")"
		at_least $(($(carried 1) - n)) 8 "redis: connections by the device"
		host_end $s
	else
		skip "redis-benchmark" "needs redis-server and redis-tools"
	fi
	left streams
	is "$(host_ctl 1 metrics | sed -n 's/^iwsock_device_streams{device="siw1"} //p')" 0 "metrics: it carries nothing now"
	programs_end
}

# ---- calls that fail, each at a time ----
fails() { # HOST CALL WHICH device|soft: it does, and what carries the stream then
	local n name="host $1: $2 fails, call $3"
	n=$(did "$1" fail)
	says "$1" "fail $2 $3 12"
	whole "$name" "$4"
	is "$(did "$1" fail)" $((n + 1)) "$name: it did"
	says "$1" none
	left "$name"
}
breaks() { # HOST CALL WHICH ERRNO: under a stream
	local n name="host $1: $2 fails under a stream"
	n=$(did "$1" "fail $2")
	stream "$name" device
	says "$1" "fail $2 $3 $4"
	load
	goes_on "$name"
	is "$(did "$1" "fail $2")" $((n + 1)) "$name: it did"
	says "$1" none
}
part_opens() {
	local c
	start 1
	for c in rdma_create_event_channel rdma_create_id rdma_bind_addr rdma_listen ibv_query_device ibv_create_comp_channel; do
		start 2
		[ $c != rdma_create_event_channel ] || programs
		fails 2 $c 1 soft
		ADDRESS=$(host_addr6 1) whole "$c, for another address" device
		[ $c = ibv_create_comp_channel ] || daemon_stop 2
	done
	recovers opens
	programs_end
}
part_calls() {
	local c h k how
	start 1
	start 2
	programs
	whole calls device
	# who dials: what may be otherwise the next time is tried again
	for c in rdma_create_id:1:soft rdma_resolve_addr:1:device rdma_resolve_route:1:device rdma_connect:1:device ibv_alloc_pd:1:soft ibv_create_cq:1:soft \
		rdma_create_qp:1:soft ibv_reg_mr:1:soft ibv_reg_mr:4:soft ibv_post_recv:1:soft ibv_post_recv:9:soft ibv_req_notify_cq:1:soft ibv_post_send:1:soft; do
		IFS=: read -r c k how <<<"$c"
		fails 2 "$c" "$k" "$how"
	done
	at_least "$(grep -c 'cannot be locked.*LimitMEMLOCK' "$RIG_DIR/iwarpd.2.log")" 1 "too little memory to lock: the log says what to raise"
	recovers "who dials"
	for c in ibv_alloc_pd:1 ibv_create_cq:1 rdma_create_qp:1 ibv_reg_mr:2 ibv_post_recv:2 ibv_req_notify_cq:1 rdma_accept:1 ibv_post_send:1 ibv_poll_cq:1; do
		fails 1 "${c%:*}" "${c#*:}" soft
	done
	recovers "who is dialled"
	# of whoever is first
	for h in 1 2; do says $h "fail rdma_disconnect 1 5"; done
	whole "rdma_disconnect fails" device
	left "rdma_disconnect fails"
	at_least $(($(did 1 "fail rdma_disconnect") + $(did 2 "fail rdma_disconnect"))) 1 "rdma_disconnect fails: it did"
	programs_end
}
part_breaks() {
	local h k w n
	start 1
	start 2
	programs
	for h in 1 2; do
		breaks $h ibv_post_send 20 5
		breaks $h ibv_post_recv 20 5
		breaks $h ibv_poll_cq 20 5
		breaks $h ibv_req_notify_cq 5 5
	done
	: "${IW_SEED:=$RANDOM}"
	RANDOM=$IW_SEED
	diag "IW_SEED=$IW_SEED"
	for k in 1 2 3 4; do
		h=$((1 + RANDOM % 2)) w=$((20 + RANDOM % (100 * k)))
		says $h "status $w 10"
		n=$(did $h status)
		both "64 MiB both ways while host $h's device fails at completion $w"
		is "$(did $h status)" $((n + 1)) "host $h's device: it did"
		says $h none
	done
	recovers breaks
	programs_end
}

# ---- what rdma_cm says otherwise ----
part_rdmacm() {
	local e how
	start 1 -o startup_timeout=500
	start 2 -o startup_timeout=500
	programs
	for e in "ADDR_RESOLVED ADDR_ERROR -110" "ROUTE_RESOLVED ROUTE_ERROR -110" "ESTABLISHED CONNECT_ERROR -71" "ESTABLISHED UNREACHABLE -110" "ESTABLISHED REJECTED -111"; do
		says 2 "event $e"
		case $e in *_RESOLVED*) how=device ;; *) how=soft ;; esac	# the other end had it, and waits for no other
		whole "$e" $how
		is "$(did 2 "event $e")" 1 "$e: that it was"
		says 2 none
	done
	says 1 foreign
	whole "rejected by a stranger" soft
	is "$(did 1 foreign)" 6 "it was tried six times"
	says 1 none
	recovers "a stranger"
	says 1 mute
	whole "no answer" soft
	at_least "$(did 1 mute)" 1 "no answer: it was dialled"
	says 1 none
	recovers "no answer"
	left "who does not answer"
	says 1 "status 1 12"
	whole "the first completion is an error" soft
	says 1 none
	says 2 "status 1 12"
	whole "the dialler's first completion is an error" soft
	says 2 none
	recovers "errors"
	mv "$(dev 1)/name" "$(dev 1)/none"
	again 1
	whole "host 1 without a device" soft
	mv "$(dev 1)/none" "$(dev 1)/name"
	recovers "host 1 without a device"
	mv "$(dev 2)/name" "$(dev 2)/none"
	again 2
	whole "host 2 without a device" soft
	mv "$(dev 2)/none" "$(dev 2)/name"
	recovers "host 2 without a device"
	for h in 1 2; do
		: >"$(dev $h)/card"
		again $h
	done
	recovers "devices that do not wait in the call"
	says 2 "event ESTABLISHED UNREACHABLE -110"
	whole "one of them, unreachable" soft
	says 2 none
	daemon_stop 1
	rm "$(dev 1)/name"
	start 1
	whole "refused" soft
	echo siw1 >"$(dev 1)/name"
	recovers refused
	left "devices that do not wait"
	rm "$(dev 1)/card" "$(dev 2)/card"
	programs_end
}

# ---- what goes away under a stream ----
loaded() { # NAME
	stream "$1" device
	load
	moves "$1"
}
unloaded() { [ "$(cat "$(dev "$1")/held")" = "qp 0 mr 0 pd 0 cq 0 channel 0 id 0 context 0" ]; }
part_ends() {
	local h name
	start 1
	start 2
	programs
	whole ends device
	for h in 1 2; do
		name="host $h: the device goes"
		loaded "$name"
		says $h gone
		goes_on "$name"
		until_true 10 unloaded $h
		ok $? "$name: and nothing holds it" || diag "$(cat "$(dev $h)/held")"
		whole "$name" soft
		says $h none
		recovers "$name"
		name="host $h: a completion with an error"
		stream "$name" device
		says $h "status 30 10"
		load
		goes_on "$name"
		is "$(did $h "status 30 10")" 1 "$name: that it was"
		says $h none
	done
	# Host 2 connected, so it is its Request that says what it has. Lost after that, the Reply names what is not there any more.
	says 2 sever
	tell talk "new $(host_addr 1)"
	severed() { tell talk "ask 2" && { [ "$told" != same ] || { [ "$(did 2 sever)" = 1 ] && on_tcp; }; }; }
	until_true 20 severed
	is "$told $(did 2 sever)" "same 1" "lost between Request and Reply: it goes on by TCP"
	ends "lost between Request and Reply"
	says 2 none
	left "lost between Request and Reply"
	recovers "lost between Request and Reply"
	name="a daemon is killed"
	loaded "$name"
	daemon_kill9 1
	until_true 20 rig_said talk $((lines + 1))
	is "$(tail -n 1 "$RIG_DIR/talk.log")" ECONNRESET "$name: reset"
	until_true 10 eval '[ "$(held 2)" = "qp 0 mr 0 pd 0 cq 0" ]'
	ok $? "$name: nothing is left in the other's device"
	start 1
	recovers "$name"
	name="a daemon is stopped"
	loaded "$name"
	daemon_stop 2
	ok $? "$name: it ends well"
	until_true 20 rig_said talk $((lines + 1))
	is "$(tail -n 1 "$RIG_DIR/talk.log")" ECONNRESET "$name: reset"
	until_true 10 eval '[ "$(held 1)" = "qp 0 mr 0 pd 0 cq 0" ]'
	ok $? "$name: nothing is left in the other's device"
	start 2
	recovers "$name"
	name="a program is killed"
	loaded "$name"
	kill -9 $client
	wait $client 2>/dev/null
	left "$name"
	client_start
	whole "$name, another one" device
	programs_end
}

for part in $parts; do
	t=$(now_ms)
	"part_$part"
	left "$part"
	for h in 1 2; do
		daemon_stop $h
		ok $? "$part: host $h: the daemon ends well"
		is "$(held $h 2>/dev/null)" "$([ ! -e "$(dev $h)/held" ] || echo "qp 0 mr 0 pd 0 cq 0")" "$part: with nothing in its device"
		is "$(grep -s misuse "$(dev $h)/log")" "" "$part: host $h: nothing that no program may do"
	done
	rm -f "$RIG_DIR"/dev?/held
	diag "$part: $(($(now_ms) - t)) ms"
done
done_testing
