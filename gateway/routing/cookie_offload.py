"""Requests whose cookie is too long (`keys.max_cookie`): it is stored in shared state before they are sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.response.cookies.cookie_store import CookieStore, PendingCookie
from gateway.routing.response_router import remaining
from gateway.state.counters.store import CounterStore

Crossing = Callable[[bytes], bytes]


class CookieOffload(Exception):
    """Raised by a transform: the message `data` may be sent only if its cookie can be stored (`kept`)."""

    def __init__(self, data: bytes, pending_cookie: PendingCookie) -> None:
        super().__init__("to be kept first")
        self.data: Final = data
        self.kept: bool | None = None
        self._pending: Final = pending_cookie
        self._then: Callable[[bool], None] | None = None

    def answered(self, kept: bool) -> None:
        """The store has answered."""
        self.kept = kept
        if kept:
            self._pending.stored()
        if self._then is not None:
            self._then(kept)

    def on_persisted(self, then: Callable[[bool], None]) -> None:
        """Call `then` with `kept` when the store has answered."""
        self._then = then


def offloading(change: Crossing, cookies: CookieStore, store: CounterStore, clock: Callable[[], int]) -> Crossing:
    """`change`, with long cookies stored in `store`; `change` itself if cookies have no limit."""
    if cookies.limit is None:
        return change
    pending = cookies.pending

    def crossing(data: bytes) -> bytes:
        pending.clear()
        done = change(data)
        if not pending:
            return done
        pending_cookie = pending.pop()
        wait = CookieOffload(done, pending_cookie)
        store.put(pending_cookie.key, pending_cookie.value, remaining(pending_cookie.until_ms, clock()), wait.answered)
        if wait.kept:
            return done
        raise wait

    return crossing
