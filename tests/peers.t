#!/bin/bash
# SPDX-License-Identifier: MIT
# Daemons find each other: who answers, who reaches back, what is remembered, and what `iwctl check` says of it.
. "$(dirname "$0")/lib/rig.sh"
rig_need python3
rig_up 2
a=$(host_addr 1)

TALK=$RIG_TESTS/lib/talk.py
export PYTHONDONTWRITEBYTECODE=1
port=7600

check() { host_ctl 2 check "$a:$port" >"$RIG_DIR/check" 2>&1; }
says() { grep -q "$1" "$RIG_DIR/check"; }
# asked: check, and again where a busy machine had no answer in time; its status is in $status
answered() {
	check
	status=$?
	! says 'plain TCP, \(timeout\|peer-unreachable\)'
}
asked() { until_true 20 answered; }
peer_reason() { host_ctl 2 peers --json | json "[r['reason'] for r in d if r['address'] == '$a']"; }
# plain: a connection from its first octet to its last
plain() { host_exec_iw 2 timeout 60 python3 "$TALK" client "$a" $port </dev/null | grep -q ^ok; }
# accelerated: one that is, with all its octets
accelerated() {
	local client r=0
	host_told 2 talk python3 "$TALK" client "$a" $port
	client=$!
	is_iwarp() { tell talk 20 && [ "$(stream_count 2 "r['pid'] == $client and r['transport'] == 'iwarp'")" = 1 ]; }
	until_true 20 is_iwarp || { r=1; diag "$(host_ctl 2 -j streams; host_ctl 1 -j streams)"; }
	tell_end talk $client && return $r
}

host_bg_iw 1 server.log python3 "$TALK" server "$a" $port
server_pid=$!
host_port 1 $port
until_true 10 check
ok $? "check: a server's host will accelerate" || diag "$(cat "$RIG_DIR/check")"
accelerated
ok $? "and a connection is accelerated"
a=192.0.2.1 check
is "$? $(grep -c 'port 874 of it: Network is unreachable' "$RIG_DIR/check") $(grep -c 'did not answer' "$RIG_DIR/check")" "1 1 0" \
	"check: no route to a host is not that it did not answer" || diag "$(cat "$RIG_DIR/check")"

# host 2 lets nobody in: host 1 cannot reach back, so it must not act on the word of host 2
daemon_stop 2 && daemon_start 2 -o allow=127.0.0.0/8
asked
ok $((! status)) "check: the server's daemon cannot reach back"
says peer-untrusted
ok $? "peer-untrusted is the reason" || diag "$(cat "$RIG_DIR/check")"
plain
ok $? "plain TCP works"
is "$(ends 2 switched)" 0 "nothing was accelerated"

# host 1 lets nobody in
daemon_stop 1 && daemon_start 1 -o allow=127.0.0.0/8
daemon_stop 2 && daemon_start 2 -o allow=0.0.0.0/0
asked
ok $((! status)) "check: the server's daemon refuses this host"
says peer-refused
ok $? "peer-refused is the reason" || diag "$(cat "$RIG_DIR/check")"
plain
ok $? "plain TCP works"

# A program of host 2 dials the daemon of host 1, over and over, as a daemon would. It keeps neither the daemon of its own host out, nor what
# goes over the session that was there.
daemon_stop 1 && daemon_start 1 -o allow=0.0.0.0/0
daemon_stop 2 && daemon_start 2 -o allow=0.0.0.0/0
until_true 20 check
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
for _ in 1 2 3; do
	accelerated
	ok $? "connections are accelerated all the while"
done
daemon_stop 2 && daemon_start 2 -o allow=0.0.0.0/0
n=$(wc -l <"$RIG_DIR/flood.log")
until_true 20 flooded $((n + 50))
until_true 20 check
ok $? "a daemon that starts in the midst of it is let in" || diag "$(cat "$RIG_DIR/check")"
accelerated
ok $? "and connections are accelerated"
host_end "$f"
grep -q 'too many sessions' "$RIG_DIR/iwarpd.1.log"
ok $? "there was no room for all"

# A daemon that is stopped says so, and ends its sessions by FIN.
other='
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
        print("GOODBYE" if m[0] == peer.GOODBYE else m[0], flush=True)
        w.send(peer.sm(peer.ACK, struct.unpack(">I", m[4:8])[0]))
except peer.Ended as e:
    print(e, flush=True)
'
host_bg 2 other.log python3 -c "$other" "$(dirname "$0")/attacks" "$a"
other=$!
until_true 20 grep -q up "$RIG_DIR/other.log"
until_true 20 check
n=$(wc -l <"$RIG_DIR/iwarpd.2.log")
since() { tail -n +$((n + 1)) "$RIG_DIR/iwarpd.2.log" | grep "session .* ended"; }
ended() { [ "$(since | grep -c "$a")" -ge 2 ]; }
daemon_stop 1
until_true 20 ended
is "$(since | grep -c "session to $a ended: its daemon was stopped")" 1 "the end of the session tells that the other daemon was stopped" || diag "$(since)"
is "$(since | grep -c reset)" 0 "nothing was reset" || diag "$(since)"
until_true 20 rig_ended $other
is "$(tail -n 2 "$RIG_DIR/other.log" | tr '\n' ' ')" "GOODBYE EOF " "what it says, and then the end"

# A newer daemon has reasons that this one does not know: its session stays, and what is shown is the number.
newer='
import sys
sys.path.insert(0, sys.argv[1])
import peer
class Newer(peer.FakeDaemon):
    def about(self, w, kind, seq, flags, m):
        self.send(w, peer.ANSWER, seq, reason=57)
d = Newer(sys.argv[2], sys.argv[3])
print("up" if d.ready() else "no", flush=True)
sys.stdin.read() or peer.time.sleep(600)
'
host_bg 1 newer.log python3 -c "$newer" "$(dirname "$0")/attacks" "$a" "$(host_addr 2)"
newer=$!
until_true 20 grep -q up "$RIG_DIR/newer.log"
host_told 2 talk python3 "$TALK" client "$a" $port
client=$!
theirs() { [ "$(host_ctl 2 streams --json | json "[(r['reason'], r['their_reason'], r['their_reason_number']) for r in d if r['pid'] == $client]")" = \
	"[('other-end', 'reason-57', 57)]" ]; }
until_true 20 theirs
ok $? "a reason that a newer daemon has is shown by its number" || diag "$(host_ctl 2 -j streams; cat "$RIG_DIR/newer.log")"
host_ctl 2 why $client >"$RIG_DIR/why"
grep -q "Theirs is 57, reason-57: Another version of iwsock" "$RIG_DIR/why"
ok $? "and why has no text for it" || diag "$(cat "$RIG_DIR/why")"
tell_end talk $client
ok $? "plain TCP works"
is "$(host_ctl 2 peers --json | json "[(r['state'], r['session_out']) for r in d if r['address'] == '$a']")" "[('iwarp', True)]" \
	"the session with the newer daemon stays" || diag "$(host_ctl 2 peers)"
host_end $newer

# An answer that is older than what the other daemon has said meanwhile, on its own session: it does not count, and is asked for again.
late='
import sys
sys.path.insert(0, sys.argv[1])
import peer
class Late(peer.FakeDaemon):
    first = True
    def about(self, w, kind, seq, flags, m):
        if self.first:
            self.first = False
            self.send(self.asks, peer.PROPOSE, 77, m[20:40] + m[:20])
            print("said", self.wait(lambda: 77 in self.answers) and self.answers[77][0], flush=True)
            self.send(w, peer.ANSWER, seq, reason=peer.UNANSWERED)
        else:
            self.send(w, peer.ANSWER, seq, yes=1)
            print("asked again", flush=True)
d = Late(sys.argv[2], sys.argv[3])
print("up" if d.ready() else "no", flush=True)
sys.stdin.read() or peer.time.sleep(600)
'
host_bg 1 late.log python3 -c "$late" "$(dirname "$0")/attacks" "$a" "$(host_addr 2)"
late=$!
until_true 20 grep -q up "$RIG_DIR/late.log"
host_told 2 lines "$IW_BUILD/tests/lib/lines" $port "$a"
client=$!
until_true 20 rig_said lines 1
tell lines "send 0 abc"
until_true 20 grep -q "asked again" "$RIG_DIR/late.log"
is "$? $(grep said "$RIG_DIR/late.log")" "0 said 1" "an answer that comes late is asked for again" || diag "$(cat "$RIG_DIR/late.log"; host_ctl 2 streams)"
matched() { [ "$(stream_count 2 "r['pid'] == $client and r['reason'] == 'matched'")" = 1 ]; }
until_true 20 matched
ok $? "and the connection is as both daemons say" || diag "$(host_ctl 2 streams)"
tell_end lines $client
host_end $late

# no daemon at the server; then there is one again, and both find each other without a wait for the cache
daemon_stop 2 && daemon_start 2 -o allow=0.0.0.0/0
asked
says peer-no-iwarp
ok $? "peer-no-iwarp is the reason" || diag "$(cat "$RIG_DIR/check")"
says "port 874 of it: Connection refused"
ok $? "and the step says what the kernel said"
daemon_start 1 -o allow=0.0.0.0/0
until_true 20 check
ok $? "a daemon that came back is found" || diag "$(cat "$RIG_DIR/check")"
host_ctl 1 why $server_pid >"$RIG_DIR/why"
grep -q "is older than the daemon" "$RIG_DIR/why"
ok $? "nor does why say anything else of it" || diag "$(cat "$RIG_DIR/why")"
accelerated
ok $? "and connections are accelerated again"

# a daemon that stands still, with a session to it and all that was ever asked remembered
until_true 20 check
kill -STOP "$(daemon_pid 1)"
check
is "$? $(grep -c 'but it does not answer' "$RIG_DIR/check") $(grep -c 'plain TCP, timeout' "$RIG_DIR/check")" "1 1 1" "check asks anew: it does not answer" ||
	diag "$(cat "$RIG_DIR/check")"
kill -CONT "$(daemon_pid 1)"
until_true 20 check
ok $? "and it does once it goes on" || diag "$(cat "$RIG_DIR/check")"

# no octet waits for it
kill -STOP "$(daemon_pid 1)"
plain
ok $? "the server's daemon stands still: a connection works from its beginning to its end"
kill -CONT "$(daemon_pid 1)"
until_true 20 accelerated
ok $? "and is accelerated once it goes on"
done_testing
