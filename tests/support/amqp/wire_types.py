"""The wire types that the specifications give to fields and names: everything that tests read is checked against them.

`Symbol` compares like `str` and `Uint` like `int`, so an assertion on a value does not check its type. Every frame
that a scripted peer receives, and every message that a test takes apart, is checked here instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.amqp.codec.codec import Array, Long, Symbol, Timestamp, Ubyte, Uint, Ulong, Ushort

SYMBOLS = object()
"""One symbol or an array of symbols."""
KEYED = object()
"""A map with symbols as keys (`fields` and `annotations` of the core specification)."""

FIELDS: dict[str, Any] = {
    **dict.fromkeys(("container_id", "hostname", "name", "description", "address"), str),
    **dict.fromkeys(("channel_max", "remote_channel"), Ushort),
    **dict.fromkeys(("max_message_size", "section_offset"), Ulong),
    **dict.fromkeys(("snd_settle_mode", "rcv_settle_mode", "code"), Ubyte),
    **dict.fromkeys(("condition", "expiry_policy", "distribution_mode"), Symbol),
    **dict.fromkeys(
        (
            "max_frame_size", "idle_time_out", "next_outgoing_id", "next_incoming_id", "incoming_window",
            "outgoing_window", "handle_max", "handle", "initial_delivery_count", "delivery_count", "link_credit",
            "available", "delivery_id", "message_format", "first", "last", "durable", "timeout", "section_number",
        ),
        Uint,
    ),
    **dict.fromkeys(
        (
            "role", "drain", "echo", "settled", "more", "resume", "aborted", "batchable", "closed", "dynamic",
            "incomplete_unsettled", "delivery_failed", "undeliverable_here",
        ),
        bool,
    ),
    **dict.fromkeys(("delivery_tag", "txn_id"), bytes),
    **dict.fromkeys(
        (
            "capabilities", "offered_capabilities", "desired_capabilities", "outcomes", "outgoing_locales",
            "incoming_locales", "sasl_server_mechanisms",
        ),
        SYMBOLS,
    ),
    **dict.fromkeys(("properties", "info", "dynamic_node_properties", "filter", "message_annotations"), KEYED),
}  # fmt: skip
"""Fields of performatives and of the types within them."""

NAMES: dict[str, Any] = {
    "response-address-cookie": bytes,
    "response-link-target-address": str,
    "response-address-cookie-expiry": Timestamp,
    "address-cookie": bytes,
    "delivery-tag": bytes,
    "event-streams-partition": Symbol,
    "event-streams-consumer-group": str,
    "event-streams-epoch": Long,
    "event-streams-source-partition": Symbol,
    "event-streams-associated-partitions-changed": SYMBOLS,
    "event-streams-target-partition": Symbol,
    "event-streams-group-key": str,
    "event-streams-offset": Symbol,
    "event-streams-timestamp": Timestamp,
    "paired": bool,
}
"""Names of docs/conformance.md 0.4, as keys of link properties and annotations."""


def has_type(value: object, wanted: Any) -> bool:
    """Tell whether a value has the type that is wanted of it; null always may stand there."""
    if value is None:
        return True
    if wanted is SYMBOLS:
        return type(value) is Symbol or (isinstance(value, Array) and value.kind == "symbol")
    if wanted is KEYED:
        return isinstance(value, dict) and not wrong_names(value)
    return type(value) is wanted


def wrong_names(annotations: Mapping[Any, Any]) -> list[str]:
    """Return what is wrong with the keys of annotations, and with the values of names that have a type."""
    wrong = [f"key {key!r} is no symbol" for key in annotations if type(key) not in (Symbol, Ulong)]
    return wrong + [
        f"{key}: {value!r} ({type(value).__name__})"
        for key, value in annotations.items()
        if str(key) in NAMES and not has_type(value, NAMES[str(key)])
    ]


def wrong_fields(fields: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the fields of a frame, nested types included."""
    wrong = [
        f"{name}: {value!r}" for name, value in fields.items() if name in FIELDS and not has_type(value, FIELDS[name])
    ]
    for name, value in fields.items():
        if hasattr(value, "matches"):  # a composite
            wrong += [f"{name}.{each}" for each in wrong_fields(value)]
    return wrong
