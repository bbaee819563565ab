#!/bin/bash
# SPDX-License-Identifier: MIT
# iwctl close (SEC-U07): streams that say nothing are found and ended, by who may; both programs see what TCP shows of a killed
# connection; nothing is left of them.
. "$(dirname "$0")/lib/rig.sh"
rig_up 2
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
A=$(host_addr 1) B=$(host_addr 2)
N=1000
case $IW_BUILD in *san*|*address*|*thread*) N=200 ;; esac

# ends.py server ADDRESS PORT	accepts for ever; how each connection ended goes to the output
# ends.py client ADDRESS PORT N	connections that greet, and again for each line of input, and are silent otherwise, sleeping in epoll; at its end: how
#				many ended how
# ends.py full ADDRESS PORT	greets as often as it is told; at the end of the input writes until that is refused; what refused it
# ends.py mute ADDRESS PORT	listens, accepts nothing until its input ends
cat >"$RIG_DIR/ends.py" <<'END'
import collections, errno, os, resource, select, socket, sys, threading

resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
what, addr, port = sys.argv[1], sys.argv[2], int(sys.argv[3])

def name(fn, *args):
    try:
        got = fn(*args)
        return "eof" if got == b"" else "octets"
    except OSError as e:
        return errno.errorcode[e.errno]

def server():
    l = socket.create_server((addr, port), backlog=4096)
    p = select.epoll()
    p.register(l, select.EPOLLIN)
    conns = {}
    while True:
        for fd, ev in p.poll():
            if fd == l.fileno():
                c, _ = l.accept()
                conns[c.fileno()] = c
                p.register(c, select.EPOLLIN)
                continue
            c = conns[fd]
            how = name(c.recv, 4096) if ev & select.EPOLLIN or ev & (select.EPOLLERR | select.EPOLLHUP) else "?"
            if how == "octets":
                c.send(b"!")
                continue
            print("ended", how, flush=True)
            p.unregister(fd)
            del conns[fd]
            c.close()

def report(count):
    print("ends", " ".join("%s=%d" % x for x in sorted(count.items())), flush=True)

def client(n):
    p, socks, count = select.epoll(), {}, collections.Counter()
    for _ in range(n):
        s = socket.create_connection((addr, port), timeout=60)
        s.sendall(b"?")
        assert s.recv(1) == b"!"
        s.settimeout(None)
        socks[s.fileno()] = s
        p.register(s, select.EPOLLIN)
    p.register(sys.stdin, select.EPOLLIN)
    print("ready", n, flush=True)
    while True:
        for fd, ev in p.poll():
            if fd == sys.stdin.fileno():
                line = os.read(fd, 1)
                if not line:
                    report(count)
                for i in range(1 if not line else 0 if line == b"\n" else 5):
                    for s in socks.values():    # those that live still work
                        s.sendall(b"?")
                        assert s.recv(1) == b"!"
                if line == b"\n":
                    continue
                print("more" if line else "alive", len(socks), flush=True)
                if not line:
                    return
                continue
            s = socks.pop(fd)
            # as `ss -K` leaves it: the error once, then a socket without a connection
            err = errno.errorcode.get(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), "0") if len(socks) % 2 else name(s.recv, 1)
            count["/".join((err, name(s.recv, 1), name(s.send, b"x")))] += 1
            p.unregister(fd)
            s.close()
            if not socks:
                report(count)

def full():
    s = socket.create_connection((addr, port), timeout=60)
    s.settimeout(None)
    total = 0
    print("ready", flush=True)
    for line in sys.stdin:
        for i in range(5):
            s.sendall(b"?")
            assert s.recv(1) == b"!"
        print("more", flush=True)
    try:
        while True:
            total += s.send(b"x" * 65536)
    except OSError as e:
        print("refused", errno.errorcode[e.errno], name(s.recv, 1), flush=True)

def mute():
    l = socket.create_server((addr, port))
    sys.stdin.read()

{"server": server, "client": lambda: client(int(sys.argv[4])), "full": full, "mute": mute}[what]()
END
chmod 755 "$RIG_DIR" "$RIG_DIR/ends.py"

# run HOST NAME args...: ends.py with the library, which tell NAME tells
run() {
	local h=$1 name=$2
	shift 2
	# shellcheck disable=SC2086
	host_told "$h" "$name" ${AS-} "$PY" "$RIG_DIR/ends.py" "$@"
}
said() { grep -q "$2" "$RIG_DIR/$1.log"; }
waits() { until_true "${3-20}" said "$1" "$2" || { diag "$(tail -n 5 "$RIG_DIR/$1.log")"; return 1; }; }
# streams NAME PID N TRANSPORT: told until its connections are streams, at both ends
streams() {
	is_all() { tell "$1" m && [ "$(stream_count 1 "r['pid'] == $2 and r['transport'] == '${4-iwarp}'")" = "$3" ]; }
	until_true "${PATIENT-30}" is_all "$@" || { diag "$(host_ctl 1 streams | tail -n 5; plain_reasons 1)"; return 1; }
}
files() { find "/proc/$(daemon_pid "$1")/fd" -mindepth 1 | wc -l; }
maps() { grep -c memfd: "/proc/$(daemon_pid "$1")/maps"; }
used() { host_ctl "$1" -j status | json "[d[k] for k in sorted(d) if k.startswith('used_')]"; }
ids() { host_ctl "$1" -j streams | json "' '.join(r['id'] for r in d if 'id' in r and ($2))"; }
idle_all() { [ "$(stream_count 1 "r.get('idle_ms', 0) >= 1000 and r['pid'] == $1 and r['transport'] == 'iwarp'")" = "$2" ]; }

run 2 server server "$B" 7400
host_port 2 7400
run 1 warm client "$B" 7400 1
warm=$!
waits warm ready && streams warm $warm 1
tell_end warm $warm
gone() { no_streams 1 && no_streams 2; }
until_true 20 gone
before="$(files 1) $(files 2)"
used_before="$(used 1) $(used 2)"
maps_before="$(maps 1) $(maps 2)"

# ---- silent ones by the thousand ----
run 1 silent client "$B" 7400 $N
silent=$!
waits silent "^ready" 120 && PATIENT=120 streams silent $silent $N
ok $? "$N connections"
run 1 busy client "$B" 7400 3
busy=$!
waits busy ready && streams busy $busy 3
until_true 30 idle_all $silent $N
ok $? "iwctl streams lists them, with how long they are idle"
out=$(host_ctl 1 close --idle 3600)
is "$? $out" "1 No stream is idle for so long." "close --idle 3600: none"
victims=$(ids 1 "r['pid'] == $busy")
out=$(host_ctl 1 -j close $victims | json "sorted((r['id'], r['closed'], r['pid']) for r in d) == sorted((i, True, $busy) for i in '$victims'.split())")
is "$out" True "close ID ID ID"
waits busy "^ends"
is "$(grep ^ends "$RIG_DIR/busy.log" | tr ' ' '\n' | grep -c 'ECONNABORTED/eof/EPIPE')" 1 "these and no others, and at once"
tell_end busy $busy

start=$(now_ms)
out=$(host_ctl 1 close --json --idle 1 --user root)
is $? 0 "close --idle 1: exit status"
diag "$N streams in $(($(now_ms) - start)) ms"
at_least "$(json "sum(r['closed'] for r in d)" <<<"$out")" $N "it tells each, as JSON"
waits silent "^ends" 60
is "$(grep ^ends "$RIG_DIR/silent.log")" "ends ECONNABORTED/eof/EPIPE=$N" "the program sees ECONNABORTED once, then the end of the stream, and EPIPE"
resets() { [ "$(grep -c '^ended ECONNRESET' "$RIG_DIR/server.log")" -ge "$1" ]; }
until_true 60 resets $((N + 3))
ok $? "the other program sees ECONNRESET" || diag "$(sort "$RIG_DIR/server.log" | uniq -c)"
tell_end silent $silent
until_true 20 gone
ok $? "no stream and no STag is left, here and there"
none_used() { [ "$(used 1) $(used 2)" = "$used_before" ]; }
until_true 10 none_used
ok $? "nor anything of the quotas" || diag "before: $used_before, now: $(used 1) $(used 2)"
none_left() { [ "$(files 1) $(files 2)" = "$before" ]; }
until_true 10 none_left
ok $? "nor any file" || diag "before: $before, now: $(files 1) $(files 2)"
is "$(maps 1) $(maps 2)" "$maps_before" "nor a segment"
grep -q "user 0 closed $N streams" "$RIG_DIR/iwarpd.1.log"
ok $? "the log says who closed how many"

# ---- every state ----
# asleep in send()
cat >"$RIG_DIR/deaf.py" <<'END'
import socket, sys
c = socket.create_server((sys.argv[1], int(sys.argv[2]))).accept()[0]
while c.recv(1) == b"?": c.sendall(b"!")
sys.stdin.read() or socket.socket().accept()
END
host_told 2 deaf "$PY" "$RIG_DIR/deaf.py" "$B" 7401
deaf=$!
host_port 2 7401
run 1 full full "$B" 7401
full=$!
waits full ready && streams full $full 1
exec {RIG_TOLD[full]}>&-
stuck() { [ "$(stream_count 1 "r['pid'] == $full and r['state'] == '$1' and r.get('idle_ms', 0) > 500 and r['tx_bytes'] > 100000")" = 1 ]; }
until_true 30 stuck running
ok $? "a stream whose peer reads nothing" || diag "$(host_ctl 1 streams)"
id=$(ids 1 "r['pid'] == $full")
out=$(host_ctl 1 close "$id")
is "$? $(cut -d ' ' -f 1,2 <<<"$out")" "0 closed $id," "is closed"
waits full refused
is "$(grep refused "$RIG_DIR/full.log")" "refused ECONNABORTED eof" "a program asleep in send wakes up"
wait $full
unset "RIG_TOLD[full]"
tell_end deaf $deaf

# relayed: the other end never comes
daemon_stop 1 && daemon_start 1 -o go=at-once
run 2 mute mute "$B" 7402
mute=$!
host_port 2 7402
run 1 full full "$B" 7402
full=$!
waits full ready
exec {RIG_TOLD[full]}>&-
until_true 10 stuck relay
ok $? "a stream that is relayed, whose peer does not accept" || diag "$(host_ctl 1 streams)"
host_ctl 1 close "$(ids 1 "r['pid'] == $full")" >/dev/null
is $? 0 "is closed"
waits full refused
is "$(grep refused "$RIG_DIR/full.log")" "refused ECONNABORTED eof" "its program sees it"
wait $full
unset "RIG_TOLD[full]"
tell_end mute $mute

# the other daemon is asleep: close_timeout, and not longer
daemon_stop 1 && daemon_start 1 -o close_timeout=1000
until_true 10 host_ctl 1 check "$B:7400"
run 1 dark client "$B" 7400 1
dark=$!
waits dark ready && streams dark $dark 1
kill -STOP "$(daemon_pid 2)"
host_ctl 1 close "$(ids 1 "r['pid'] == $dark")" >/dev/null
until_true 10 no_streams 1
ok $? "a peer that answers nothing: it is gone after close_timeout"
waits dark "^ends"
is "$(grep ^ends "$RIG_DIR/dark.log")" "ends ECONNABORTED/eof/EPIPE=1" "its program knew at once"
kill -CONT "$(daemon_pid 2)"
until_true 20 no_streams 2
ok $? "and the other end when it wakes up"
tell_end dark $dark

# within the host
run 1 near server 127.0.0.1 7403
host_port 1 7403
run 1 nearc client 127.0.0.1 7403 1
nearc=$!
waits nearc ready && streams nearc $nearc 1 local
id=$(ids 1 "r['pid'] == $nearc")
err=$(host_ctl 1 close "$id" 2>&1)
is "$?" 1 "a stream within the host: no"
is "$(grep -c "$id: not closed: it joins two programs of this host" <<<"$err")" 1 "and why"
tell_end nearc $nearc
is "$(tail -n 1 "$RIG_DIR/nearc.log")" "alive 1" "it goes on"

# ---- who may ----
if command -v setpriv >/dev/null; then
	chmod 711 "$RIG_DIR" "$(host_dir 1)"
	cp "$IW_BUILD/iwctl" "$RIG_DIR/iwctl"
	as() { local u=$1; shift; setpriv --reuid "$u" --regid "$u" --clear-groups "$RIG_DIR/iwctl" --run-dir "$(host_dir 1)" "$@"; }
	as 65534 --version >/dev/null && setpriv --reuid 65534 --regid 65534 --clear-groups "$PY" -c '' 2>/dev/null || PY=/usr/bin/python3
	run 1 mine client "$B" 7400 2
	mine=$!
	AS="setpriv --reuid 65534 --regid 65534 --clear-groups" run 1 theirs client "$B" 7400 2
	theirs=$!
	waits mine ready && waits theirs ready && streams mine $mine 2 && streams theirs $theirs 2
	until_true 10 idle_all $mine 2 && until_true 10 idle_all $theirs 2
	err=$(as 65534 close $(ids 1 "r['pid'] == $mine") 2>&1)
	is "$? $(grep -c 'not closed: there is no such stream' <<<"$err")" "1 2" "a user cannot close another's, nor learn that they exist"
	as 65534 close --idle 1 --user 0 >/dev/null 2>&1
	is $? 4 "nor those of a user named"
	is "$(as 65534 -j close --idle 1 | json "sorted({r['uid'] for r in d if r['closed']}) + [len(d)]")" "[65534, 2]" "close --idle of a user: his own"
	waits theirs "^ends"
	is "$(grep ^ends "$RIG_DIR/theirs.log")" "ends ECONNABORTED/eof/EPIPE=2" "they are closed"
	tell_end mine $mine
	tell_end theirs $theirs
	is "$(tail -n 1 "$RIG_DIR/mine.log")" "alive 2" "and nobody else's"
else
	skip "other users" "no setpriv"
fi

# ---- usage ----
usage() { # WANTED-STATUS ARGS...
	local want=$1
	shift
	"$IW_BUILD/iwctl" --run-dir "$(host_dir 1)" close "$@" >/dev/null 2>&1
	is $? "$want" "close $*: exit status"
}
for bad in "" "--idle" "--idle 0" "--idle x" "--idle -1" "--idle 99999999999" "--idle 1s" "--idle 1 abc" "--user root" "--user root abc" \
	"--idle 1 --user no-such-user" "--idle 1 --user -1" "xyz" "12345678901234567" "-- -1" "--frobnicate"; do
	# shellcheck disable=SC2086
	usage 2 $bad
done
usage 1 0
usage 1 ffffffffffffffff
usage 0 --help
is "$(host_ctl 1 -j close deadbeef | json "[(r['id'], r['closed'], r['why']) for r in d]")" "[('deadbeef', False, 'there is no such stream')]" "an id of nothing, as JSON"
done_testing
