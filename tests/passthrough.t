#!/bin/bash
# SPDX-License-Identifier: MIT
# Under the library without a daemon nothing changes: files, pipes, other sockets, plain TCP, odd processes, exit codes, output. Nor does the cost of
# a connection that is never proposed, with one.
. "$(dirname "$0")/lib/rig.sh"
RIG_NO_DAEMON=1 rig_up 1
bare() { host_exec 1 "$@"; }
with() { host_exec_iw 1 "$@"; }
same() { # NAME cmd...: the same output, errors and status
	local name=$1 a b
	shift
	a=$(bare "$@" 2>&1; echo "status $?")
	b=$(with "$@" 2>&1; echo "status $?")
	is "$b" "$a" "$name"
}

cd "$RIG_DIR" || exit 1
head -c 5000000 /dev/urandom >data
same "read and write files" sh -c 'cat data | sha256sum; cp data copy; cmp data copy; echo $?'
same "pipes and a big shell" bash -c 'for i in 1 2 3; do seq 1000 | sort -rn | head -n 2; done; (exit 7); echo $?'
same "a missing file" cat nothing
same "nothing is printed" true
same "exit status" sh -c 'exit 42'
same "death by a signal" sh -c 'kill -TERM $$'
same "environment goes on" sh -c 'echo $LANG; env | grep -c "^PATH="'
same "tar" sh -c 'tar cf - data | tar tf -'
PY=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null)
if [ -n "$PY" ]; then
	same "socketpair, UDP, unix sockets" "$PY" -c '
import socket, os
a, b = socket.socketpair(); a.send(b"x"); print(b.recv(9)); a.close(); print(b.recv(9))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.sendto(b"d", u.getsockname()); print(u.recv(9))
l = socket.socket(socket.AF_UNIX); l.bind("\0iwt%d" % os.getpid()); l.listen(); c = socket.socket(socket.AF_UNIX); c.connect(l.getsockname()); s, _ = l.accept(); c.send(b"u"); print(s.recv(9))
'
	same "subprocesses: fork, exec, close_fds" "$PY" -c '
import subprocess
print(subprocess.run(["sh", "-c", "ls /proc/self/fd | wc -l"], capture_output=True, close_fds=True).stdout)
print(subprocess.run(["cat"], input=b"in", capture_output=True).stdout)
'
	same "threads and a fork among them" "$PY" -c '
import os, threading
t = [threading.Thread(target=lambda: [open("/dev/null").close() for _ in range(200)]) for _ in range(8)]
[x.start() for x in t]
p = os.fork()
if p == 0: os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))
[x.join() for x in t]
'
	same "HTTP over plain TCP" "$PY" -c '
import http.server, threading, urllib.request
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"x" * 1000000)
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
threading.Thread(target=s.serve_forever, daemon=True).start()
print(len(urllib.request.urlopen("http://127.0.0.1:%d/" % s.server_port).read()))
s.shutdown()
'
fi
if command -v strace >/dev/null; then
	# a file copy: no call more than without the library once the library has started
	a=$(bare strace -c -f -e trace=read,write cat data 2>&1 >/dev/null | awk '/ (read|write)$/ { s += $4 } END { print s }')
	b=$(with strace -E LD_PRELOAD="$RIG_LIB" -c -f -e trace=read,write cat data 2>&1 >/dev/null | awk '/ (read|write)$/ { s += $4 } END { print s }')
	at_most "$((b - a))" 6 "strace: no system call more per read and write"
	b=$(with strace -f -e trace=clone,clone3,socket,connect true 2>&1 | grep -Ec 'clone|connect')
	is "$b" 0 "strace: no thread, no connection at start-up"
fi
# A connection that is never proposed makes exactly the system calls that it makes without the library, with a daemon and without one:
# what ten more of them make, by name and number.
cat >"$RIG_DIR/young.py" <<'END'
import errno, os, select, socket, sys
def talk(way):
    l = socket.create_server(("127.0.0.1", 0))
    c = socket.create_connection(l.getsockname())
    s = l.accept()[0]
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    p = select.epoll()
    p.register(s, select.EPOLLIN | select.EPOLLET)
    p.modify(s, select.EPOLLIN)
    n = socket.socket()
    n.setblocking(False)
    assert n.connect_ex(l.getsockname()) in (0, errno.EINPROGRESS)
    q = select.poll()
    q.register(n, select.POLLOUT)
    assert q.poll() and not n.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    n.close()
    assert l.accept()[0].recv(1) == b""
    for i in range(5):
        c.sendall(b"question")
        if way == "poll": select.select([s], [], [])
        else: p.poll()
        assert s.recv(100) == b"question"
        s.sendmsg([b"ans", b"wer"])
        assert os.read(c.fileno(), 100) == b"answer"
    c.setblocking(False)
    try: c.recv(1)
    except BlockingIOError: pass
    p.unregister(s)
    d = s.dup()
    c.shutdown(socket.SHUT_WR)
    assert d.recv(1) == b""
    c.getsockname(), s.getpeername(), s.fileno()
    for x in c, s, d, l, p: x.close()
for i in range(int(sys.argv[-1])): talk(("poll", "epoll")[i % 2])
END
calls() { # N PREFIX...: what N connections make
	local n=$1
	shift
	"$@" -c -f -U calls,name -o "$RIG_DIR/strace.$n" "$PY" -I -S -B "$RIG_DIR/${prog:-young}.py" $port "$n" || echo failed
	awk '$1 ~ /^[0-9]+$/ && $2 != "total" { print $2, $1 }' "$RIG_DIR/strace.$n" | sort
}
ten() { join -a 2 -e 0 -o 0,1.2,2.2 <(calls 20 "$@") <(calls 30 "$@") | awk '$3 != $2 && $1 !~ /^(mmap|munmap|brk|mremap|madvise|futex)$/ { print $1, $3 - $2 }'; }
young() { # NAME
	is "$(ten nsenter --net="$(host_ns 1)" strace -E LD_PRELOAD="$RIG_LIB" -E IWSOCK_RUNDIR="$(host_dir 1)" -E IWSOCK_CONF=)" "$young" "strace -c: $1"
}
if command -v strace >/dev/null && [ -n "$PY" ]; then
	young=$(ten nsenter --net="$(host_ns 1)" strace)
	at_least "$(awk '$1 == "sendto" { print $2 }' <<<"$young")" 50 "strace -c: calls of ten connections"
	young "a connection that is not proposed makes the calls that it makes without the library, no daemon"
	daemon_start 1
	young "and with a daemon"
	# One that is proposed, and never matched since its other end has no library: one message, what stands in it, and another when it is closed.
	cat >"$RIG_DIR/echo.py" <<'END'
import socket
l = socket.create_server(("127.0.0.1", 0))
print(l.getsockname()[1], flush=True)
while True:
    c = l.accept()[0]
    while d := c.recv(100): c.sendall(d)
    c.close()
END
	cat >"$RIG_DIR/proposed.py" <<'END'
import socket, sys
for i in range(int(sys.argv[2])):
    c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    for k in range(110):
        c.sendall(b"question")
        c.recv(100)
    c.close()
END
	host_bg 1 port "$PY" "$RIG_DIR/echo.py"
	echoer=$!
	until_true 10 grep -q . "$RIG_DIR/port"
	port=$(cat "$RIG_DIR/port") prog=proposed
	ten nsenter --net="$(host_ns 1)" strace >"$RIG_DIR/bare"
	costs="fstat 20, getpeername 10, getsockname 10, getsockopt 40, recvfrom 10, rt_sigprocmask 20, sendmsg 20"
	proposed() {
		ten nsenter --net="$(host_ns 1)" strace -E LD_PRELOAD="$RIG_LIB" -E IWSOCK_RUNDIR="$(host_dir 1)" -E IWSOCK_CONF= >"$RIG_DIR/with"
		join -a 2 -e 0 -o 0,1.2,2.2 "$RIG_DIR/bare" "$RIG_DIR/with" | awk '$3 != $2 && $1 !~ /^(ppoll|recvmsg)$/ { printf "%s%s %d", s, $1, $3 - $2; s = ", " }'
	}
	# a daemon that does not answer the greeting within 10 ms is looked at, which costs more in that run
	for _ in $(seq 40); do
		got=$(proposed)
		[ "$got" != "$costs" ] || break
	done
	is "$got" "$costs" \
		"strace -c: what ten connections cost that are proposed and never matched, besides the greeting"
	host_end $echoer
	port='' prog=
	daemon_stop 1
	rm -rf "$RIG_DIR/h1"/*
fi
# Memory of a server with 10,000 connections that are not proposed.
cat >"$RIG_DIR/many.py" <<'END'
import os, resource, select, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
n = min(10000, hard - 50)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def rss(): return [int(l.split()[1]) for l in open("/proc/self/smaps_rollup") if l.startswith("Rss:")][0]
l = socket.create_server(("127.0.0.1", 0), backlog=100)
if not os.fork():
    os.environ.pop("LD_PRELOAD", None)
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", """
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (%d, %d))
c = []
for i in range(%d):
    c.append(socket.create_connection(("127.0.0.1", %d)))
    c[-1].send(b"x")
    c[-1].recv(1)
c[0].recv(1)
""" % (hard, hard, n, l.getsockname()[1])])
p = select.epoll()
kept = [None] * n
at = 0
for i in range(n):
    if i == 100: at = rss()
    kept[i] = s = l.accept()[0]
    p.register(s, select.EPOLLIN)
    p.poll()
    s.send(s.recv(1))
    p.modify(s, 0)
print(n - 100, rss() - at, flush=True)
os._exit(0)
END
if [ -n "$PY" ]; then
	read -r n bare_kb <<<"$(bare "$PY" -I -S -B "$RIG_DIR/many.py" </dev/null)"
	read -r n with_kb <<<"$(env -u IWSOCK_CONF nsenter --net="$(host_ns 1)" env LD_PRELOAD="$RIG_LIB" IWSOCK_RUNDIR="$(host_dir 1)" "$PY" -I -S -B "$RIG_DIR/many.py" </dev/null)"
	at_most $(((with_kb - bare_kb) * 1024 / n)) 200 "octets of memory for each of $n connections"
fi
# a program that closes every descriptor, and one that has none
same "closing everything" bash -c 'exec 3>&- 4>&- 5>&-; exec 0<&-; echo still'
same "no standard descriptors" sh -c 'exec sh -c "echo lost; exit 5" <&- >&- 2>&-'
same "a descriptor limit" bash -c 'ulimit -n 16; cat data | wc -c'
is "$(ls -A "$RIG_DIR/h1" | wc -l)" 0 "nothing was written to the run directory"
cd / || exit 1
done_testing
