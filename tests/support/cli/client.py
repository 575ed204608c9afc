"""`scopegate` in a shell of a test: it asks the warm parent of the test's process for the command, and ends like it.

Started with `python -I -S` it takes a twentieth of what the command does that is started from nothing. The arguments:
the descriptor of the parent's socket, and those of the command.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys


def main(control: int, arguments: list[str]) -> int:
    """Let the command have this process's input, output, errors, environment, folder and signals; its exit code."""
    ours, theirs = os.pipe()
    request = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(socket.socket(fileno=control), [request], [0, 1, 2, theirs])
    os.close(theirs)
    pid = read(ours)
    for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: os.kill(pid, number))
    code = os.waitstatus_to_exitcode(read(ours))
    return 128 - code if code < 0 else code


def read(answers: int) -> int:
    """The next number that the parent says."""
    number = struct.Struct("=i")
    return int(number.unpack(os.read(answers, number.size))[0])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
