"""A responder's part: the address of the response and the cookie that it carries (RA 2.3, 2.4)."""

from __future__ import annotations

from typing import NamedTuple

from gateway.amqp.codec.codec import Symbol, encode, encode_binary, encode_list
from gateway.amqp.message.properties import CORRELATION_ID, MESSAGE_ID, REPLY_TO, TO, field_value
from gateway.amqp.message.sections import SectionOffsets, edit_map, property_field, walk
from gateway.errors import INVALID_FIELD, AmqpError
from gateway.response.annotations import RESPONSE_COOKIE, previous_annotations

_NULL = b"\x40"


class Request(NamedTuple):
    """A request as its responder sees it."""

    data: bytes
    layout: SectionOffsets
    reply_to: str | None
    cookie: bytes | None
    target: str | None


def read_request(data: bytes, *, honoured: bool = True) -> Request:
    """Where the response goes; raises INVALID_FIELD for wrong types. Not `honoured`: annotations are ignored."""
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
    data, layout = request.data, request.layout
    correlation = property_field(data, layout, MESSAGE_ID) or property_field(data, layout, CORRELATION_ID)
    fields = [_NULL] * (CORRELATION_ID + 1)
    fields[TO] = _NULL if request.reply_to is None else encode(request.reply_to)
    fields[CORRELATION_ID] = correlation or _NULL
    annotations = b""
    if request.cookie is not None:
        annotations = edit_map(b"\x00\x53\x71\xc1\x01\x00", put={RESPONSE_COOKIE: encode_binary(request.cookie)}) or b""
    properties = b"\x00\x53\x73" + encode_list(fields)
    return annotations + properties + data[layout.app : layout.footer]
