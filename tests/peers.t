#!/bin/bash
# SPDX-License-Identifier: MIT
# Daemons find each other: who answers, who reaches back, what is remembered, and what `iwctl check` says of it.
. "$(dirname "$0")/lib/rig.sh"
rig_need python3
rig_up 2
a=$(host_addr 1)

server='
import socket
l = socket.create_server(("", 0)); print(l.getsockname()[1], flush=True)
while True:
    c = l.accept()[0]
    while d := c.recv(65536): c.sendall(d)
    c.close()
'
client='
import socket, sys, time
t = time.monotonic(); c = socket.create_connection((sys.argv[1], int(sys.argv[2]))); t = time.monotonic() - t
c.sendall(b"x" * 5000); n = 0
while n < 5000: n += len(c.recv(65536))
print("%.0f" % (t * 1000), flush=True)
c.shutdown(1); assert c.recv(1) == b""
'
has_port() { read -r port <"$RIG_DIR/server.log"; }
check() { host_ctl 2 check "$a:$port" >"$RIG_DIR/check" 2>&1; }
says() { grep -q "$1" "$RIG_DIR/check"; }
peer_reason() { host_ctl 2 peers --json | json "[r['reason'] for r in d if r['address'] == '$a']"; }
talk() { host_exec_iw 2 python3 -c "$client" "$a" "$port" >"$RIG_DIR/ms"; }
accepted() { accel_count 2 client; }

host_bg_iw 1 server.log python3 -c "$server"
server_pid=$!
until_true 10 has_port
until_true 10 check
ok $? "check: a server with the library will be accelerated" || diag "$(cat "$RIG_DIR/check")"
n=$(accepted)
talk
ok $? "it answers"
is $(($(accepted) - n)) 1 "and is accelerated"
port=1 check
ok $((! $?)) "check: nothing listens on port 1"
says listener-not-registered
ok $? "and that is the reason"
says "nobody listens there, or"
ok $? "which is not said to be the library's" || diag "$(cat "$RIG_DIR/check")"
a=192.0.2.1 check
is "$? $(grep -c 'port 874 of it: Network is unreachable' "$RIG_DIR/check") $(grep -c 'did not answer' "$RIG_DIR/check")" "1 1 0" \
	"check: no route to a host is not that it did not answer" || diag "$(cat "$RIG_DIR/check")"

# host 2 lets nobody in: host 1 cannot reach back, so it must not act on the word of host 2
daemon_stop 2 && daemon_start 2 -o allow=127.0.0.0/8
check
ok $((! $?)) "check: the server's daemon cannot reach back"
says peer-untrusted
ok $? "peer-untrusted is the reason" || diag "$(cat "$RIG_DIR/check")"
talk
ok $? "plain TCP works"
is "$(accepted)" 0 "nothing was accelerated"

# host 1 lets nobody in
daemon_stop 1 && daemon_start 1 -o allow=127.0.0.0/8
daemon_stop 2 && daemon_start 2 -o allow=0.0.0.0/0
check
ok $((! $?)) "check: the server's daemon refuses this host"
says peer-refused
ok $? "peer-refused is the reason" || diag "$(cat "$RIG_DIR/check")"
talk
ok $? "plain TCP works"

# A program of host 2 dials the daemon of host 1, over and over, as a daemon would. It keeps neither the daemon of its own host out, nor what
# goes over the session that was there.
daemon_stop 1 && daemon_start 1 -o allow=0.0.0.0/0
daemon_stop 2 && daemon_start 2 -o allow=0.0.0.0/0
until_true 20 eval 'talk && check'
flood='
import struct, sys, threading
sys.path.insert(0, sys.argv[1])
import peer
def dial(i):
    while True:
        try:
            w = peer.connect((sys.argv[2], 874))
            w.initiate(peer.IWCM)
            w.send(peer.sm(peer.HELLO, 1, struct.pack(">Q", 0x6c696172)))
            print("up", flush=True)
            while True: w.get()
        except (peer.Ended, OSError):
            pass
        w.close()
for i in range(12): threading.Thread(target=dial, args=(i,)).start()
'
flooded() { [ "$(grep -c up "$RIG_DIR/flood.log")" -gt "$1" ]; }
host_bg 2 flood.log python3 -c "$flood" "$(dirname "$0")/attacks" "$a"
f=$!
until_true 20 flooded 50
ok $? "a program of the client's host keeps dialling the server's daemon"
n=$(accepted)
for _ in 1 2 3 4 5; do talk; done
is $(($(accepted) - n)) 5 "connections are accelerated all the while" || diag "$(plain_reasons 2)"
daemon_stop 2 && daemon_start 2 -o allow=0.0.0.0/0
n=$(wc -l <"$RIG_DIR/flood.log")
until_true 20 flooded $((n + 50))
until_true 20 eval 'talk && check'
ok $? "a daemon that starts in the midst of it is let in" || diag "$(cat "$RIG_DIR/check")"
n=$(accepted)
for _ in 1 2 3 4 5; do talk; done
is $(($(accepted) - n)) 5 "and connections are accelerated" || diag "$(plain_reasons 2)"
host_end "$f"
grep -q 'too many sessions' "$RIG_DIR/iwarpd.1.log"
ok $? "there was no room for all"

# A daemon that is stopped says so, and ends its sessions by FIN. One that does not know the word for it takes it for that of a listener that goes.
older='
import struct, sys
sys.path.insert(0, sys.argv[1])
import peer
w = peer.connect((sys.argv[2], 874))
w.initiate(peer.IWCM)
w.send(peer.sm(peer.HELLO, 1, struct.pack(">Q", 0x6c696172)))
w.get()
print("up", flush=True)
try:
    while True:
        m = w.get()[18:]
        print(m[0] == peer.LISTENER, m[1], "reason", m[9], "port", struct.unpack(">H", m[28:30])[0], flush=True)
        w.send(peer.sm(peer.ACK, struct.unpack(">I", m[4:8])[0]))
except peer.Ended as e:
    print(e, flush=True)
'
host_bg 2 older.log python3 -c "$older" "$(dirname "$0")/attacks" "$a"
older=$!
until_true 20 grep -q up "$RIG_DIR/older.log"
until_true 20 eval 'talk && check'
n=$(wc -l <"$RIG_DIR/iwarpd.2.log")
since() { tail -n +$((n + 1)) "$RIG_DIR/iwarpd.2.log" | grep "session .* ended"; }
ends() { [ "$(since | grep -c "$a")" -ge 2 ]; }
daemon_stop 1
until_true 20 ends
is "$(since | grep -c "session to $a ended: its daemon was stopped")" 1 "the end of the session tells that the other daemon was stopped" || diag "$(since)"
is "$(since | grep -c reset)" 0 "nothing was reset" || diag "$(since)"
until_true 20 rig_gone $older
is "$(tail -n 2 "$RIG_DIR/older.log" | tr '\n' ' ')" "True 0 reason 23 port 874 EOF " "what an older daemon is told"

# A newer daemon has reasons that this one does not know: its session stays, and what is shown is the number.
newer='
import sys
sys.path.insert(0, sys.argv[1])
import peer
class Newer(peer.FakeDaemon):
    def message(self, w, m):
        if m[0] == peer.LOOKUP:
            w.send(peer.sm(peer.ANSWER, int.from_bytes(m[4:8], "big"), reason=57))
        else:
            super().message(w, m)
d = Newer(sys.argv[2], sys.argv[3])
print("up" if d.ready() else "no", flush=True)
sys.stdin.read() or peer.time.sleep(600)
'
host_bg 1 newer.log python3 -c "$newer" "$(dirname "$0")/attacks" "$a" "$(host_addr 2)"
newer=$!
until_true 20 grep -q up "$RIG_DIR/newer.log"
check
says "Conclusion: plain TCP, reason-57. A newer iwsock"
ok $? "check: a reason that a newer daemon has is shown by its number" || diag "$(cat "$RIG_DIR/check" "$RIG_DIR/newer.log")"
talk
ok $? "plain TCP works"
is "$(host_ctl 2 reasons --json | json "[(r['reason'], r['as_client']) for r in d if r['reason_number'] == 65535]")" "[('other', 1)]" "and it is counted"
is "$(host_ctl 2 peers --json | json "[(r['state'], r['session_out']) for r in d if r['address'] == '$a']")" "[('iwarp', True)]" \
	"the session with the newer daemon stays" || diag "$(host_ctl 2 peers)"
host_end $newer

# no daemon at the server; then there is one again, and both find each other without a wait for the cache
daemon_stop 2 && daemon_start 2 -o allow=0.0.0.0/0
check
says peer-no-iwarp
ok $? "peer-no-iwarp is the reason" || diag "$(cat "$RIG_DIR/check")"
says "port 874 of it: Connection refused"
ok $? "and the step says what the kernel said"
daemon_start 1 -o allow=0.0.0.0/0
until_true 20 eval 'check || says listener-not-registered'
says "or one that has not talked to its daemon since that started"
ok $? "check: the daemon does not know a server that is older" || diag "$(cat "$RIG_DIR/check")"
host_ctl 1 why $server_pid >"$RIG_DIR/why"
grep -q "is older than the daemon" "$RIG_DIR/why"
ok $? "nor does why say anything else of it" || diag "$(cat "$RIG_DIR/why")"
# the server program finds its daemon again when it next accepts
until_true 20 eval 'talk && check'
ok $? "a daemon that came back is found"
n=$(accepted)
talk
is $(($(accepted) - n)) 1 "and connections are accelerated again" || diag "$(plain_reasons 2)"

# a daemon that stands still, with a session to it and all that was ever asked remembered
until_true 20 check
kill -STOP "$(daemon_pid 1)"
check
is "$? $(grep -c 'does not answer' "$RIG_DIR/check") $(grep -c 'plain TCP, timeout' "$RIG_DIR/check")" "1 1 1" "check asks anew: it does not answer" ||
	diag "$(cat "$RIG_DIR/check")"
kill -CONT "$(daemon_pid 1)"
until_true 20 check
ok $? "and it does once it goes on" || diag "$(cat "$RIG_DIR/check")"

# a daemon that is stopped: no octet waits for it longer than the library does
kill -STOP "$(daemon_pid 1)"
rm -f "$RIG_DIR/ms"
talk &
t=$!
until_true 20 [ -s "$RIG_DIR/ms" ]
ok $? "the server's daemon stands still: the connection works all the same"
kill -CONT "$(daemon_pid 1)"
wait $t
ok $? "and ends once it goes on"	# until then the kernel keeps the socket that was passed to it
done_testing
