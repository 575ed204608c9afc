"""How a request crosses from one scope into another: the decision alone, as a pure function (RA 2.1 to 2.5).

`nodes/crossings` decides with it what to do, the journal writes it down, and a simulation asks it about a policy that
nobody serves yet (docs/journal.md).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.errors import NOT_ALLOWED, NOT_IMPLEMENTED

UNCHANGED: Final = "unchanged"
ANNOTATED: Final = "annotated"
REWRITTEN: Final = "rewritten"
CARRIED: Final = "carried"
"""Rewritten for a container that answers at an address of its own: the way home is in the ids."""
REFUSED: Final = "refused"
HOMEWARD: Final = "homeward"
"""The replies word of a response that asks for no response: it crosses, and there is nothing to rewrite."""


class CrossingDecision(NamedTuple):
    """What becomes of requests, and in a few words why; `condition` is the AMQP error of `REFUSED`."""

    result: str
    why: str
    condition: str | None = None


WITHIN: Final = CrossingDecision(UNCHANGED, "same scope")
_RESPONSE: Final = CrossingDecision(UNCHANGED, "response that asks for none")
_NONE: Final = CrossingDecision(UNCHANGED, "replies: none")
_KEYLESS: Final = CrossingDecision(REFUSED, "no key is configured to route responses", NOT_ALLOWED)
_INCAPABLE: Final = CrossingDecision(REFUSED, "the receiver does not support response annotations", NOT_IMPLEMENTED)
_ANNOTATED: Final = CrossingDecision(ANNOTATED, "the receiver supports response annotations")
_WANTED: Final = {
    carried: CrossingDecision(CARRIED if carried else REWRITTEN, "replies: rewrite") for carried in (False, True)
}
_NEEDED: Final = {
    carried: CrossingDecision(CARRIED if carried else REWRITTEN, "the receiver does not support response annotations")
    for carried in (False, True)
}


def choose(replies: str, *, keys: bool, capable: bool, carries: bool) -> CrossingDecision:
    """What becomes of requests that enter another scope.

    `replies` is the word of the route (auto, cookie, rewrite, none, or `HOMEWARD`), `keys` whether something can be
    signed, `capable` whether the receiver is believed to follow annotations (RA-2.1-4), `carries` whether responses
    come to an address of the container there (`connect.replies`).
    """
    if replies == "none":
        return _NONE
    if replies == HOMEWARD and not capable:
        return _RESPONSE
    if not keys:
        return _KEYLESS
    if replies == "cookie" and not capable:
        return _INCAPABLE
    if capable and replies != "rewrite":
        return _ANNOTATED
    return (_WANTED if replies == "rewrite" else _NEEDED)[carries]
