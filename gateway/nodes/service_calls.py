"""What a service that is made elsewhere gets, and what it answers (`gateway.nodes.responder`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gateway.amqp.codec.types import Value


class ServiceRequest(NamedTuple):
    """A request of a user of the service's own scope; `body` is None where it is no data."""

    user: str
    subject: str | None
    properties: Mapping[str, object]
    body: bytes | None


class ServiceAnswer(NamedTuple):
    """What the response says; an empty `document` is none."""

    properties: Mapping[str, Value]
    document: bytes = b""


Responder = Callable[[ServiceRequest, Callable[[ServiceAnswer], None]], None]
"""Answers a request later, on the loop, by calling what it is given; once, whatever happens."""
