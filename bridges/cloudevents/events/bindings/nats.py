"""Events as NATS messages (NATS Protocol Binding 1.0): headers and payload in both modes."""

from __future__ import annotations

from bridges.cloudevents.events.bindings.http import PREFIX, header_text, is_plain, percent_encoded
from bridges.cloudevents.events.bindings.json_format import JSON_EVENT, json_event
from bridges.cloudevents.events.event import CloudEvent

_CONTENT_TYPE = "content-type"


def nats_binary(event: CloudEvent) -> tuple[dict[str, str], bytes]:
    """Headers and payload in binary mode (3.1): as in HTTP, but the content type is an ordinary attribute.

    An event with unreadable attributes is sent unchanged.
    """
    if not event.attributes:
        return nats_structured(event)
    attributes = event.attributes
    if is_plain("".join(attributes.values())):
        headers = {PREFIX + name: value for name, value in attributes.items()}
    else:
        headers = {PREFIX + name: percent_encoded(value) for name, value in attributes.items()}
    if event.content_type is not None:
        headers[PREFIX + "datacontenttype"] = percent_encoded(event.content_type)
    return headers, event.data or b""


def nats_structured(event: CloudEvent) -> tuple[dict[str, str], bytes]:
    """Headers and payload in structured mode (3.2): unchanged if it was structured, otherwise in the JSON format."""
    if event.structured is not None:
        return {_CONTENT_TYPE: header_text(event.structured.content_type)}, event.structured.body
    return {_CONTENT_TYPE: JSON_EVENT}, json_event(event)
