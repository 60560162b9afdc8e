"""Takes `pause` out of the loop of an idle CPU, while a machine boots: idle.py LOG SOCKET INPUT PID, for what-if-vm.sh.

QEMU ends the turn of a virtual CPU at `pause`, so that a CPU beside an idle one executes twice as much in the same virtual time, and demands depend on what
the other CPU does. init.sh prints where `cpu_idle_poll` is and waits for a line; the instruction is replaced over QEMU's socket for debuggers.
"""
import os
import re
import socket
import sys
import time

log, path, line, pid = sys.argv[1:]


def ask(to, text):
    to.sendall(b"$" + text + b"#%02x" % (sum(text) & 0xFF))
    while True:
        got = b""
        while not re.search(rb"\$([^#]*)#..", got):
            more = to.recv(4096)
            if not more:
                sys.exit("idle.py: the machine has ended")
            got += more
        to.sendall(b"+")
        return re.search(rb"\$([^#]*)#..", got)[1]


while not (found := re.search(r"^== idle loop at ([0-9a-f]+)\s", open(log, errors="replace").read(), re.M)):
    time.sleep(0.1)
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        sys.exit(0)
at, length = int(found[1], 16), 256
to = socket.socket(socket.AF_UNIX)
to.connect(path)
said = "no pause found"
ask(to, b"?")
# The loop is cold code that the compiler may have put elsewhere; within the function it is the first `pause`.
code = bytes.fromhex(ask(to, b"m%x,%x" % (at, length)).decode())
if (where := code.find(b"\xf3\x90")) >= 0:
    said = ask(to, b"M%x,2:9090" % (at + where)).decode()
to.sendall(b"$D#44")
time.sleep(0.2)
to.close()
open(line, "w").write(said + "\n")
