"""Fields of an attach that proton does not show: the whole address, the source's default outcome (part 3, 3.5.3)."""

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


class AttachInfo(NamedTuple):
    """Fields of the peer's terminus; `default`: its default outcome; `size`: the size of the attach in bytes.

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
    return AttachInfo(address if isinstance(address, str) else None, default, size, _names(_at(fields, _DESIRED)))


def refusal(frame: bytes) -> str | None:
    """The error's description in a disposition, or None (part 3, 3.4.3)."""
    try:
        performative, _ = decode(frame[4 * frame[4] :])
    except AmqpError:  # proton reports the error
        return None
    outcome = read_outcome(_at(performative.value, 4)) if isinstance(performative, Described) else None
    return outcome.error.description if isinstance(outcome, Rejected) and outcome.error is not None else None


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
