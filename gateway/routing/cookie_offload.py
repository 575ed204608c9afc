"""Requests whose cookie is too long to travel (`keys.max_cookie`): it is kept in shared state before they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.response.cookie_store import CookieStore, PendingCookie
from gateway.routing.response_router import remaining
from gateway.state.counters.store import CounterStore

Crossing = Callable[[bytes], bytes]


class CookieOffload(Exception):
    """Raised by a crossing: the message, as `data`, may go when `kept` is True, and never if it is False."""

    def __init__(self, data: bytes, unkept: PendingCookie) -> None:
        super().__init__("to be kept first")
        self.data: Final = data
        self.kept: bool | None = None
        self._unkept: Final = unkept
        self._then: Callable[[bool], None] | None = None

    def answered(self, kept: bool) -> None:
        """What the store says."""
        self.kept = kept
        if kept:
            self._unkept.stored()
        if self._then is not None:
            self._then(kept)

    def on_persisted(self, then: Callable[[bool], None]) -> None:
        """Call `then` with `kept`, which is None so far."""
        self._then = then


def offloading(change: Crossing, cookies: CookieStore, store: CounterStore, clock: Callable[[], int]) -> Crossing:
    """`change` for messages whose cookies are kept on `cookies`; as it is where nothing ever is."""
    if cookies.limit is None:
        return change
    pending = cookies.pending

    def crossing(data: bytes) -> bytes:
        pending.clear()
        done = change(data)
        if not pending:
            return done
        unkept = pending.pop()
        wait = CookieOffload(done, unkept)
        store.put(unkept.key, unkept.value, remaining(unkept.until_ms, clock()), wait.answered)
        if wait.kept:
            return done
        raise wait

    return crossing
