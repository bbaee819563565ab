# SPDX-License-Identifier: MIT
"""
A program on a terminal of its own:

    on_terminal.py COLUMNS LINES SCREENS PROGRAM ...    prints what it writes there; after so many cleared screens it is interrupted (0: until it ends)

The exit status is the program's, or 130 if the interrupt ended it.
"""
import fcntl
import os
import pty
import signal
import struct
import sys
import termios

columns, lines, screens = (int(x) for x in sys.argv[1:4])
pid, fd = pty.fork()
if pid == 0:
    os.read(0, 1)   # not before it has its size
    os.execvp(sys.argv[4], sys.argv[4:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
mode = termios.tcgetattr(fd)
mode[1] &= ~termios.ONLCR
mode[3] &= ~termios.ECHO
termios.tcsetattr(fd, termios.TCSANOW, mode)
os.write(fd, b"\n")
out, told = b"", False
while True:
    try:
        d = os.read(fd, 65536)
    except OSError:
        d = b""
    if not d:
        break
    out += d
    if screens and not told and out.count(b"\033[2J") > screens:
        told = True
        os.kill(pid, signal.SIGINT)
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(out)
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
