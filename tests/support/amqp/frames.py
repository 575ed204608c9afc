"""AMQP frames with named fields, for tests that script a peer: the tables of parts 2, 3 and 5.

It shares only the codec with the gateway. Integers and strings get the wire type that the specification
gives the field; a value that already has a codec type keeps it, so a test can send the wrong one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.amqp.codec.codec import Array, Described, Symbol, Ubyte, Uint, Ulong, Ushort, decode, encode

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
MAX_FRAME = 1 << 20

# name: (descriptor code, fields in order)
PERFORMATIVES: dict[str, tuple[int, str]] = {
    "open": (
        0x10,
        "container_id hostname max_frame_size channel_max idle_time_out outgoing_locales incoming_locales "
        "offered_capabilities desired_capabilities properties",
    ),
    "begin": (
        0x11,
        "remote_channel next_outgoing_id incoming_window outgoing_window handle_max offered_capabilities "
        "desired_capabilities properties",
    ),
    "attach": (
        0x12,
        "name handle role snd_settle_mode rcv_settle_mode source target unsettled incomplete_unsettled "
        "initial_delivery_count max_message_size offered_capabilities desired_capabilities properties",
    ),
    "flow": (
        0x13,
        "next_incoming_id incoming_window next_outgoing_id outgoing_window handle delivery_count link_credit "
        "available drain echo properties",
    ),
    "transfer": (
        0x14,
        "handle delivery_id delivery_tag message_format settled more rcv_settle_mode state resume aborted "
        "batchable",
    ),
    "disposition": (0x15, "role first last settled state batchable"),
    "detach": (0x16, "handle closed error"),
    "end": (0x17, "error"),
    "close": (0x18, "error"),
    "sasl_mechanisms": (0x40, "sasl_server_mechanisms"),
    "sasl_init": (0x41, "mechanism initial_response hostname"),
    "sasl_challenge": (0x42, "challenge"),
    "sasl_response": (0x43, "response"),
    "sasl_outcome": (0x44, "code additional_data"),
}
COMPOSITES: dict[str, tuple[int, str]] = {
    "error": (0x1D, "condition description info"),
    "received": (0x23, "section_number section_offset"),
    "accepted": (0x24, ""),
    "rejected": (0x25, "error"),
    "released": (0x26, ""),
    "modified": (0x27, "delivery_failed undeliverable_here message_annotations"),
    "source": (
        0x28,
        "address durable expiry_policy timeout dynamic dynamic_node_properties distribution_mode filter "
        "default_outcome outcomes capabilities",
    ),
    "target": (
        0x29,
        "address durable expiry_policy timeout dynamic dynamic_node_properties capabilities",
    ),
    "coordinator": (0x30, "capabilities"),
    "declare": (0x31, "global_id"),
    "discharge": (0x32, "txn_id fail"),
    "declared": (0x33, "txn_id"),
    "transactional_state": (0x34, "txn_id outcome"),
}
TYPES: dict[str, type] = {
    **dict.fromkeys(("channel_max", "remote_channel"), Ushort),
    **dict.fromkeys(("max_message_size", "section_offset"), Ulong),
    **dict.fromkeys(("snd_settle_mode", "rcv_settle_mode", "code"), Ubyte),
    **dict.fromkeys(("condition", "expiry_policy", "distribution_mode", "mechanism"), Symbol),
}
SYMBOLS = {
    "capabilities",
    "desired_capabilities",
    "offered_capabilities",
    "outcomes",
    "sasl_server_mechanisms",
}


class Composite(dict[str, Any]):
    """A described list of the tables as a dict of its fields; `name` is its type."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.name = name

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.items() if value is not None)
        return f"{self.name}({given})"

    def matches(self, expected: object) -> bool:
        """Compare: a string with the telling field, a dict with the fields it names."""
        if isinstance(expected, str):
            telling = {"error": "condition", "source": "address", "target": "address"}.get(self.name)
            return expected == (self[telling] if telling else self.name)
        if isinstance(expected, dict):
            return all(matches(self[key], value) for key, value in expected.items())
        return False


def matches(value: object, expected: object) -> bool:
    """Compare a received field with what a test expects of it."""
    return value.matches(expected) if isinstance(value, Composite) else value == expected


class Frame(NamedTuple):
    """One frame as it came: `fields` by name (None: absent), `values` as encoded, and the bytes."""

    channel: int
    kind: str
    fields: dict[str, Any]
    values: list[Any]
    payload: bytes
    raw: bytes

    def __getattr__(self, field: str) -> Any:
        try:
            return self.fields[field]
        except KeyError:
            raise AttributeError(f"{self.kind} has no field {field}") from None

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.fields.items() if value is not None)
        payload = f" + {len(self.payload)} bytes" if self.payload else ""
        return f"{self.kind}[{self.channel}]({given}){payload}"


def typed(field: str, value: Any) -> Any:
    """Give a plain Python value the field's wire type."""
    if type(value) is int:
        return TYPES.get(field, Uint)(value)
    if type(value) is str:
        return TYPES.get(field, str)(value)
    if type(value) in (list, tuple) and field in SYMBOLS:
        return Array("symbol", tuple(Symbol(item) for item in value))
    return value


def listed(code: int, names: str, fields: dict[str, Any]) -> Described:
    """Return the described list of named fields, without trailing nulls."""
    order = names.split()
    unknown = fields.keys() - set(order)
    assert not unknown, f"no such fields: {unknown}"
    values = [typed(name, fields.get(name)) for name in order]
    while values and values[-1] is None:
        values.pop()
    return Described(Ulong(code), values)


def composite(name: str, /, **fields: Any) -> Described:
    """Return a source, target, error, outcome … from its fields."""
    return listed(*COMPOSITES[name], fields)


def source(address: str | None = None, **fields: Any) -> Described:
    """Return a source."""
    return composite("source", address=address, **fields)


def target(address: str | None = None, **fields: Any) -> Described:
    """Return a target; without an address it is the anonymous terminus."""
    return composite("target", address=address, **fields)


def error(condition: str, description: str | None = None, info: dict[Any, Any] | None = None) -> Described:
    """Return an error."""
    return composite("error", condition=condition, description=description, info=info)


def performative(name: str, /, **fields: Any) -> bytes:
    """Return a performative's exact bytes."""
    return encode(listed(*PERFORMATIVES[name], fields))


def framed(body: bytes, channel: int = 0, *, kind: int = 0) -> bytes:
    """Return a frame around a body: `kind` 0 is AMQP, 1 is SASL."""
    return struct.pack(">IBBH", 8 + len(body), 2, kind, channel) + body


def parse(raw: bytes) -> Frame | None:
    """Return the frame in these bytes, None for an empty one (a heartbeat)."""
    _size, doff, kind, channel = struct.unpack_from(">IBBH", raw)
    if len(raw) == doff * 4:
        return None
    described, end = decode(raw, doff * 4)
    name = name_of(described.descriptor, PERFORMATIVES)
    values = list(described.value)
    fields = by_name(PERFORMATIVES[name][1], values)
    return Frame(0 if kind else channel, name, fields, values, raw[end:], raw)


def name_of(descriptor: Any, table: dict[str, tuple[int, str]]) -> str:
    """Return the type with this descriptor, in its numeric or symbolic form."""
    for name, (code, _fields) in table.items():
        if descriptor == code or descriptor == f"amqp:{name.replace('_', '-')}:list":
            return name
    raise AssertionError(f"unexpected descriptor {descriptor!r}")


def by_name(names: str, values: Iterable[Any]) -> dict[str, Any]:
    """Return values by field name, None where the list is too short; nested types of the tables likewise."""
    given = list(values)
    order = names.split()
    assert len(given) <= len(order), f"{len(given)} values for {order}"
    return {
        name: nested(given[index]) if index < len(given) else None for index, name in enumerate(order)
    }


def nested(value: Any) -> Any:
    """Return a described list of the tables as Composite, anything else as it is."""
    known = {code: (name, fields) for name, (code, fields) in COMPOSITES.items()}
    if isinstance(value, Described) and isinstance(value.descriptor, int) and value.descriptor in known:
        name, fields = known[value.descriptor]
        return Composite(name, by_name(fields, value.value))
    return value


def receive_all(engine: Engine, data: bytes) -> None:
    """Let an engine without a connection process the frames of its peer, in as many parts as it takes."""
    behind = engine.receive(data)
    while behind:
        behind = engine.go_on()
