"""The control performatives of a peer, checked field by field (AMQP 1.0 part 2, 2.7; part 3, 3.5).

proton treats a field of a wrong type as absent and uses its default: an address that is a number would become the
anonymous terminus, and a missing handle 0. Here such frames are errors. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from gateway.amqp.codec.decoder import decode, malformed, skip
from gateway.amqp.codec.encoder import encode
from gateway.amqp.codec.types import Array, Described, Symbol, Ubyte, Uint, Ulong, Ushort, Value, ValueList
from gateway.amqp.link.transactions import NamedTransaction
from gateway.amqp.message.section_index import opened
from gateway.errors import INVALID_FIELD, AmqpError

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
_ERROR, _SOURCE, _TARGET, _COORDINATOR = 0x1D, 0x28, 0x29, 0x30
_FLOW_PROPERTIES: Final = 10
"""The index of the properties among the fields of a flow."""
_TXN_ID: Final = Symbol("txn-id")
MOST_HANDLES: Final = 2**32 - 1
"""The handle-max of a begin that names none (2.7.2)."""


class Performative(NamedTuple):
    """A checked control frame: its kind, its channel, and the fields that it has."""

    code: int
    channel: int
    fields: ValueList


Check = Callable[[Value], bool]


class FieldRule(NamedTuple):
    """A field of a composite type: `check` tests values that are not null."""

    name: str
    check: Check
    mandatory: bool = False


def _is(*kinds: type) -> Check:
    return lambda value: type(value) in kinds


def _at_most(kind: type[int], highest: int) -> Check:
    return lambda value: type(value) is kind and value <= highest


def _at_least(kind: type[int], lowest: int) -> Check:
    return lambda value: type(value) is kind and value >= lowest


def _symbols(value: Value) -> bool:
    """`symbol multiple="true"`; a list of symbols is not AMQP, but some peers send it, so it is accepted."""
    items = [value] if type(value) is Symbol else value.items if type(value) is Array else value
    return isinstance(items, list | tuple) and all(type(item) is Symbol for item in items)


def _composite(*codes: int) -> Check:
    """A described list of one of these types, with its own fields in order."""

    def check(value: Value) -> bool:
        if type(value) is not Described or type(value.descriptor) is not Ulong or value.descriptor not in codes:
            return False
        check_fields(_COMPOSITES[value.descriptor], value.value)
        return True

    return check


_STRING, _SYMBOL, _BOOLEAN, _MAP = _is(str), _is(Symbol), _is(bool), _is(dict)
_UINT, _USHORT, _ULONG = _is(Uint), _is(Ushort), _is(Ulong)


def _anything(value: Value) -> bool:
    return True


_CAPABILITIES: Final = (
    FieldRule("offered-capabilities", _symbols),
    FieldRule("desired-capabilities", _symbols),
    FieldRule("properties", _MAP),
)
_TERMINUS: Final = (
    FieldRule("address", _STRING),
    FieldRule("durable", _UINT),
    FieldRule("expiry-policy", _SYMBOL),
    FieldRule("timeout", _UINT),
    FieldRule("dynamic", _BOOLEAN),
    FieldRule("dynamic-node-properties", _MAP),
)
_COMPOSITES: Final[Mapping[int, tuple[FieldRule, ...]]] = {
    _ERROR: (FieldRule("condition", _SYMBOL, True), FieldRule("description", _STRING), FieldRule("info", _MAP)),
    _SOURCE: (
        *_TERMINUS,
        FieldRule("distribution-mode", _SYMBOL),
        FieldRule("filter", _MAP),
        FieldRule("default-outcome", _is(Described)),
        FieldRule("outcomes", _symbols),
        FieldRule("capabilities", _symbols),
    ),
    _TARGET: (*_TERMINUS, FieldRule("capabilities", _symbols)),
    _COORDINATOR: (FieldRule("capabilities", _symbols),),
}
_FAILURE: Final = FieldRule("error", _composite(_ERROR))
_CONTROL: Final[Mapping[int, tuple[FieldRule, ...]]] = {
    OPEN: (
        FieldRule("container-id", _STRING, True),
        FieldRule("hostname", _STRING),
        FieldRule("max-frame-size", _at_least(Uint, 512)),
        FieldRule("channel-max", _USHORT),
        FieldRule("idle-time-out", _UINT),
        FieldRule("outgoing-locales", _symbols),
        FieldRule("incoming-locales", _symbols),
        *_CAPABILITIES,
    ),
    BEGIN: (
        FieldRule("remote-channel", _USHORT),
        FieldRule("next-outgoing-id", _UINT, True),
        FieldRule("incoming-window", _UINT, True),
        FieldRule("outgoing-window", _UINT, True),
        FieldRule("handle-max", _UINT),
        *_CAPABILITIES,
    ),
    ATTACH: (
        FieldRule("name", _STRING, True),
        FieldRule("handle", _UINT, True),
        FieldRule("role", _BOOLEAN, True),
        FieldRule("snd-settle-mode", _at_most(Ubyte, 2)),
        FieldRule("rcv-settle-mode", _at_most(Ubyte, 1)),
        FieldRule("source", _composite(_SOURCE)),
        FieldRule("target", _composite(_TARGET, _COORDINATOR)),
        FieldRule("unsettled", _MAP),
        FieldRule("incomplete-unsettled", _BOOLEAN),
        FieldRule("initial-delivery-count", _UINT),
        FieldRule("max-message-size", _ULONG),
        *_CAPABILITIES,
    ),
    DETACH: (FieldRule("handle", _UINT, True), FieldRule("closed", _BOOLEAN), _FAILURE),
    END: (_FAILURE,),
    CLOSE: (_FAILURE,),
}


def read_control(channel: int, body: bytes) -> Performative | None:
    """Decode and check a frame's body; None for transfers, flows and dispositions, which proton reads alone."""
    value, end = decode(body)
    if type(value) is not Described or type(value.descriptor) is not Ulong:
        raise malformed("a frame has no performative")
    code = int(value.descriptor)
    if code in (FLOW, TRANSFER, DISPOSITION):
        return None
    if code not in _CONTROL:
        raise malformed(f"unknown performative {code:#x}")
    if end != len(body):
        raise malformed("bytes follow a performative that has no payload")
    check_fields(_CONTROL[code], value.value)
    return Performative(code, channel, value.value)


def named_transaction(frame: bytes) -> NamedTransaction | None:
    """The transaction that a flow names in its properties (part 4, 4.4.3); None: it names none, or cannot be read."""
    try:
        value, _ = decode(frame[4 * frame[4] :])
    except AmqpError:
        return None  # proton reports it
    fields = value.value if isinstance(value, Described) and isinstance(value.value, list) else []
    properties = fields[_FLOW_PROPERTIES] if len(fields) > _FLOW_PROPERTIES else None
    if not isinstance(properties, dict) or _TXN_ID not in properties:
        return None
    return NamedTransaction(properties[_TXN_ID])


_TRANSFER_HEAD: Final = (
    FieldRule("handle", _UINT, True),
    FieldRule("delivery-id", _UINT),
    FieldRule("delivery-tag", _is(bytes)),
    FieldRule("message-format", _UINT),
)


_FORMAT, _RESUME = 3, 8
"""The indexes of message-format and resume among the fields of a transfer."""


def transfer_head(body: bytes) -> tuple[int, bytes | None, int | None, bool]:
    """Handle, delivery-tag, message-format and resume of a transfer, None for what is absent; checked like a control
    frame.
    """
    values: ValueList = [None] * (_RESUME + 1)
    if body[1:2] == b"\x80":  # the long form of the descriptor
        body = body[:1] + b"\x53\x14" + body[10:]
    position, _, count = opened(body, 0)
    for index in range(min(count, _RESUME + 1)):
        if _FORMAT < index < _RESUME:
            position = skip(body, position)
        else:
            values[index], position = decode(body, position)
    check_fields(_TRANSFER_HEAD, values)
    return values[0], values[2], values[3], values[_RESUME] is True


def check_fields(fields: tuple[FieldRule, ...], values: Value) -> None:
    """Check the list of a composite type; additional fields at its end, of a later version of AMQP, are accepted."""
    if type(values) is not list:
        raise malformed("a composite type is not a list")
    for index, field in enumerate(fields):
        value = values[index] if index < len(values) else None
        if field.mandatory if value is None else not field.check(value):
            what = "is missing" if value is None else "has a wrong type or value"
            raise AmqpError(INVALID_FIELD, f"{field.name} {what}", info={"field": Symbol(field.name)})


def close_frame(error: AmqpError) -> bytes:
    """A close frame with this error, for a connection on which proton writes no more."""
    described = Described(Ulong(_ERROR), [Symbol(error.condition), error.description])
    body = encode(Described(Ulong(CLOSE), [described]))
    return struct.pack(">IBBH", 8 + len(body), 2, 0, 0) + body
