"""Says to systemd how the gateway is: ready, reloading, stopping (sd_notify, `Type=notify-reload`).

A datagram to the socket that NOTIFY_SOCKET names; without it, nothing is sent. A service manager that does not listen
is no reason to fail.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Final

_VARIABLE: Final = "NOTIFY_SOCKET"


def ready(status: str) -> None:
    """The gateway serves, or a reload has ended; `status` is one line for `systemctl status`."""
    _notify(f"READY=1\nSTATUS={status}")


def reloading() -> None:
    """A reload begins; `ready` follows."""
    _notify(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def stopping() -> None:
    """The gateway drains and ends."""
    _notify("STOPPING=1\nSTATUS=draining")


def _notify(state: str) -> None:
    place = os.environ.get(_VARIABLE)
    if not place:
        return
    address = f"\0{place[1:]}" if place.startswith("@") else place
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.setblocking(False)
        manager.sendto(state.encode(), address)
