"""Fields of frames that proton does not show, or not well: of an attach (part 3, 3.5.3), the state of a disposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.amqp.codec.codec import Described, encode
from gateway.amqp.codec.decoder import decode
from gateway.amqp.codec.types import Array, Value
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, SETTLED, Modified, Outcome, Rejected
from gateway.errors import AmqpError

_ADDRESS, _DEFAULT_OUTCOME, _DESIRED = 0, 8, 12
_ACCEPTED: Final = (0x24, "amqp:accepted:list")
_REJECTED: Final = (0x25, "amqp:rejected:list")
_RELEASED: Final = (0x26, "amqp:released:list")
_MODIFIED: Final = (0x27, "amqp:modified:list")
_TRANSACTIONAL: Final = (0x34, "amqp:transactional-state:list")


_FEW: Final = 256
"""Bytes of a frame whose values are not counted."""
_USUAL: Final = 100
"""Values of a frame that the fixed charge of a link covers."""
_VALUE: Final = 40
"""A quarter of the bytes of a value."""


class AttachInfo(NamedTuple):
    """Fields of the peer's terminus; `default`: its default outcome; `size`: the `weight` of the attach.

    `desired`: the desired-capabilities of the attach.
    """

    address: str | None = None
    default: Outcome = SETTLED
    size: int = 0
    desired: frozenset[str] = frozenset()


def read_attach_info(fields: Sequence[Value], size: int) -> AttachInfo:
    """From the fields of an attach of `size` bytes that `performatives.read_control` has checked."""
    receives = bool(fields[2])
    terminus = _at(fields, 5 if receives else 6)
    items: Sequence[Value] = terminus.value if isinstance(terminus, Described) else ()
    address = _at(items, _ADDRESS)
    default = read_outcome(_at(items, _DEFAULT_OUTCOME)) if receives else SETTLED
    address = address if isinstance(address, str) else None
    return AttachInfo(address, default, weight(fields, size), _names(_at(fields, _DESIRED)))


def weight(fields: Sequence[Value], size: int) -> int:
    """The memory of a frame of `size` bytes with these fields, which proton keeps decoded; a quarter of its bytes.

    A value takes up to 160 bytes there and here, however few it has in the frame.
    """
    if size <= _FEW:
        return size
    count, waiting = 0, [*fields]
    while waiting:
        value = waiting.pop()
        count += 1
        if isinstance(value, Described):
            waiting.append(value.value)
        elif isinstance(value, dict):
            waiting += value.keys()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, Array):
            waiting += value.items
    return size + _VALUE * max(count - _USUAL, 0)


class Disposition(NamedTuple):
    """The state of a disposition for all of its `messages`; `txn_id`: that of a transactional-state (part 4, 4.5.6).

    `stays`: the peer says it of messages that it has sent, and leaves them unsettled.
    """

    messages: int
    outcome: Outcome
    txn_id: bytes | None
    stays: bool = False

    def outcome_for(self, scope: str | None) -> Outcome:
        """The outcome of one of the messages, whose receiver is in `scope`."""
        outcome = self.outcome
        if isinstance(outcome, Rejected) and (error := outcome.error) is not None:  # each message has one of its own
            return Rejected(AmqpError(error.condition, error.description, info=dict(error.info), scope=scope))
        if isinstance(outcome, Modified):
            return Modified(outcome.failed, outcome.undeliverable, outcome.annotations, scope)
        return outcome


def read_disposition(frame: bytes) -> Disposition | None:
    """The state in a frame that is a disposition; None: it is malformed (part 2, 2.7.6)."""
    try:
        performative, _ = decode(frame[4 * frame[4] :])
    except AmqpError:  # proton reports the error
        return None
    fields = performative.value if isinstance(performative, Described) else None
    if not isinstance(fields, list):
        return None
    first, last, state = _at(fields, 1), _at(fields, 2), _at(fields, 4)
    messages = 1 + (last - first) % 2**32 if isinstance(first, int) and isinstance(last, int) else 1
    txn_id = None
    if isinstance(state, Described) and state.descriptor in _TRANSACTIONAL and isinstance(state.value, list):
        txn_id, state = _at(state.value, 0), _at(state.value, 1)
    stays = _at(fields, 0) is False and _at(fields, 3) is not True
    return Disposition(messages, read_outcome(state), txn_id if isinstance(txn_id, bytes) else None, stays)


def _names(value: Value) -> frozenset[str]:
    items = value.items if isinstance(value, Array) else value if isinstance(value, list) else [value]
    return frozenset(str(item) for item in items if isinstance(item, str))


def _at(items: Sequence[Value], index: int) -> Value:
    return items[index] if index < len(items) else None


def read_outcome(value: Value) -> Outcome:
    """The outcome in a described list; `SETTLED` for anything else."""
    if not isinstance(value, Described) or not isinstance(value.value, list):
        return SETTLED
    descriptor, items = value
    if descriptor in _ACCEPTED:
        return ACCEPTED
    if descriptor in _RELEASED:
        return RELEASED
    if descriptor in _REJECTED:
        return Rejected(_error(_at(items, 0)))
    if descriptor in _MODIFIED:
        annotations = _at(items, 2)
        encoded = encode(annotations) if isinstance(annotations, dict) and annotations else None
        return Modified(_at(items, 0) is True, _at(items, 1) is True, encoded)
    return SETTLED


def _error(value: Value) -> AmqpError | None:
    if not isinstance(value, Described) or not isinstance(value.value, list):
        return None
    condition, description, info = (_at(value.value, index) for index in range(3))
    if not isinstance(condition, str):
        return None
    return AmqpError(condition, str(description or ""), info=info if isinstance(info, dict) else None)
