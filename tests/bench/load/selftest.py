"""The far half of the load generator's self-test: a server that receives the messages of its own sender."""

from __future__ import annotations

from typing import Any

from cproton_ffi import lib

from tests.bench.load.peer import Peer
from tests.bench.load.roles import Receiver


class Mirror:
    """Answers the attach and then is a `Receiver`, on the serving side of the connection."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.delivery = receiver.delivery
        self.failed = receiver.failed

    def opened(self, peer: Peer) -> None:
        self.receiver.peer = peer

    def attached(self, link: Any) -> None:
        session = lib.pn_link_session(link)
        lib.pn_session_set_incoming_capacity(session, 256 << 20)
        lib.pn_session_open(session)
        lib.pn_terminus_copy(lib.pn_link_target(link), lib.pn_link_remote_target(link))
        lib.pn_link_open(link)
        self.receiver.link = link
        self.receiver.attached(link)

    def turn(self) -> None:
        """The serving side only receives."""
