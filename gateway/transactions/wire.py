"""The messages to a coordinator: declare and discharge (AMQP 1.0 part 4, 4.5.2 and 4.5.3). Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.amqp.codec.codec import encode
from gateway.amqp.codec.decoder import malformed
from gateway.amqp.codec.types import Described, Ulong, Value, ValueList
from gateway.amqp.message import sections
from gateway.errors import NOT_IMPLEMENTED, AmqpError

_DECLARE: Final = (0x31, "amqp:declare:list")
_DISCHARGE: Final = (0x32, "amqp:discharge:list")
_WANTED: Final = "a message to the coordinator has an amqp-value with a declare or a discharge"


class Declare(NamedTuple):
    """A request for a new transaction."""


class Discharge(NamedTuple):
    """The end of a transaction: commit, or roll back if `fail`."""

    txn_id: bytes
    fail: bool


def declare() -> bytes:
    """The message that asks a coordinator for a transaction."""
    return _message(_DECLARE[0], [])


def discharge(txn_id: bytes, *, fail: bool) -> bytes:
    """The message that ends a transaction."""
    return _message(_DISCHARGE[0], [txn_id, fail])


def _message(code: int, fields: ValueList) -> bytes:
    return encode(Described(Ulong(sections.AMQP_VALUE), Described(Ulong(code), fields)))


def read_request(data: bytes) -> Declare | Discharge:
    """The request in a message to the coordinator.

    Raises:
        AmqpError: the body is no amqp-value with a declare or a discharge, or declares part of a global transaction.
    """
    layout = sections.walk(data)
    if sections.body_kind(data, layout) != sections.AMQP_VALUE:
        raise malformed(_WANTED)
    (request,) = sections.body_values(data, layout)
    if not isinstance(request, Described) or not isinstance(request.value, list):
        raise malformed(_WANTED)
    if request.descriptor in _DECLARE:
        return _declare(request.value)
    if request.descriptor in _DISCHARGE:
        return _discharge(request.value)
    raise malformed(_WANTED)


def _declare(fields: ValueList) -> Declare:
    if _at(fields, 0) is not None:
        raise AmqpError(NOT_IMPLEMENTED, "distributed transactions (global-id) are not supported")
    return Declare()


def _discharge(fields: ValueList) -> Discharge:
    txn_id, fail = _at(fields, 0), _at(fields, 1)
    if not isinstance(txn_id, bytes) or not (fail is None or isinstance(fail, bool)):
        raise malformed("a discharge has a binary txn-id and a boolean fail")
    return Discharge(txn_id, fail is True)


def _at(fields: ValueList, index: int) -> Value:
    return fields[index] if index < len(fields) else None
