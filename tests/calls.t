#!/bin/bash
# SPDX-License-Identifier: MIT
# System calls of a server that works its queue pairs itself, and has handlers: none blocks signals for a request.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
command -v strace >/dev/null || skip_all "needs strace"
rig_up 2

cat >"$RIG_DIR/echo.py" <<'EOF'
import select, signal, socket, sys

if sys.argv[1] == "serve":
    signal.signal(signal.SIGUSR1, lambda *a: None)
    l = socket.create_server((sys.argv[2], 0))
    print(l.getsockname()[1], flush=True)
    c, _ = l.accept()
    c.setblocking(False)
    e = select.epoll()
    e.register(c, select.EPOLLIN)
    while True:
        e.poll()
        b = c.recv(4096)
        if not b:
            break
        c.send(b)
    sys.exit()
c = socket.create_connection((sys.argv[2], int(sys.argv[3])))
for i in range(int(sys.argv[4])):
    c.sendall(b"0123456789")
    assert c.recv(10, socket.MSG_WAITALL) == b"0123456789"
print("done")
EOF

told_port() { [ -s "$RIG_DIR/server" ]; }

# blocked N: MASKS is how often the server set its signal mask, with so many requests
blocked() {
	local n=$1 pid
	: >"$RIG_DIR/server"
	host_bg_iw 1 server strace -f -e trace=rt_sigprocmask -o "$RIG_DIR/calls.$n" "$PY" "$RIG_DIR/echo.py" serve "$(host_addr 1)"
	pid=$!
	until_true 10 told_port
	is "$(host_exec_iw 2 "$PY" "$RIG_DIR/echo.py" ask "$(host_addr 1)" "$(cat "$RIG_DIR/server")" "$n" 2>&1)" "done" "$n requests"
	wait "$pid"
	MASKS=$(grep -c SIG_SETMASK "$RIG_DIR/calls.$n")
}
blocked 1000
few=$MASKS
blocked 2000
at_most $((MASKS - few)) 50 "a thousand requests more: masks set"
at_least "$(ends 1 upgraded)" 2 "ends on iWARP"
done_testing
