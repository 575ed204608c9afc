"""The error type of this project: an AMQP error condition with a description for the peer (AMQP 1.0 part 2, 2.8.14).

Code that refuses a connection, link or message raises `AmqpError`; the engine sends it to the peer. Conditions per
situation are listed in docs/conformance.md, section 0.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

_NO_SCOPE: Final = "\0"
"""No scope has this name."""


class Fault(Enum):
    """Who has to act on an error; it determines the log level."""

    PEER = "peer"
    GATEWAY = "gateway"
    BACKEND = "backend"


class AmqpError(Exception):
    """One AMQP error: `condition` is the symbol on the wire, `info` its map (symbol keys).

    `description` is for people at the peer: it names the problem and the way out, and never contains a secret, a cookie
    or another scope's addresses. `scope` is the scope whose addresses, nodes or peers it mentions; None: that of the
    peer that gets it. `told_to` makes the error for a peer.
    """

    def __init__(
        self,
        condition: str,
        description: str = "",
        *,
        info: Mapping[str, object] | None = None,
        fault: Fault = Fault.PEER,
        scope: str | None = None,
    ) -> None:
        super().__init__(f"{condition}: {description}" if description else condition)
        self.condition: Final = condition
        self.description: Final = description
        self.info: Final[dict[str, object]] = dict(info or {})
        self.fault: Final = fault
        self.scope = scope

    def of(self, scope: str | None) -> AmqpError:
        """The error as one of `scope`, unless it has one; another object, because some go to many."""
        if self.scope is not None or scope is None:
            return self
        found = AmqpError(self.condition, self.description, info=self.info, fault=self.fault, scope=scope)
        found.__cause__ = self.__cause__
        return found

    def of_nobody(self) -> AmqpError:
        """Mark the description as not for any peer, because it mentions an address that no peer has named."""
        if self.scope is not None:
            self.scope = _NO_SCOPE
        return self

    def told_to(self, scope: str) -> AmqpError:
        """The error for a peer in `scope`; of another scope's error only the condition, with our text (RA 1)."""
        if self.scope is None or self.scope == scope:
            return self
        if self.condition in _ELSEWHERE:
            text = "the node behind this address is in another container"
            return AmqpError(NOT_FOUND, text, fault=Fault.GATEWAY, scope=scope)
        text = f"the node behind this address {_BEYOND.get(self.condition, _REFUSED)}"
        return AmqpError(self.condition, text, fault=self.fault, scope=scope)

    def tagged(self, tag: bytes, scope: str) -> AmqpError:
        """The error for a peer in `scope` about its message with this delivery-tag (ledger A24)."""
        info = {**self.info, "delivery-tag": tag}
        return AmqpError(self.condition, self.description, info=info, fault=self.fault, scope=scope)


def told(error: AmqpError | None, scope: str) -> AmqpError | None:
    """`AmqpError.told_to`, or None."""
    return None if error is None else error.told_to(scope)


_QUOTED: Final = 100


def quoted(text: str) -> str:
    """Text of a peer for a description: printable and cut, because it may have 64 kB."""
    return repr(text) if len(text) <= _QUOTED else f"{text[:_QUOTED]!r}… ({len(text)} characters)"


_BRIEF: Final = 500


def brief(error: AmqpError) -> str:
    """What a container says, for operators, and cut: it may have 128 kB, and is kept."""
    text = str(error)
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}… ({len(text)} characters)"


INTERNAL_ERROR: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
RESOURCE_LOCKED: Final = "amqp:resource-locked"
PRECONDITION_FAILED: Final = "amqp:precondition-failed"
RESOURCE_DELETED: Final = "amqp:resource-deleted"
ILLEGAL_STATE: Final = "amqp:illegal-state"
CONNECTION_FORCED: Final = "amqp:connection:forced"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
CONNECTION_REDIRECT: Final = "amqp:connection:redirect"
DETACH_FORCED: Final = "amqp:link:detach-forced"
TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
TRANSACTION_ROLLBACK: Final = "amqp:transaction:rollback"
TRANSACTION_TIMEOUT: Final = "amqp:transaction:timeout"
TRANSACTION_UNKNOWN: Final = "amqp:transaction:unknown-id"
FRAME_SIZE_TOO_SMALL: Final = "amqp:frame-size-too-small"
MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
LINK_REDIRECT: Final = "amqp:link:redirect"
STOLEN: Final = "amqp:link:stolen"

_ELSEWHERE: Final = frozenset((LINK_REDIRECT, CONNECTION_REDIRECT))
_REFUSED: Final = "has refused this"
_BEYOND: Final = {
    INTERNAL_ERROR: "has failed",
    NOT_FOUND: "does not exist",
    UNAUTHORIZED_ACCESS: "does not permit this",
    NOT_ALLOWED: "does not permit this",
    RESOURCE_LIMIT_EXCEEDED: "has reached a limit",
    RESOURCE_LOCKED: "is in use",
    RESOURCE_DELETED: "is gone",
    NOT_IMPLEMENTED: "does not support this",
    DETACH_FORCED: "has ended the link; try again",
    CONNECTION_FORCED: "has ended the link; try again",
    MESSAGE_SIZE_EXCEEDED: "does not accept messages of this size",
}
STANDARD: Final = frozenset(
    (
        *_BEYOND,
        *_ELSEWHERE,
        DECODE_ERROR,
        INVALID_FIELD,
        PRECONDITION_FAILED,
        ILLEGAL_STATE,
        FRAME_SIZE_TOO_SMALL,
        FRAMING_ERROR,
        TRANSFER_LIMIT_EXCEEDED,
        TRANSACTION_ROLLBACK,
        TRANSACTION_TIMEOUT,
        TRANSACTION_UNKNOWN,
        STOLEN,
    )
)
"""The conditions of core AMQP that are used here."""
