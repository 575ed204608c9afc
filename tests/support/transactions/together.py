"""Several frames of a scripted peer in one write, so that the gateway gets them in one read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.amqp.peer import Peer


@contextmanager
def together(peer: Peer) -> Iterator[None]:
    """What the peer sends within is written at once."""
    written: list[bytes] = []
    peer.write = written.append  # type: ignore[method-assign]
    yield
    del peer.write  # type: ignore[method-assign]
    peer.write(b"".join(written))
