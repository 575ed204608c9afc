"""Delivers Ctrl-C only to this program under `make run`; otherwise make would receive it, too, and report an error."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_terminal() -> Iterator[None]:
    """Make this process group the terminal's foreground group while the block runs.

    A shell does this for its commands, make does not. Ctrl-Z is ignored meanwhile, because the
    parent does not handle it.
    """
    if os.getpgrp() == os.getpid() or not _in_foreground():
        yield
        return
    before = os.getpgrp()
    for number in (signal.SIGTTOU, signal.SIGTSTP):  # SIGTTOU: we restore the terminal's group from the background
        signal.signal(number, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(sys.stdin.fileno(), os.getpgrp())
    try:
        yield
    finally:
        os.tcsetpgrp(sys.stdin.fileno(), before)


def _in_foreground() -> bool:
    return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
