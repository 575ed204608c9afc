"""The part of a responder: the address of the response, and its cookie (RA 2.3, 2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.amqp.codec.codec import Symbol, encode, encode_binary, encode_list
from gateway.amqp.codec.types import Value
from gateway.amqp.message.properties import CONTENT_TYPE, CORRELATION_ID, MESSAGE_ID, REPLY_TO, SUBJECT, TO, field_value
from gateway.amqp.message.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    SectionOffsets,
    edit_map,
    property_field,
    section,
    walk,
)
from gateway.errors import INVALID_FIELD, AmqpError
from gateway.response.annotations import RESPONSE_COOKIE, previous_annotations

_NULL: Final = b"\x40"
_JSON: Final = Symbol("application/json")


class Request(NamedTuple):
    """The fields of a request that its responder needs."""

    data: bytes
    layout: SectionOffsets
    reply_to: str | None
    cookie: bytes | None
    target: str | None


def read_request(data: bytes, *, honoured: bool = True) -> Request:
    """Read a request; raises INVALID_FIELD for wrong types. Not `honoured`: annotations are ignored."""
    layout = walk(data)
    reply_to = field_value(property_field(data, layout, REPLY_TO))
    if not (reply_to is None or isinstance(reply_to, str)):
        raise AmqpError(INVALID_FIELD, "property reply-to has a wrong type", info={"field": Symbol("reply-to")})
    annotations = data[layout.da : layout.ma] if honoured else b""
    cookie, target, _ = previous_annotations(annotations)
    return Request(data, layout, reply_to, cookie, target)


def echo(request: Request) -> bytes:
    """A response with the request's application properties and body, and its cookie if it had one.

    Its `to` is the reply-to and its correlation-id the message-id (else the correlation-id) of the request;
    the expiry is not echoed (RA-2.3-15).
    """
    return _head(request) + request.data[request.layout.app : request.layout.footer]


def respond(request: Request, subject: str, properties: Mapping[str, Value], document: bytes) -> bytes:
    """A response with application properties of its own and, unless it is empty, a JSON document as its body."""
    body = section(DATA, document) if document else section(AMQP_VALUE, None)
    return _head(request, subject, _JSON if document else None) + section(APPLICATION_PROPERTIES, properties) + body


def _head(request: Request, subject: str | None = None, content_type: Symbol | None = None) -> bytes:
    """Annotations and properties."""
    data, layout = request.data, request.layout
    correlation = property_field(data, layout, MESSAGE_ID) or property_field(data, layout, CORRELATION_ID)
    fields = [_NULL] * CONTENT_TYPE
    fields[TO] = _NULL if request.reply_to is None else encode(request.reply_to)
    fields[SUBJECT] = encode(subject)
    fields[CORRELATION_ID] = correlation or _NULL
    if content_type is not None:
        fields.append(encode(content_type))
    annotations = b""
    if request.cookie is not None:
        annotations = edit_map(b"\x00\x53\x71\xc1\x01\x00", put={RESPONSE_COOKIE: encode_binary(request.cookie)}) or b""
    return annotations + b"\x00\x53\x73" + encode_list(fields)
