"""Settings of AMQP sinks (CE 3.2.2.3). Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from bridges.cloudevents.model.members import InvalidMember, Members, object_value, one_of, text
from bridges.cloudevents.model.strict_json import pointer
from bridges.cloudevents.model.values import AmqpSettings, Json, SinkUri
from bridges.cloudevents.subscription.settings.common import MAX_ENTRIES
from policies.values.patterns import routable

_SYMBOL: Final = re.compile(r"[!-~]{1,255}", re.ASCII)


def amqp_settings(members: Members, sink: SinkUri | None) -> AmqpSettings:
    """Parse the settings; the address may be in the path of the sink."""
    mode = members.take("sendersettlementmode", one_of("unsettled", "settled"), "unsettled")
    return AmqpSettings(
        address=_address(members, sink),
        link_name=members.take("linkname", text(255), None),
        settled=mode == "settled",
        link_properties=members.take("linkproperties", _properties, {}),
        mode=members.take("x-mode", one_of("binary", "structured"), "binary"),
        separator=members.take("x-separator", one_of(":", "_"), ":"),
        mechanism=members.take(
            "x-mechanism", one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "ANONYMOUS", "EXTERNAL"), None
        ),
    )


def _address(members: Members, sink: SinkUri | None) -> str:
    path = unquote(sink.path[1:]) if sink is not None else ""
    given = members.take("address", text(1024), None)
    if given is None and not path and sink is not None and "address" not in members:
        members.report("address", "required: the address is neither here nor in the path of the sink")
    elif given is not None and path and given != path:
        members.report("address", "the path of the sink is another address; give one of them")
    found = given or path
    if found and not routable(found):
        members.report("address", "1 to 1024 characters without control characters")
    return found


def _properties(value: Json) -> dict[str, Json]:
    found = object_value(value)
    if len(found) > MAX_ENTRIES:
        raise InvalidMember(f"at most {MAX_ENTRIES} link properties")
    for name, item in found.items():
        if not _SYMBOL.fullmatch(name):
            raise InvalidMember("a symbol: 1 to 255 printable ASCII characters without spaces", pointer(name))
        if isinstance(item, list | dict):
            raise InvalidMember("text, a number, true, false or null", pointer(name))
        if isinstance(item, int) and not -(2**63) <= item < 2**63:
            raise InvalidMember("a number of 64 bits", pointer(name))
        if isinstance(item, str) and len(item) > 4096:
            raise InvalidMember("text of at most 4096 characters", pointer(name))
    return found
