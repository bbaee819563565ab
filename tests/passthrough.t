#!/bin/bash
# SPDX-License-Identifier: MIT
# Under the library without a daemon nothing changes: files, pipes, other sockets, plain TCP, odd processes, exit codes, output.
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
# a program that closes every descriptor, and one that has none
same "closing everything" bash -c 'exec 3>&- 4>&- 5>&-; exec 0<&-; echo still'
same "no standard descriptors" sh -c 'exec sh -c "echo lost; exit 5" <&- >&- 2>&-'
same "a descriptor limit" bash -c 'ulimit -n 16; cat data | wc -c'
is "$(ls -A "$RIG_DIR/h1" | wc -l)" 0 "nothing was written to the run directory"
cd / || exit 1
done_testing
