"""What the gateway answers at addresses that it resolves before it asks the rules (`Scope.attach_to`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from policies.model.scopes.access import Action
from policies.reserved import SENT_ONLY, TEMPORARY, response_suffix
from policies.rules import INFO_SUFFIX, NOT_ALLOWED, NOT_FOUND, ScopeRules

_NOT_CREATED: Final = "no node has this address, unless a connected client has created it"
_NOT_ISSUED: Final = "there is no such response address, unless this gateway issued the token and it has not expired"


class ReservedAddress(NamedTuple):
    """The answer at such an address: the AMQP error `condition` with its `reason`, or none."""

    kind: str
    """As the journal names the end of the route."""
    what: str
    """What is there, in words."""
    condition: str | None
    reason: str = ""

    def lines(self) -> Iterator[str]:
        """The lines of an explanation, for people."""
        yield f"  address  {self.what}; no rule of the policy decides"
        if self.condition is None:
            yield "  access   not needed: the cookie of each response decides where it goes"
        yield f"  result   {'allowed' if self.condition is None else f'{self.condition}: {self.reason}'}"


def reserved_address(rules: ScopeRules, action: Action, address: str) -> ReservedAddress | None:
    """The answer to a client; None: the rules decide. Only the gateway itself knows which tokens and nodes exist."""
    if address.startswith(TEMPORARY):
        return ReservedAddress("temporary", "a temporary node", NOT_FOUND, _NOT_CREATED)
    attached = f"{address.removesuffix(INFO_SUFFIX)}{INFO_SUFFIX}" if action == "info" else address
    suffix = response_suffix(rules.name, attached)
    if suffix is None or (suffix and rules.route(attached) is not None):
        return None
    what = "responses to rewritten requests" if suffix else "the response address of this scope"
    if action != "send":
        return ReservedAddress("replies", what, NOT_ALLOWED, SENT_ONLY)
    return ReservedAddress("replies", what, *((NOT_FOUND, _NOT_ISSUED) if suffix else (None,)))
