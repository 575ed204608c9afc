"""All that a filter may see of an encoded message, decoded section by section: the input of the naive evaluator."""

from __future__ import annotations

from typing import Any

from gateway.amqp.codec import codec
from gateway.amqp.message import sections
from gateway.filters import predicate as p

_PROPERTIES = (
    "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
    "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id",
)  # fmt: skip
_HEADER = {"durable": False, "priority": codec.Ubyte(4), "ttl": None, "first-acquirer": False, "delivery-count": 0}
_HEADER["delivery-count"] = codec.Uint(0)


class Missing:
    """Not there, as opposed to null."""


MISSING = Missing()
Fields = dict[p.MessageSection, list[tuple[Any, Any]]]
"""The entries of each section, in order; those of header and properties with the names of the specification."""


def message_fields(data: bytes) -> Fields:
    """Everything a filter may see of an encoded message."""
    layout = sections.walk(data)
    given = dict(zip(_HEADER, sections.header(data, layout), strict=False))
    header = {name: given.get(name) if given.get(name) is not None else default for name, default in _HEADER.items()}
    properties = []
    if layout.properties < layout.app:
        encoded = data[layout.properties : layout.app]
        properties = list(zip(_PROPERTIES, codec.decode_all(encoded).value, strict=False))
    body = sections.body_values(data, layout)
    is_value = sections.body_kind(data, layout) == sections.AMQP_VALUE
    return {
        p.MessageSection.HEADER: [(name, value) for name, value in header.items() if value is not None],
        p.MessageSection.DELIVERY_ANNOTATIONS: entries(sections.delivery_annotations(data, layout)),
        p.MessageSection.MESSAGE_ANNOTATIONS: entries(sections.message_annotations(data, layout)),
        p.MessageSection.PROPERTIES: [(name, value) for name, value in properties if value is not None],
        p.MessageSection.APPLICATION_PROPERTIES: entries(sections.application_properties(data, layout)),
        p.MessageSection.AMQP_VALUE: entries(body[0]) if is_value and isinstance(body[0], dict) else [],
        p.MessageSection.AMQP_SEQUENCE: [],
        p.MessageSection.FOOTER: entries(sections.footer(data, layout)),
    }


def entries(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    return [(key.value if isinstance(key, codec.MapKey) else key, item) for key, item in value.items()]
