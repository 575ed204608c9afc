"""Decides how a request crosses from one scope into another, as a pure function (RA 2.1 to 2.5).

`routing/transforms` acts on the decision, the journal records it, and a simulation makes it for a policy that is
not served yet (docs/journal.md).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.errors import NOT_ALLOWED, NOT_IMPLEMENTED

UNCHANGED: Final = "unchanged"
ANNOTATED: Final = "annotated"
REWRITTEN: Final = "rewritten"
IN_CORRELATION_ID: Final = "carried"
"""Rewritten for a container that answers at its own address: the request's ids contain the response address."""
REFUSED: Final = "refused"
RESPONSE: Final = "homeward"
"""The `replies` value of a response that asks for no response: it crosses unchanged."""


class CrossingDecision(NamedTuple):
    """The decision on requests and its reason in a few words; `condition` is the AMQP error of `REFUSED`."""

    result: str
    why: str
    condition: str | None = None


SAME_SCOPE: Final = CrossingDecision(UNCHANGED, "same scope")
_RESPONSE: Final = CrossingDecision(UNCHANGED, "response that asks for none")
_NONE: Final = CrossingDecision(UNCHANGED, "replies: none")
_KEYLESS: Final = CrossingDecision(REFUSED, "no key is configured to route responses", NOT_ALLOWED)
_INCAPABLE: Final = CrossingDecision(REFUSED, "the receiver does not support response annotations", NOT_IMPLEMENTED)
_ANNOTATED: Final = CrossingDecision(ANNOTATED, "the receiver supports response annotations")
_RESULTS: Final = {False: REWRITTEN, True: IN_CORRELATION_ID}
"""The result, by whether responses come to an address at the container."""
_REQUESTED: Final = {carries: CrossingDecision(result, "replies: rewrite") for carries, result in _RESULTS.items()}
_NEEDED: Final = {
    carries: CrossingDecision(result, "the receiver does not support response annotations")
    for carries, result in _RESULTS.items()
}


def choose(replies: str, *, keys: bool, capable: bool, carries: bool) -> CrossingDecision:
    """The decision on requests that enter another scope.

    `replies` is the value of the route (auto, cookie, rewrite, none, or `RESPONSE`), `keys`: there are signing keys;
    `capable`: the receiver supports annotations (RA-2.1-4); `carries`: responses come to an address at the container
    (`connect.replies`).
    """
    if replies == "none":
        return _NONE
    if replies == RESPONSE and not capable:
        return _RESPONSE
    if not keys:
        return _KEYLESS
    if replies == "cookie" and not capable:
        return _INCAPABLE
    if capable and replies != "rewrite":
        return _ANNOTATED
    return (_REQUESTED if replies == "rewrite" else _NEEDED)[carries]
